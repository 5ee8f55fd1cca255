"""The bytes that token ids stand for, in both kinds of vocabulary, of GGUF files and of folders."""

import json
from pathlib import Path
from typing import Any

import pytest
from gguf import GGUFWriter
from hypothesis import given
from hypothesis import strategies as st
from paceline.clients.model_text import open_tokenizer
from paceline.native.files.pieces import Pieces, blank_pieces, byte_pieces, gguf_pieces, token_list
from paceline.native.weights import ModelUnreadable, read_pieces
from tokenizers import AddedToken, decoders, models
from tokenizers import Tokenizer as Peer
from tokenizers.pre_tokenizers import ByteLevel

from ...clients import test_sentence_pieces as blanks
from ...clients import test_tokenizer as bytewise
from ...clients.test_folder_text import byte_level, folder, sentence_pieces

SPELLING = ByteLevel(add_prefix_space=False, use_regex=False)


def gguf_file(path: Path, values: dict[str, Any]) -> Path:
    writer = GGUFWriter(path, "llama")
    for key, value in values.items():
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        elif value:
            writer.add_array(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def check_what_the_clients_read(path: Path, found: Pieces) -> None:
    tokenizer = open_tokenizer(path)
    assert len(found.texts) == tokenizer.vocab
    pieces = [tokenizer.detokenizer().piece(token) for token in range(tokenizer.vocab)]
    assert pieces == list(found.texts)
    assert [tokenizer.decode([token]) for token in range(tokenizer.vocab)] == [
        text.decode("utf-8", "replace") for text in found.texts
    ]


def refusal(path: Path) -> str:
    with pytest.raises(ModelUnreadable) as caught:
        read_pieces(path)
    text = str(caught.value)
    assert text.startswith(f"cannot turn text into tokens with {path}: ") and "\n" not in text
    return text.removeprefix(f"cannot turn text into tokens with {path}: ")


def test_the_alphabet_has_every_byte_once() -> None:
    found = byte_pieces(bytewise.ALPHABET, ())
    assert sorted(found) == [bytes([byte]) for byte in range(256)]


@given(text=st.text())
def test_a_byte_level_spelling_is_the_bytes_of_its_text(text: str) -> None:
    spelled = "".join(word for word, _ in SPELLING.pre_tokenize_str(text))
    assert byte_pieces([spelled], ()) == [text.encode()]


def test_marks_and_what_is_no_spelling_of_bytes_are_written_as_they_are() -> None:
    tokens = ["Ġa", "Ġa", "<ｅｎｄ▁>", "\ud800", ""]
    assert byte_pieces(tokens, {1}) == [b" a", "Ġa".encode(), "<ｅｎｄ▁>".encode(), b"?", b""]


def test_blanks_and_bytes_of_the_other_kind() -> None:
    tokens = ["▁a▁", "<0x0A>", "<0xFF>", "<0x0a>", "x<0x0A>", "<s>", "é", "\ud800", ""]
    expected = [b" a ", b"\n", b"\xff", b"<0x0a>", b"x<0x0A>", b"<s>", "é".encode(), b"?", b""]
    assert blank_pieces(tokens) == expected


def test_a_byte_level_file(tmp_path: Path) -> None:
    values = bytewise.values(merges=("Ġ a", "Ã ©"))
    path = gguf_file(tmp_path / "model.gguf", values)
    found = read_pieces(path)
    assert list(found.texts[-6:]) == [b" a", "é".encode(), *(mark.encode() for mark in bytewise.MARKS)]
    assert found.marks == {258, 259, 260, 261}  # three of them control tokens, one user-defined
    check_what_the_clients_read(path, found)
    assert gguf_pieces(values) == Pieces(list(found.texts), found.marks, found.control)
    assert len(found.control) == 3 and found.signs == found.marks


def test_a_file_of_sentence_pieces(tmp_path: Path) -> None:
    path = gguf_file(tmp_path / "model.gguf", blanks.values())
    found = read_pieces(path)
    assert list(found.texts[:8]) == [b"<unk>", b"<s>", b"</s>", b"  ", b"\n\n", b"\x00", b"\x01", b"\x02"]
    assert list(found.texts[5 + 0xFF : 5 + 0x102]) == [b"\xff", b" ", b"a"]
    assert found.marks == {1, 2, 3, 4}  # neither the unknown token nor one of a byte
    assert found.control == found.signs == {0, 1, 2}  # two blanks and two lines are text
    check_what_the_clients_read(path, found)


def test_tiny_models_and_the_demo_model(tiny_model: Any, demo_model: Path) -> None:
    for path in (tiny_model(vocab=300), tiny_model(vocab=300, chat="thinking"), demo_model):
        found = read_pieces(path)
        assert found.marks and all(found.texts[mark].startswith(b"<") for mark in found.marks)
        check_what_the_clients_read(path, found)


def test_types_may_be_missing_and_then_nothing_is_a_mark() -> None:
    values = bytewise.values()
    del values["tokenizer.ggml.token_type"]
    assert gguf_pieces(values).marks == frozenset()
    assert gguf_pieces(values).texts[:256] == gguf_pieces(bytewise.values()).texts[:256]


def test_there_are_as_many_as_the_model_has_ids(tmp_path: Path) -> None:
    values = {"tokenizer.ggml.model": "gpt2", "llama.vocab_size": 7}
    assert read_pieces(gguf_file(tmp_path / "model.gguf", values)) == Pieces((b"",) * 7, frozenset(), frozenset())
    one = frozenset({1})
    assert Pieces([b"a", b"b"], one, one).padded(3) == Pieces((b"a", b"b", b""), one, one)
    assert Pieces([b"a", b"b"], one, one).padded(1) == Pieces((b"a", b"b"), one, one)


@pytest.mark.parametrize(
    ("text", "is_sign"),
    [
        ("<think>", True),
        ("</tool_call>", True),
        ("<|im_end|>", True),
        ("[TOOL_CALLS]", True),
        ("<｜tool▁sep｜>", True),
        ("\n\n", False),
        ("  ", False),
        ("<a> <b>", False),
        ("<", False),
        ("<>", False),
        ("[1, 2]", False),
        ("Hello", False),
    ],
)
def test_of_the_marks_that_are_not_control_tokens_those_that_look_like_one_are_signs(text: str, is_sign: bool) -> None:
    pieces = Pieces([b"a", text.encode(), text.encode()], frozenset({1}), frozenset({0}))
    assert pieces.signs == {0} | ({1} if is_sign else set())


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "its tokenizer model is 'none', supported are 'gpt2', 'llama' and 'gemma4'"),
        ({"tokenizer.ggml.model": "t5"}, "its tokenizer model is 't5', supported are 'gpt2', 'llama' and 'gemma4'"),
        ({"tokenizer.ggml.tokens": [1, 2]}, "its tokenizer.ggml.tokens is no list of str"),
        ({"tokenizer.ggml.tokens": "a"}, "its tokenizer.ggml.tokens is no list of str"),
        ({"tokenizer.ggml.token_type": ["1"]}, "its tokenizer.ggml.token_type is no list of int"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, values: dict[str, Any], reason: str) -> None:
    assert refusal(gguf_file(tmp_path / "model.gguf", values)) == reason


def test_a_list_of_a_vocabulary_may_be_missing() -> None:
    assert token_list({}, "scores", float) == []
    with pytest.raises(ValueError, match=r"^its tokenizer.ggml.scores is no list of float$"):
        token_list({"tokenizer.ggml.scores": [0.5, "1"]}, "scores", float)


def test_what_is_no_model_is_refused_as_such(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"no model")
    for path in (tmp_path, tmp_path / "model.gguf"):
        with pytest.raises(ModelUnreadable, match=f"^cannot read the model {path}: "):
            read_pieces(path)


def test_a_byte_level_folder(tmp_path: Path) -> None:
    first = byte_level().get_vocab_size()
    settings = {"added_tokens_decoder": {str(first): {"content": "<call>"}, "257": {"content": "llo"}}}
    path = folder(tmp_path / "m", byte_level(), settings)
    found = read_pieces(path)
    assert list(found.texts[256:]) == [
        *(b"lo", b"llo", b"Hello", b"<s>", b"</s>", b"<tool>", b"<call>"),
        *[b""] * (300 - first - 1),
    ]
    assert found.marks == {257, first - 3, first - 2, first - 1, first}  # also those that only the settings add
    assert found.signs == found.marks - {257} and found.control < found.signs
    check_what_the_clients_read(path, found)


def test_a_folder_of_sentence_pieces(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", sentence_pieces())
    found = read_pieces(path)
    assert list(found.texts[:4]) == [b"<unk>", b"<s>", b"</s>", b"\x00"]
    assert list(found.texts[3 + 0xFF : 3 + 0x102]) == [b"\xff", b" ", b"H"]
    assert len(found.texts) == 300 and found.marks == {1, 2}
    check_what_the_clients_read(path, found)


def test_ids_of_a_folder_that_no_token_has_and_more_than_the_model_has(tmp_path: Path) -> None:
    peer = Peer(models.BPE({"a": 0, "Ġ": 5, "b": 302}, []))
    peer.decoder = decoders.ByteLevel()
    peer.add_tokens([AddedToken("Ġ", normalized=False)])
    path = folder(tmp_path / "m", peer)
    found = read_pieces(path)
    assert len(found.texts) == 303 and found.marks == {5}
    assert {token: text for token, text in enumerate(found.texts) if text} == {0: b"a", 5: "Ġ".encode(), 302: b"b"}
    check_what_the_clients_read(path, found)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("tokenizer.json", None, "the file tokenizer.json is missing"),
        ("tokenizer.json", "[]", "the file tokenizer.json holds no JSON object"),
        ("tokenizer.json", '{"decoder": {"decoders": 5}}', "the file tokenizer.json is not understood"),
        ("tokenizer_config.json", "?", "the file tokenizer_config.json is no JSON"),
        (
            "tokenizer_config.json",
            '{"added_tokens_decoder": [1]}',
            "the key 'added_tokens_decoder' of tokenizer_config",
        ),
        (
            "tokenizer_config.json",
            '{"added_tokens_decoder": {"7": {}}}',
            "the token 7 in 'added_tokens_decoder' of tok",
        ),
    ],
)
def test_a_folder_that_cannot_be_used(tmp_path: Path, name: str, content: str | None, reason: str) -> None:
    path = folder(tmp_path / "m", byte_level())
    (path / name).write_text(content) if content is not None else (path / name).unlink()
    assert refusal(path).startswith(reason)


@pytest.mark.parametrize(
    ("decoder", "kinds"),
    [(None, "None"), (decoders.WordPiece(), "WordPiece"), (decoders.Sequence([decoders.Fuse()]), "Sequence Fuse")],
)
def test_a_decoder_that_is_not_supported(tmp_path: Path, decoder: Any, kinds: str) -> None:
    path = folder(tmp_path / "m", byte_level())
    source = json.loads((path / "tokenizer.json").read_text())
    source["decoder"] = decoder and json.loads(decoder.__getstate__())
    (path / "tokenizer.json").write_text(json.dumps(source))
    assert refusal(path) == f"its decoder is {kinds}, supported are ByteLevel and ByteFallback"
