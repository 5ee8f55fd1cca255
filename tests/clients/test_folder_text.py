"""Tokenizer and chat template of a Hugging Face folder, made with the tokenizers package itself."""

import json
from pathlib import Path
from typing import Any

import pytest
from paceline.clients import model_text
from paceline.clients.chat import BrokenTemplate, NoTemplate
from paceline.clients.cli import main
from paceline.clients.folder_text import FolderTokenizer
from paceline.clients.harmony import MARKS, harmony_marks
from paceline.clients.http.requests.asked import Chat
from paceline.clients.http.texts import Texts
from paceline.clients.model_text import ModelText, open_chat_template, open_tokenizer
from paceline.clients.tokenizer import Tokenizer
from paceline.native.weights import Metadata, ModelUnreadable, read_metadata
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as Peer

CONFIG = {"model_type": "qwen2", "vocab_size": 300, "max_position_embeddings": 64, "hidden_size": 8,
          "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}  # fmt: skip
TEMPLATE = "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}"
TEXTS = ["", "Hello, world", "naïve 12 🙂\n", "  two  blanks", "<s>a</s>", "a<tool>b", "Ünï ▁ code"]


def byte_level(begin: bool = False) -> Peer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*alphabet, "lo", "llo", "Hello"])}
    peer = Peer(models.BPE(vocabulary, [("l", "o"), ("l", "lo")]))
    peer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    peer.decoder = decoders.ByteLevel()
    peer.add_special_tokens(["<s>", "</s>"])
    peer.add_tokens([AddedToken("<tool>", normalized=False)])
    if begin:
        peer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", peer.token_to_id("<s>"))])
    return peer


def sentence_pieces() -> Peer:
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"Helo,wrd", "lo", "▁w"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    peer = Peer(models.BPE(vocabulary, [("l", "o"), ("▁", "w")], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    from tokenizers import normalizers

    peer.normalizer = normalizers.Replace(" ", "▁")
    peer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    peer.add_special_tokens(["<s>", "</s>"])
    return peer


def test_the_marks_of_a_folder_that_answers_in_harmony(tmp_path: Path) -> None:
    peer = byte_level(begin=True)
    peer.add_special_tokens([*MARKS])
    template = {"chat_template": "<|channel|><|message|>{{ messages[0].content }}<|start|>assistant"}
    path = folder(tmp_path / "m", peer, template)
    ours = open_tokenizer(path)
    marks = harmony_marks(open_chat_template(path).source, ours)
    assert marks == {peer.token_to_id(mark): mark for mark in MARKS}
    order = ModelText(str(path), 64).order([{"role": "user", "content": "Hi"}], 5, ())
    assert order.decoder is not None
    ids = ours.encode_rendered(
        "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>Yes"
    )
    assert "".join(map(order.decoder.push, ids)) == "<think>\nHm\n</think>\n\nYes"


def folder(path: Path, peer: Peer, settings: dict[str, Any] | None = None) -> Path:
    path.mkdir()
    peer.save(str(path / "tokenizer.json"))
    (path / "config.json").write_text(json.dumps(CONFIG))
    (path / "tokenizer_config.json").write_text(json.dumps(settings or {}))
    return path


@pytest.mark.parametrize("make", [byte_level, sentence_pieces])
def test_ids_are_the_peers_and_text_comes_back(tmp_path: Path, make: Any) -> None:
    peer, ours = make(), open_tokenizer(folder(tmp_path / "m", make()))
    assert isinstance(ours, FolderTokenizer) and ours.vocab == 300
    for text in TEXTS:
        ids = ours.encode(text)
        assert ids == peer.encode(text).ids
        back = text.replace("▁", " ") if make is sentence_pieces else text
        assert ours.decode(ids) == back == ours.decode(ours.encode(text, special=False))
        stream = ours.detokenizer()
        assert "".join(map(stream.push, ids)) + stream.flush() == back
    assert peer.token_to_id("<s>") in ours.encode("<s>a") and peer.token_to_id("<s>") not in ours.encode("<s>a", False)
    assert ours.decode([299]) == ""  # the model has more ids than the tokenizer


def test_a_begin_token_is_added_once_and_to_control_text_only(tmp_path: Path) -> None:
    peer, ours = byte_level(begin=True), FolderTokenizer(folder(tmp_path / "m", byte_level(begin=True)))
    start = peer.token_to_id("<s>")
    assert ours.encode("Hi") == peer.encode("Hi").ids and ours.encode("Hi")[0] == start
    assert ours.encode("<s>Hi") == ours.encode("Hi") and ours.encode("") == [start]
    assert start not in ours.encode("Hi", special=False)
    for text in ("Hi", "<s>Hi"):  # a template has its begin token, or wants none
        assert ours.encode_rendered(text) == peer.encode(text, add_special_tokens=False).ids


def test_tokens_that_only_the_settings_list_are_added(tmp_path: Path) -> None:
    entries = [("<call>", {"normalized": False}), ("<tool>", {"normalized": False, "lstrip": True}), ("<s>", {})]
    first = byte_level().get_vocab_size()
    listed = {str(first + 10 - n): {"content": token, **flags} for n, (token, flags) in enumerate(entries)}
    ours = FolderTokenizer(folder(tmp_path / "m", byte_level(), {"added_tokens_decoder": listed}))
    peer = byte_level()
    peer.add_tokens([AddedToken(token, **flags) for token, flags in reversed(entries)])
    for text in ("a<call>b", "a  <tool>b", "<s>", "<call"):
        assert ours.encode(text) == peer.encode(text).ids
        assert ours.decode(ours.encode(text)) == peer.decode(peer.encode(text).ids, skip_special_tokens=False)
    assert ours.encode("<call>") == [first] == ours.encode("<call>", special=False)


def test_chats_begin_as_the_template_has_it(tmp_path: Path) -> None:
    settings = {"chat_template": "{{ messages[0].content }}", "bos_token": "<s>"}
    path = folder(tmp_path / "m", byte_level(begin=True), settings)
    expected = byte_level().encode("Hello").ids
    assert ModelText(str(path), 300).ids([{"role": "user", "content": "Hello"}]) == expected
    assert Texts.open(path, 300, 300).read(Chat(({"role": "user", "content": "Hello"},))).ids == expected


def test_the_template_in_its_file_or_among_the_settings(tmp_path: Path) -> None:
    named = [{"name": "tools", "template": "no"}, {"name": "default", "template": TEMPLATE}]
    end = {"content": "</s>", "special": True}
    for number, settings in enumerate(({"chat_template": TEMPLATE}, {"chat_template": named}, {"chat_template": "no"})):
        path = folder(tmp_path / str(number), byte_level(), {**settings, "bos_token": None, "eos_token": end})
        if number == 2:
            (path / "chat_template.jinja").write_text(TEMPLATE)
        assert open_chat_template(path).render([{"role": "user", "content": "x"}]) == "<s>user: x</s>"
        assert (open_tokenizer(path).bos, open_tokenizer(path).eos) == ("", "</s>")
    path = folder(tmp_path / "old", byte_level(), {"chat_template": TEMPLATE})
    (path / "special_tokens_map.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": {"content": "</s>"}}))
    assert (open_tokenizer(path).bos, open_tokenizer(path).eos) == ("<s>", "</s>")
    settings = {"chat_template": "{{ bos_token }}{{ pad_token }}{{ unk_token }}", "bos_token": None, "pad_token": "<p>"}
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    assert open_chat_template(path).render([{"role": "user", "content": "x"}]) == "<s><p>"
    assert open_chat_template(path, "{{ bos_token }}own").render([{"role": "user", "content": "x"}]) == "<s>own"


def test_the_command_line_takes_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder(tmp_path / "m", byte_level(), {"chat_template": TEMPLATE, "eos_token": "</s>"})
    assert main(["encode", "--model", str(path), "--chat", "Hello"]) == 0
    expected = byte_level().encode("<s>user: Hello</s>").ids
    assert capsys.readouterr().out.strip() == ",".join(map(str, expected))


def test_gguf_files_open_as_before(demo_model: Path) -> None:
    assert isinstance(open_tokenizer(demo_model), Tokenizer) and open_chat_template(demo_model)


def test_a_gguf_file_is_read_once_for_both(demo_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def told(path: Path) -> Metadata:
        read.append(path)
        return read_metadata(path)

    monkeypatch.setattr(model_text, "read_metadata", told)
    text = ModelText(str(demo_model), 64)
    for _ in range(2):
        assert text.order([{"role": "user", "content": "Hi"}], 5, ()).total == 5
    assert read == [demo_model]


def test_without_a_template_there_is_text(silent_model: Path, tmp_path: Path) -> None:
    silent = folder(tmp_path / "silent", byte_level())
    (broken := folder(tmp_path / "broken", byte_level())).joinpath("chat_template.jinja").write_text("{% if %}")
    for path, problem in ((silent, NoTemplate), (broken, BrokenTemplate), (silent_model, NoTemplate)):
        text = ModelText(str(path), 64)
        for _ in range(2):
            assert text.ids("ab") and text.ids([1, 2]) == [1, 2]
            with pytest.raises(problem, match=path.name):
                text.ids([{"role": "user", "content": "Hi"}])


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("tokenizer.json", None, "the file tokenizer.json is missing"),
        ("tokenizer.json", "{", "the file tokenizer.json is no JSON"),
        ("tokenizer.json", "[]", "the file tokenizer.json holds no JSON object"),
        ("tokenizer.json", "{}", "the file tokenizer.json is not understood"),
        ("tokenizer_config.json", "?", "the file tokenizer_config.json is no JSON"),
        (
            "tokenizer_config.json",
            '{"added_tokens_decoder": {"x": {}}}',
            "'added_tokens_decoder' of tokenizer_con",
        ),
        (
            "tokenizer_config.json",
            '{"added_tokens_decoder": {"7": {}}}',
            "the token 7 in 'added_tokens_decoder'",
        ),
    ],
)
def test_files_that_are_missing_or_broken(tmp_path: Path, name: str, content: str | None, reason: str) -> None:
    path = folder(tmp_path / "m", byte_level())
    (path / name).write_text(content) if content is not None else (path / name).unlink()
    with pytest.raises(ModelUnreadable, match=reason) as caught:
        open_tokenizer(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_what_is_not_supported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    peer = byte_level()
    peer.decoder = decoders.WordPiece()
    with pytest.raises(ModelUnreadable, match="its decoder is WordPiece, supported are ByteLevel and ByteFallback"):
        open_tokenizer(folder(tmp_path / "words", peer))
    path = folder(tmp_path / "silent", byte_level())
    with pytest.raises(
        NoTemplate, match=r"has no chat template, expected chat_template\.jinja or the key 'chat_template'"
    ):
        open_chat_template(path)
    assert main(["encode", "--model", str(path), "--chat", "Hello"]) == 66
    out, err = capsys.readouterr()
    assert out == "" and "has no chat template" in err and err.count("\n") == 1
    (path / "chat_template.jinja").write_text("{% if %}")
    with pytest.raises(BrokenTemplate, match="its chat template is broken") as caught:
        open_chat_template(path)
    assert str(path) in str(caught.value) and str(path) not in caught.value.reason
    (path / "chat_template.jinja").unlink()
    (path / "chat_template.jinja").mkdir()
    with pytest.raises(BrokenTemplate, match=r"chat_template\.jinja cannot be read \(Is a directory\)") as caught:
        open_chat_template(path)
    assert str(path) not in caught.value.reason
