"""SentencePiece's merges against the plain rule, and a vocabulary of its kind in a Tokenizer."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paceline.clients.sentence_pieces import Marks, SentencePieces
from paceline.clients.tokenizer import Tokenizer

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
HEAD = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL), ("  ", USER_DEFINED), ("\n\n", USER_DEFINED)]
SPELLED = [(f"<0x{byte:02X}>", BYTE) for byte in range(256)]
WORDS = ["▁", "a", "b", "c", "\n", "ab", "▁a", "ba", "aba", "▁ab", "aa", "abab", "b▁", "ca", "▁c"]


def values(words: Sequence[str] = WORDS, spelled: bool = True, **more: Any) -> dict[str, Any]:
    """Among `words` the first have the higher scores."""
    kinds = [*HEAD, *(SPELLED if spelled else []), *((word, NORMAL) for word in words)]
    scores = [0.0] * (len(kinds) - len(words)) + [-float(place) for place in range(len(words))]
    found: dict[str, Any] = {"model": "llama", "tokens": [token for token, _ in kinds], "scores": scores}
    found |= {"token_type": [kind for _, kind in kinds], "bos_token_id": 1, "eos_token_id": 2}
    found |= {"add_space_prefix": False, "add_bos_token": False}
    return {f"tokenizer.ggml.{key}": value for key, value in (found | more).items()}


def spelled(tokenizer: Tokenizer, text: str, special: bool = True) -> list[str]:
    return [tokenizer.decode([token]) for token in tokenizer.encode(text, special)]


def plain(text: str, scores: dict[str, float]) -> list[str]:
    """The rule itself: merge the best pair, the leftmost of equals, until there is none."""
    parts = list(text)
    while True:
        pairs = [(-scores[made], at) for at in range(len(parts) - 1) if (made := parts[at] + parts[at + 1]) in scores]
        if not pairs:
            return parts
        _, at = min(pairs)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


@settings(deadline=None)
@given(text=st.text("▁abc", max_size=60), order=st.permutations(WORDS))
def test_merges_are_those_of_the_plain_rule(text: str, order: list[str]) -> None:
    scores = {word: -float(place) for place, word in enumerate(order)}
    pieces = SentencePieces(order, [NORMAL] * len(order), list(scores.values()), prefix=False)
    found = [order[number] for number in pieces.encode(text, Marks({}))]
    assert found == plain(text, scores)


@settings(deadline=None)
@given(text=st.text(st.sampled_from("▁abc \n\x00é🙂<s>/0xA")))
def test_text_survives_both_ways(text: str) -> None:
    tokenizer = Tokenizer(values())
    ids = tokenizer.encode(text, special=False)
    assert tokenizer.decode(ids) == text.replace("▁", " ")
    stream = tokenizer.detokenizer()
    assert "".join(map(stream.push, ids)) + stream.flush() == text.replace("▁", " ")


def test_user_defined_tokens_are_taken_whole_and_control_tokens_if_they_may() -> None:
    tokenizer = Tokenizer(values())
    assert spelled(tokenizer, "a   a\n\n\n") == ["a", "  ", " a", "\n\n", "\n"]
    assert tokenizer.encode("<s>a</s>") == [1, tokenizer.encode("a")[0], 2]
    assert "".join(spelled(tokenizer, "<s>", special=False)) == "<s>" and 1 not in tokenizer.encode("<s>", False)


def test_characters_without_a_token() -> None:
    assert Tokenizer(values()).encode("é") == [5 + 0xC3, 5 + 0xA9]
    unspelled = Tokenizer(values(spelled=False))
    assert [unspelled.encode(text).count(0) for text in ("éé", "éaé")] == [1, 2]


def test_a_begin_token_and_a_blank_in_front() -> None:
    begins = Tokenizer(values(add_bos_token=True, add_space_prefix=True))
    assert spelled(begins, "ab") == ["<s>", " ab"] == spelled(begins, "<s>ab")
    assert spelled(begins, "ab</s>ab", special=True) == ["<s>", " ab", "</s>", " ab"]
    assert begins.encode("") == [1]
    silent = {key: value for key, value in values().items() if not key.endswith(("bos_token", "space_prefix"))}
    assert spelled(Tokenizer(silent), "ab") == ["<s>", " ab"]  # as SentencePiece's own defaults


def test_a_long_word_is_quick_and_the_same() -> None:
    tokenizer = Tokenizer(values())
    assert "".join(spelled(tokenizer, "ab" * 5000)) == "ab" * 5000
    assert spelled(tokenizer, "a" * 1001) == ["aa"] * 500 + ["a"]


def test_scores_that_are_missing_are_named() -> None:
    with pytest.raises(ValueError, match=r"^its tokenizer.ggml.scores is no list of float$"):
        Tokenizer(values(scores=["high"]))
    with pytest.raises(ValueError, match=r"^276 tokens, 276 types and 3 scores, expected as many of each$"):
        Tokenizer(values(scores=[0.0, 0.0, 0.0]))
