"""Answers in the harmony format, as they are sent: stop strings and log probabilities are those of the text."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paceline.clients.detokenizer import Detokenizer
from paceline.clients.harmony import MARKS, Channels
from paceline.clients.http.speech.channels import ChannelSplitter, Counted
from paceline.clients.http.speech.cutter import Cutter, Delta, Likely
from paceline.clients.http.speech.voice import Voice
from paceline.clients.stop_strings import Searched, StopStrings

from ...test_harmony import CUTS, MESSAGES, PROMPT, THOUGHT, Message, spelled, tokens_of, told

ANSWER = f"{THOUGHT}<|channel|>final<|message|>Yes."


CALL = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>"


def voice(pieces: Sequence[bytes], stops: Sequence[str] = (), tools: bool = False, prompt: str = PROMPT) -> Voice:
    strings = StopStrings(stops)
    counted = Counted(Channels(dict(enumerate(MARKS)), Detokenizer(pieces), prompt, strings, tools))
    return Voice(Cutter(counted, Searched(strings)), ChannelSplitter(counted))


def sent(
    text: str, cuts: Sequence[int] = (), stops: Sequence[str] = (), tools: bool = False, prompt: str = PROMPT
) -> tuple[list[Delta], str | None, int]:
    """The pieces that leave, the stop string that ended it, and the number of tokens. The log probability of a token is
    told by its place."""
    pieces, ids = tokens_of(text, cuts)
    one, taken = voice(pieces, stops, tools, prompt), 0
    parts: list[Delta] = []
    for place, token in enumerate(ids):
        parts += one.push(token, Likely(place, -1.0, ()))
        taken += 1
        if one.stopped is not None:
            break
    return [*parts, *one.finish()], one.stopped, taken


def texts(parts: Sequence[Delta]) -> tuple[str, str]:
    thought, said = ("".join(part.text for part in parts if part.thought is kind) for kind in (True, False))
    return thought, said


@given(MESSAGES, CUTS)
def test_thoughts_and_answer_leave_apart_with_all_log_probabilities(messages: list[Message], cuts: list[int]) -> None:
    text = spelled(messages)
    parts, stopped, tokens = sent(text, cuts, ["never said"])
    assert (texts(parts), stopped) == (told(text, cuts), None)
    assert [one.token for part in parts for one in part.likely] == list(range(tokens))
    assert all(part.text for part in parts[:-1])


@given(MESSAGES, CUTS, st.lists(st.sampled_from(["a", "ab", "é🙂", "\n", "<", "=t", "channel", "final"]), max_size=3))
def test_a_stop_string_is_one_of_a_message(messages: list[Message], cuts: list[int], stops: list[str]) -> None:
    """In whatever order thoughts and answer come, it ends both; none reaches from one message into the next."""
    parts, stopped, _ = sent(spelled(messages), cuts, stops)
    expected, found = ["", ""], None
    for message in messages:
        alone, _, _ = sent(spelled([message]))
        strings = StopStrings(stops)
        shown = strings.push("".join(part.text for part in alone)) + strings.flush()
        if shown:
            kind = 0 if alone[0].thought else 1
            expected[kind] += ("\n" if expected[kind] else "") + shown
        if (found := strings.found) is not None:
            break
    assert (list(texts(parts)), stopped) == (expected, found)


@pytest.mark.parametrize("stop", ["bc", "\n", "b\n", "\nc"])
def test_a_stop_string_is_not_found_where_messages_meet(stop: str) -> None:
    for first, second in (("analysis", "final"), ("commentary", "final"), ("analysis", "analysis")):
        text = f"<|channel|>{first}<|message|>ab<|end|><|start|>assistant<|channel|>{second}<|message|>cd"
        parts, stopped, _ = sent(text, stops=[stop])
        assert stopped is None and "".join(texts(parts)).replace("\n", "") == "abcd"


def test_a_stop_string_is_not_found_in_a_header() -> None:
    for stop in ("analysis", "final", "assistant", "<|end|>", "<|", "message"):
        parts, stopped, _ = sent(ANSWER, stops=[stop])
        assert (texts(parts), stopped) == (("Hm.", "Yes."), None)
    parts, stopped, tokens = sent(ANSWER, stops=["m."])
    assert (texts(parts), stopped) == (("H", ""), "m.")
    assert tokens < len(ANSWER)


def test_what_is_held_back_for_a_stop_string_keeps_its_kind() -> None:
    parts, stopped, _ = sent(ANSWER, stops=["m.Yea"])
    assert (texts(parts), stopped) == (("Hm.", "Yes."), None)
    assert [(part.text, part.thought) for part in parts if part.text] == [
        ("H", True), ("m.", True), ("Y", False), ("e", False), ("s", False), (".", False),
    ]  # fmt: skip


def test_tokens_that_think_are_counted_until_the_answer_begins() -> None:
    pieces, ids = tokens_of(ANSWER)
    one, thinking = voice(pieces), []
    for token in ids:
        one.push(token, None)
        thinking.append(one.thinking)
    begin, end = thinking.index(True), len(thinking) - 1 - thinking[::-1].index(True)
    assert ids[begin] == ids[end + 1] == MARKS.index("<|message|>") and all(thinking[begin : end + 1])


def test_log_probabilities_of_a_header_that_was_cut_off_are_told() -> None:
    parts, _, tokens = sent("<|channel|>fin")
    assert parts == [Delta("", tuple(Likely(place, -1.0, ()) for place in range(tokens)), False)]
    parts, _, tokens = sent(f"{THOUGHT}<|channel|>")
    assert [(part.text, part.thought) for part in parts] == [("H", True), ("m", True), (".", True), ("", True)]
    assert [one.token for part in parts for one in part.likely] == list(range(tokens))
    assert voice([]).finish() == []


@pytest.mark.parametrize(
    ("text", "expected", "calls"),
    [
        (f'{THOUGHT}{CALL}{{"x": 1}}<|call|>', ("Hm.", ""), [("f", '{"x": 1}')]),
        (f"{CALL}{{}}", ("", ""), [("f", "{}")]),
        (" to=functions.a.b<|channel|>commentary json<|message|> {}\n<|call|>", ("", ""), [("a.b", "{}")]),
        (" to=functions.f<|channel|>analysis code<|message|>{}<|call|>", ("", ""), [("f", "{}")]),
        (f"<|channel|>commentary<|message|>I look.<|end|><|start|>assistant{CALL}{{}}", ("", "I look."), [("f", "{}")]),
        (f"{CALL}{{}}<|call|><|start|>assistant<|channel|>final<|message|>Yes.", ("", "Yes."), [("f", "{}")]),
        (f"{CALL}{{}}<|call|><|start|>assistant to=functions.g<|message|>{{}}", ("", ""), [("f", "{}"), ("g", "{}")]),
        (
            f'{CALL}{{"x": 1}}<|end|><|start|>assistant{CALL}{{"x": 2}}',
            ("", ""),
            [("f", '{"x": 1}'), ("f", '{"x": 2}')],
        ),
        (f"{CALL}<|end|><|start|>assistant{CALL} <|end|><|start|>assistant{CALL}{{}}", ("", ""), [("f", "{}")] * 3),
        (f"<|channel|>commentary<|message|>I look.<|end|><|start|>assistant{CALL}no", ("", "I look.\nno"), []),
        (f"{THOUGHT}{CALL}[]", ("Hm.", "[]"), []),
        (f'{CALL}{{"x": ', ("", '{"x": '), []),
        (f"{CALL}", ("", ""), []),
        ("<|channel|>commentary to=browser.search<|message|>{}<|call|>", ("", ""), []),
        ("<|channel|>analysis to=python code<|message|>1<|call|>", ("", ""), []),
        ("<|channel|>commentary to=assistant<|message|>Yes.", ("", "Yes."), []),
    ],
)
def test_a_message_to_a_function_is_a_call(text: str, expected: tuple[str, str], calls: list[tuple[str, str]]) -> None:
    for size in range(1, 9):
        parts, stopped, tokens = sent(text, [size] * len(text), tools=True)
        assert [part.call for part in parts if part.call] == calls and texts(parts) == expected and stopped is None
        assert [one.token for part in parts for one in part.likely] == list(range(tokens))
    parts, _, _ = sent(text)
    assert not any(part.call for part in parts)


def test_what_comes_after_a_call_stays_there() -> None:
    parts, _, _ = sent(f"{CALL}{{}}<|call|><|start|>assistant<|channel|>final<|message|>Yes.", tools=True)
    assert [part.call.name if part.call else part.text for part in parts] == ["f", "Y", "e", "s", "."]


def test_one_call_at_most() -> None:
    text = f"{THOUGHT}{CALL}{{}}<|end|><|start|>assistant to=functions.g<|message|>{{}}<|end|>"
    text += "<|start|>assistant<|channel|>final<|message|>Yes."
    for size in (1, 3, 100):
        pieces, ids = tokens_of(text, [size] * len(text))
        strings = StopStrings()
        counted = Counted(Channels(dict(enumerate(MARKS)), Detokenizer(pieces), PROMPT, strings, True))
        one = Voice(Cutter(counted, Searched(strings)), ChannelSplitter(counted, several=False))
        parts: list[Delta] = []
        for token in ids:
            parts += one.push(token, None)
            if one.done:
                break
        parts += one.finish()
        assert one.done and [part.call.name for part in parts if part.call] == ["f"] and texts(parts) == ("Hm.", "")


def test_an_answer_that_called_says_so() -> None:
    for text, called in ((f"{THOUGHT}{CALL}{{}}", True), (ANSWER, False), (f"{CALL}[]", False)):
        pieces, ids = tokens_of(text)
        one = voice(pieces, tools=True)
        for token in ids:
            one.push(token, None)
        one.finish()
        assert (one.called, one.done) == (called, False)


@given(MESSAGES, CUTS)
def test_offered_tools_change_nothing_but_calls(messages: list[Message], cuts: list[int]) -> None:
    text = spelled([one for one in messages if one.kind is not None])
    assert sent(text, cuts, tools=True) == sent(text, cuts)


def test_a_stop_string_ends_a_call() -> None:
    parts, stopped, _ = sent(f'{CALL}{{"x": 1}}', stops=[": 1"], tools=True)
    assert (texts(parts), stopped) == (("", '{"x"'), ": 1") and not any(part.call for part in parts)
