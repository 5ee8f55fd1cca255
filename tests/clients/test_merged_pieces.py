"""Gemma 4's kind of vocabulary: SentencePiece's characters, with a list of merges."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from gguf import GGUFValueType, GGUFWriter
from hypothesis import given, settings
from hypothesis import strategies as st
from paceline.clients.model_text import open_tokenizer
from paceline.clients.tokenizer import Tokenizer
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Peer

from .odd_texts import odd_texts
from .test_folder_text import folder

NORMAL, CONTROL, USER_DEFINED, BYTE = 1, 3, 4, 6
BEGIN, UNKNOWN = 2, 3
CONTROLS = ["<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>", "<|think|>", "<|tool_response>"]
SHOWN = [
    "<|channel>",
    "<channel|>",
    "<|tool_call>",
    "<tool_call|>",
    '<|"|>',
]  # control tokens that files call the user's
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
LETTERS = ["▁", "\n", "\t", *"abcdehilnorstu<>|/é天", "</s>", "<b>"]
MERGES = [
    *("\n\n \n", "▁▁ ▁", "\n \n", "▁ ▁", "t h", "i n", "a b", "▁ th", "▁th e", "h e", "e r", "▁ a", "b a", "ab ab"),
    *("o n", "a ba", "r e", "▁t he", "▁ t", "< b", "<b >", "t in", "▁ in", "s t", "in st", "é 天"),
]
LINES = ["\n\n", "\n\n\n", "▁▁", "▁▁▁"]
MADE = list(dict.fromkeys([*LINES, *(merge.replace(" ", "") for merge in MERGES)]))
TOKENS = list(dict.fromkeys([*CONTROLS, *SHOWN, *BYTES, *LETTERS, *MADE]))


def values(**more: Any) -> dict[str, Any]:
    kinds = {**dict.fromkeys(CONTROLS, CONTROL), **dict.fromkeys(SHOWN, USER_DEFINED), **dict.fromkeys(BYTES, BYTE)}
    found: dict[str, Any] = {"model": "gemma4", "tokens": TOKENS, "scores": [-1000.0] * len(TOKENS), "merges": MERGES}
    found |= {"token_type": [kinds.get(token, NORMAL) for token in TOKENS], "add_bos_token": True}
    found |= {"bos_token_id": BEGIN, "eos_token_id": 1, "unknown_token_id": UNKNOWN, "add_space_prefix": False}
    return {f"tokenizer.ggml.{key}": value for key, value in (found | more).items()}


def peer(marks: Sequence[str]) -> Peer:
    """As transformers makes the tokenizer of a Gemma."""
    ids = {token: number for number, token in enumerate(TOKENS)}
    merges = [tuple(merge.split(" ")) for merge in MERGES]
    made = Peer(models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Replace(" ", "▁")
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    made.add_tokens([AddedToken(mark, normalized=False) for mark in marks])
    return made


OURS, WHOLE, PLAIN = Tokenizer(values()), peer([*CONTROLS, *SHOWN]), peer(SHOWN)
PARTS = st.sampled_from([*TOKENS, *"abthein \n▁<|>éö🙂\x00", "  ", "\n\n\n\n", "<|", "|>", "the in"])


@settings(deadline=None)
@given(st.lists(PARTS, max_size=30).map("".join))
def test_ids_are_the_librarys_and_text_comes_back(text: str) -> None:
    assert OURS.encode(f"<bos>{text}") == WHOLE.encode(f"<bos>{text}").ids
    ids = OURS.encode(text, special=False)
    assert ids == PLAIN.encode(text).ids
    assert OURS.decode(ids) == text.replace("▁", " ")
    stream = OURS.detokenizer()
    assert "".join(map(stream.push, ids)) + stream.flush() == text.replace("▁", " ")


def spelled(text: str, special: bool = True) -> list[str]:
    return [TOKENS[token] for token in OURS.encode(text, special)]


def test_merges_go_by_their_list_and_over_whole_lines() -> None:
    assert spelled("the the", special=False) == ["th", "e", "▁the"]
    assert spelled("   inst", special=False) == ["▁▁▁", "inst"]
    assert spelled("ababab\n\n\n\n <b>", special=False) == ["abab", "ab", "\n\n\n", "\n", "▁", "<b>"]


def test_control_tokens_are_whole_if_they_may_and_the_users_always() -> None:
    assert spelled('<|turn>a<|"|>') == ["<bos>", "<|turn>", "a", '<|"|>']
    assert spelled("<turn|>a<|tool_call>", special=False)[-2:] == ["a", "<|tool_call>"]
    assert TOKENS.index("<turn|>") not in OURS.encode("<turn|>", special=False)


def test_a_begin_token_comes_first_whatever_a_file_says() -> None:
    for tokenizer in (OURS, Tokenizer(values(add_bos_token=False))):
        assert tokenizer.encode("a") == tokenizer.encode("<bos>a") == [BEGIN, TOKENS.index("a")]
        assert tokenizer.encode("") == [BEGIN] and tokenizer.bos == "<bos>" and tokenizer.eos == "<eos>"


def test_characters_without_a_token() -> None:
    assert spelled("ö", special=False) == ["<0xC3>", "<0xB6>"]
    byteless = [token for token in TOKENS if token not in BYTES]
    kinds = [CONTROL if token in CONTROLS else NORMAL for token in byteless]
    assert Tokenizer(values(tokens=byteless, token_type=kinds)).encode("aöüa", special=False).count(UNKNOWN) == 1


def test_merges_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match=r"^its vocabulary and merges do not fit together: .*nowhere"):
        Tokenizer(values(merges=["a nowhere"]))


def test_a_folder_gives_the_same_ids(tmp_path: Path) -> None:
    made = peer([])
    made.add_special_tokens([AddedToken(mark, normalized=False, special=True) for mark in [*CONTROLS, *SHOWN]])
    made.post_processor = processors.TemplateProcessing("<bos> $A", special_tokens=[("<bos>", BEGIN)])
    ours = open_tokenizer(folder(tmp_path / "gemma", made))
    for text in odd_texts([*CONTROLS, *SHOWN], 1000):
        assert ours.encode(text) == OURS.encode(text), ascii(text)
        assert ours.decode(ours.encode(text, special=False)) == text.replace("▁", " ")


@pytest.mark.slow
def test_ids_are_transformers_on_ten_thousand_texts() -> None:
    from transformers import GemmaTokenizer

    ids = {token: number for number, token in enumerate(TOKENS)}
    merges: Any = [tuple(merge.split(" ")) for merge in MERGES]
    theirs = GemmaTokenizer(ids, merges, mask_token="<pad>", additional_special_tokens=[*CONTROLS, *SHOWN])
    for text in odd_texts([*CONTROLS, *SHOWN]):
        assert OURS.encode(f"<bos>{text}") == theirs.encode(f"<bos>{text}", add_special_tokens=False), ascii(text)


@pytest.mark.slow
def test_ids_are_llama_cpps_on_ten_thousand_texts(tmp_path: Path) -> None:
    path, kinds = tmp_path / "vocabulary.gguf", {bool: GGUFValueType.BOOL, int: GGUFValueType.UINT32}
    writer = GGUFWriter(path, "gemma4")
    for key, value in values().items():
        kind = GGUFValueType.ARRAY if isinstance(value, list) else kinds.get(type(value), GGUFValueType.STRING)
        writer.add_key_value(key, value, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    from llama_cpp import Llama

    theirs = Llama(str(path), vocab_only=True, verbose=False)
    for text in odd_texts([*CONTROLS, *SHOWN]):
        assert OURS.encode(text, special=False) == theirs.tokenize(text.encode(), add_bos=False, special=False)
        begins = not text.startswith("<bos>")
        assert OURS.encode(text) == theirs.tokenize(text.encode(), add_bos=begins, special=True), ascii(text)
