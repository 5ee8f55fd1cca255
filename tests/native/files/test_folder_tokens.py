"""A folder's tokenizer.json with the settings beside it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from paceline.native.files.folder_tokens import SPECIAL_TOKENS, FolderTokens, read_tokenizer_settings
from paceline.native.files.text_ends import SETTINGS, TOKENIZER

from ...clients.test_folder_text import byte_level, folder


def write(path: Path, special: dict[str, Any] | None, settings: dict[str, Any] | None) -> Path:
    for name, content in ((SPECIAL_TOKENS, special), (SETTINGS, settings)):
        if content is not None:
            (path / name).write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("special", "settings", "expected"),
    [
        (None, None, {}),
        ({"bos_token": "<s>"}, None, {"bos_token": "<s>"}),
        (None, {"bos_token": None, "eos_token": "</s>"}, {"eos_token": "</s>"}),
        ({"bos_token": "<s>", "eos_token": "<e>"}, {"bos_token": None, "eos_token": "</s>"},
         {"bos_token": "<s>", "eos_token": "</s>"}),
        ({"bos_token": "<s>"}, {"bos_token": None, "added_tokens_decoder": {}},
         {"bos_token": None, "added_tokens_decoder": {}}),
    ],
)  # fmt: skip
def test_settings_and_the_special_tokens_of_older_folders(
    tmp_path: Path, special: dict[str, Any] | None, settings: dict[str, Any] | None, expected: dict[str, Any]
) -> None:
    assert read_tokenizer_settings(write(tmp_path, special, settings)) == expected


def test_each_encoder_is_a_new_one_and_reads_a_whole_text(tmp_path: Path) -> None:
    peer = byte_level()
    peer.enable_truncation(2)
    peer.enable_padding(length=9)
    tokens = FolderTokens(folder(tmp_path / "m", peer, {"bos_token": "<s>"}))
    plain, other = tokens.encoder(), tokens.encoder()
    plain.encode_special_tokens = True
    assert not other.encode_special_tokens and tokens.settings == {"bos_token": "<s>"}
    assert other.encode("Hello, <s>").ids == byte_level().encode("Hello, <s>").ids
    assert tokens.pieces(plain) == tokens.pieces(other)


def test_what_the_settings_say_of_a_token_holds(tmp_path: Path) -> None:
    entries = {"9": {"content": "<late>"}, "8": {"content": "<soon>"}, "1": {"content": "<tool>", "special": True}}
    encoder = FolderTokens(folder(tmp_path / "m", byte_level(), {"added_tokens_decoder": entries})).encoder()
    first = byte_level().get_vocab_size()
    assert [encoder.token_to_id(token) for token in ("<soon>", "<late>", "<tool>")] == [first, first + 1, first - 1]
    assert encoder.get_added_tokens_decoder()[first - 1].special


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"^the file {TOKENIZER} is missing$"):
        FolderTokens(tmp_path)
    (tmp_path / TOKENIZER).write_text("{}")
    with pytest.raises(ValueError, match=f"^the file {TOKENIZER} is not understood "):
        FolderTokens(tmp_path).encoder()
    (tmp_path / SPECIAL_TOKENS).write_text("[]")
    with pytest.raises(ValueError, match=f"^the file {SPECIAL_TOKENS} holds no JSON object$"):
        FolderTokens(tmp_path)


def test_who_reads_a_gguf_file_loads_no_tokenizer(tiny_model: Any) -> None:
    program = "import sys; from pathlib import Path; from paceline.native.weights import read_pieces\n"
    program += "print(len(read_pieces(Path(sys.argv[1])).texts), 'tokenizers' in sys.modules)"
    command = [sys.executable, "-c", program, str(tiny_model(vocab=300))]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "300 False\n"
