"""Thoughts and what is said, apart, however the text comes in pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paceline.clients.http.speech.cutter import Delta, Likely
from paceline.clients.http.speech.thinking import Splitter
from paceline.clients.thoughts import KNOWN, Marks, marks_of

THINK, COMMAND, CHANNEL = KNOWN[0], KNOWN[-2], KNOWN[-1]
LIKELY = [Likely(n, -1.0, ()) for n in range(9)]


def split(pieces: list[str], begun: bool = False, marks: Marks = THINK) -> tuple[list[Delta], str, str]:
    """The pieces that leave, and the two texts."""
    splitter = Splitter(marks, begun)
    parts = [part for piece in pieces for part in splitter.push(Delta(piece))] + splitter.finish(Delta(""))
    thought, said = ("".join(part.text for part in parts if part.thought is kind) for kind in (True, False))
    return parts, thought, said


@pytest.mark.parametrize(
    ("begun", "text", "thought", "said"),
    [
        (False, "<think>\nHm. So.\n</think>\n\nYes.", "Hm. So.", "Yes."),
        (True, "\nHm. So.\n</think>\n\nYes.", "Hm. So.", "Yes."),
        (False, "\n <think>Hm</think>Yes", "Hm", "Yes"),
        (False, "<think>\n\n</think>\n\nYes. ", "", "Yes. "),
        (False, "  No marks here </think>, or <think> late", "", "  No marks here </think>, or <think> late"),
        (False, "<think>cut of", "cut of", ""),
        (False, "<think>Hm</think>\n\n", "Hm", ""),
        (True, "Hm</think> \n", "Hm", ""),
        (True, "cut off </thi", "cut off </thi", ""),
        (False, " <thi", "", " <thi"),
        (False, "<thinking>no</thinking>", "", "<thinking>no</thinking>"),
        (True, "a < b </ c <<</think></think>", "a < b </ c <<", "</think>"),
        (True, "", "", ""),
        (False, " \n", "", " \n"),
        (True, " \n", "", ""),
    ],
)
def test_what_is_thought_and_what_is_said(begun: bool, text: str, thought: str, said: str) -> None:
    for size in range(1, len(text) + 2):
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        parts, *found = split(pieces, begun)
        assert found == [thought, said], size
        assert all(part.text for part in parts)


@pytest.mark.parametrize(
    ("text", "thought", "said"),
    [
        ("<|channel>thought\nHm. So.\n<channel|>Yes. ", "Hm. So.", "Yes. "),
        ("<|channel>thought<channel|>Yes.", "", "Yes."),
        (" Yes. \n", "", " Yes. \n"),
        ("<|channel>thought\n<channel|>Yes.<channel|>", "", "Yes."),
        ("<|channel>thought\n<channel|>Yes.<|channel>thought\n<channel|>", "", "Yes."),
        ("<|channel>thought\n<channel|>Yes.<|channel>thought\n<channel|><channel|>", "", "Yes."),
        ("<|channel><|channel>thought\nHm.<channel|>Yes.", "Hm.", "Yes."),
        ("Yes. <|channel>thought\nOr?\n<channel|>\nNo.", "Or?", "Yes. \nNo."),
        ("<|channel>thought Hm.<channel|><|channel>thought So.<channel|>Yes", "Hm.\nSo.", "Yes"),
        ("Yes <|chan", "", "Yes <|chan"),
        ("Yes.<|channel>", "", "Yes."),
        ("<|channel>thought\ncut off", "cut off", ""),
        ("<|channel>thought Hm.<channel|><|channel>thought cut <chan", "Hm.\ncut <chan", ""),
        ("a <b> <|turn> c", "", "a <b> <|turn> c"),
        ("a <chan<|channel>nel|> b", "", "a <channel|> b"),
    ],
)
def test_gemma_may_think_again_and_marks_alone_are_nothing(text: str, thought: str, said: str) -> None:
    for size in range(1, len(text) + 2):
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        parts, *found = split(pieces, marks=CHANNEL)
        assert found == [thought, said], size
        assert all(part.text for part in parts)


def test_what_is_known_leaves_at_once() -> None:
    splitter = Splitter(THINK, begun=False)
    seen = [
        splitter.push(Delta(text)) for text in ("<think>\n", "One", " <", "b", "\n", "</think>", "\n", "Yes", " ", "no")
    ]
    assert [[part[::2] for part in parts] for parts in seen] == [
        [], [("One", True)], [], [(" <b", True)], [], [], [], [("Yes", False)], [(" ", False)], [("no", False)],
    ]  # fmt: skip


def test_no_log_probability_is_lost() -> None:
    words = ["<think>", "\n", "Hm", "</think>", "\n", "Yes", ".", "", "\n"]
    splitter = Splitter(THINK, begun=False)
    parts = [part for n, word in enumerate(words) for part in splitter.push(Delta(word, (LIKELY[n],)))]
    parts += splitter.finish(Delta(""))
    assert [one for part in parts for one in part.likely] == LIKELY
    assert [part.likely for part in parts if part.text == "Hm"] == [tuple(LIKELY[:3])]
    alone = Splitter(THINK, begun=True)
    assert alone.push(Delta("\n", (LIKELY[0],))) == []
    assert alone.finish(Delta("")) == [Delta("", (LIKELY[0],), True)]


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<", "th", "ink>", "/", "a", " ", "\n"]), max_size=12),
    st.booleans(),
)
def test_the_pieces_make_no_difference(pieces: list[str], begun: bool) -> None:
    assert split(pieces, begun)[1:] == split(["".join(pieces)], begun)[1:]


CHANNELS = ["<|channel>", "thought", "<channel|>", "<", "|", "channel", ">", "a", " ", "\n"]


@given(st.lists(st.sampled_from(CHANNELS), max_size=12), st.booleans())
def test_nor_do_gemmas(pieces: list[str], begun: bool) -> None:
    assert split(pieces, begun, CHANNEL)[1:] == split(["".join(pieces)], begun, CHANNEL)[1:]


@pytest.mark.parametrize(
    ("text", "thought", "said"),
    [
        ("<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Yes.<|END_RESPONSE|>", "Hm.", "Yes."),
        ("<|START_RESPONSE|>Yes. <|END_RESPONSE|>", "", "Yes. "),
        ("<|START_THINKING|><|END_THINKING|><|START_TEXT|>Yes.<|END_TEXT|>", "", "Yes."),
        (
            "<|START_THINKING|>Hm.<|END_THINKING|><|START_ACTION|>[]<|END_ACTION|>",
            "Hm.",
            "<|START_ACTION|>[]<|END_ACTION|>",
        ),
        ("Yes <|START", "", "Yes <|START"),
    ],
)
def test_command_r7b_marks_what_it_says_too(text: str, thought: str, said: str) -> None:
    for size in (1, 2, 5, len(text)):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert split(pieces, False, COMMAND)[1:] == (thought, said), size


def test_marks_are_those_of_the_template() -> None:
    assert marks_of("{{ '<|START_THINKING|><|END_THINKING|>' }}") == COMMAND
    assert marks_of("{{ '<|channel>thought\n<channel|>' }}") == CHANNEL
    assert marks_of("{{ content.split('</think>')[-1] }}") == THINK
    assert marks_of("[THINK]{{ x }}[/THINK]") == KNOWN[1]
    assert marks_of("<|im_start|>assistant") is None


def test_a_prompt_may_have_begun_the_thought() -> None:
    assert Splitter.after(THINK, "…assistant\n<think>\n").thinking
    assert not Splitter.after(THINK, "…assistant\n<think>\n\n</think>\n\n").thinking
    assert not Splitter.after(THINK, "…assistant\n").thinking
