"""Answers in the harmony format: the text of each kind of message, wherever tokens and characters end."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paceline.clients.detokenizer import Detokenizer, decode
from paceline.clients.harmony import MARKS, Channels, Spelled, harmony_call, harmony_marks, harmony_message
from paceline.clients.stop_strings import StopStrings
from paceline.clients.tokenizer import Tokenizer

from .test_tokenizer import ALPHABET, CONTROL

PROMPT = "<|start|>user<|message|>Hi<|end|><|start|>assistant"
TEMPLATE = "{{ '<|start|>assistant<|channel|>final<|message|>' }}"
IDS = {mark: number for number, mark in enumerate(MARKS)}
THOUGHT = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"


class Message(NamedTuple):
    """`kind` is whether it is a thought; None for what is addressed to a tool."""

    header: str
    kind: bool | None
    body: str


def tokens_of(text: str, cuts: Sequence[int] = ()) -> tuple[list[bytes], list[int]]:
    """A vocabulary of the marks and of the pieces between them, cut every so many bytes; and the text in its ids."""
    pieces, ids = [mark.encode() for mark in MARKS], []
    sizes = iter(cuts)
    while text:
        mark = next((mark for mark in MARKS if text.startswith(mark)), None)
        if mark:
            ids.append(IDS[mark])
            text = text.removeprefix(mark)
            continue
        end = min((at for mark in MARKS if (at := text.find(mark)) >= 0), default=len(text))
        data, text = text[:end].encode(), text[end:]
        while data:
            size = next(sizes, 1)
            ids.append(len(pieces))
            pieces.append(data[:size])
            data = data[size:]
    return pieces, ids


def heard(text: str, cuts: Sequence[int] = (), prompt: str = PROMPT) -> list[tuple[str, bool]]:
    """What comes of each token and at the end, and whether it is a thought."""
    pieces, ids = tokens_of(text, cuts)
    channels = Channels(dict(enumerate(MARKS)), Detokenizer(pieces), prompt)
    return [*((channels.push(token), channels.thinking) for token in ids), (channels.flush(), channels.thinking)]


def told(text: str, cuts: Sequence[int] = (), prompt: str = PROMPT) -> tuple[str, str]:
    """The thoughts and the answer."""
    parts = heard(text, cuts, prompt)
    thought, said = ("".join(text for text, kind in parts if kind is wanted) for wanted in (True, False))
    return thought, said


@pytest.mark.parametrize(
    ("text", "thought", "said"),
    [
        (f"{THOUGHT}<|channel|>final<|message|>Yes.<|return|>", "Hm.", "Yes."),
        (f"{THOUGHT}{THOUGHT}<|channel|>final<|message|>Yes.", "Hm.\nHm.", "Yes."),
        ("<|channel|>final<|message|> Yes. \n", "", " Yes. \n"),
        (f"{THOUGHT}<|channel|>commentary<|message|>Let me look.<|end|><|start|>assistant{THOUGHT}", "Hm.\nHm.",
         "Let me look."),
        ("<|channel|>commentary<|message|>One.<|end|><|start|>assistant<|channel|>final<|message|>Two.", "",
         "One.\nTwo."),
        (f"{THOUGHT}<|channel|>commentary to=functions.f <|constrain|>json<|message|>{{}}<|call|>", "Hm.", ""),
        (f"{THOUGHT} to=functions.f<|channel|>commentary json<|message|>{{}}<|call|>", "Hm.", ""),
        (" to=functions.f<|channel|>commentary<|constrain|>json<|message|>{}<|call|>", "", ""),
        ("<|channel|>analysis to=browser.search code<|message|>{}<|call|>", "", ""),
        ("<|channel|>commentary to=assistant<|channel|>final<|message|>Yes.", "", "Yes."),
        ("<|channel|>commentary<|channel|>analysis<|message|>Hm.<|end|>", "Hm.", ""),
        ("<|channel|>final <|constrain|>json<|message|>{}<|return|>", "", "{}"),
        ("<|channel|>final<|message|><|return|>", "", ""),
        ("<|channel|>analysis<|message|><|end|><|start|>assistant<|channel|>final<|message|>Yes.", "", "Yes."),
        ("<|start|>assistant<|channel|>final<|message|>Yes.", "", "Yes."),
        ("<|message|>Yes.", "", "Yes."),
        ("<|channel|>final<|message|>Yes<|message|>.", "", "Yes."),
        ("<|channel|>analysis<|message|>Hm<|channel|>final<|message|>Yes.", "Hm", "Yes."),
        ("<|channel|>final<|message|>Yes.<|end|> And no.", "", "Yes. And no."),
        ("Yes <|end|>", "", "Yes "),
        ("\n\n today", "", "\n\n today"),
        ("<|chan", "", "<|chan"),
        ("", "", ""),
    ],
)  # fmt: skip
def test_what_is_thought_and_what_is_said(text: str, thought: str, said: str) -> None:
    for size in range(1, 9):
        assert told(text, [size] * len(text)) == (thought, said), size


@pytest.mark.parametrize("cut", ["<|channel|>", "<|channel|>ana", "<|channel|>analysis", " to=f", " t", "<|start|>"])
def test_a_header_that_was_cut_off_is_no_text(cut: str) -> None:
    assert told(cut) == ("", "")
    assert told("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant" + cut) == ("Hm.", "")


@pytest.mark.parametrize(
    ("prompt", "text", "thought", "said"),
    [
        (PROMPT + "\n", "<|channel|>analysis<|message|>Hm.", "Hm.", ""),
        (PROMPT + "<|channel|>final<|message|>", "Yes.", "", "Yes."),
        (PROMPT + "<|channel|>final<|message|>Well, ", "yes.", "", "yes."),
        (PROMPT + "<|channel|>analysis<|message|>", f"Hm.<|end|><|start|>assistant{THOUGHT}", "Hm.\nHm.", ""),
        (PROMPT + "<|channel|>", "analysis<|message|>Hm.", "Hm.", ""),
        (PROMPT.removesuffix("<|start|>assistant"), f"<|start|>assistant{THOUGHT}", "Hm.", ""),
        ("to=nobody", "<|channel|>final<|message|>Yes.", "", "Yes."),
    ],
)
def test_a_prompt_may_have_begun_more(prompt: str, text: str, thought: str, said: str) -> None:
    assert told(text, prompt=prompt) == (thought, said)


def test_a_character_that_is_cut_off_stays_in_its_message() -> None:
    pieces = [*(mark.encode() for mark in MARKS), "é".encode()[:1], b"analysis", b"!"]
    channels = Channels(dict(enumerate(MARKS)), Detokenizer(pieces), PROMPT)
    cut, analysis, mark = len(MARKS), len(MARKS) + 1, len(MARKS) + 2
    ids = [IDS["<|channel|>"], analysis, IDS["<|message|>"], cut, IDS["<|end|>"], IDS["<|start|>"], cut]
    ids += [IDS["<|message|>"], mark, cut]
    assert [channels.push(token) for token in ids] == ["", "", "", "", "\ufffd", "", "", "", "!", ""]
    assert channels.flush() == "\ufffd"


BODIES = st.text("ab é🙂\n<|>=to", max_size=8).filter(lambda text: "<|" not in text)
HEADERS = st.sampled_from(
    [("<|channel|>analysis", True), ("<|channel|>final", False), ("<|channel|>commentary", False),
     ("<|channel|>commentary to=functions.f <|constrain|>json", None), (" to=f<|channel|>commentary", None)]
)  # fmt: skip
MESSAGES = st.lists(st.builds(lambda header, body: Message(header[0], header[1], body), HEADERS, BODIES), max_size=5)
CUTS = st.lists(st.integers(1, 5), max_size=40)


def spelled(messages: Sequence[Message]) -> str:
    return "<|end|><|start|>assistant".join(f"{one.header}<|message|>{one.body}" for one in messages)


@given(MESSAGES, CUTS)
def test_however_it_is_cut_the_kinds_of_text_are_the_same(messages: list[Message], cuts: list[int]) -> None:
    expected = ("\n".join(one.body for one in messages if one.kind is kind and one.body) for kind in (True, False))
    assert told(spelled(messages), cuts) == tuple(expected)


@given(MESSAGES, CUTS, st.integers(0, 200))
def test_what_comes_first_does_not_depend_on_what_follows(messages: list[Message], cuts: list[int], end: int) -> None:
    """So an answer that ends anywhere, in a header too, has nothing that the whole one has not."""
    whole = told(spelled(messages), cuts)
    parts = heard(spelled(messages), cuts)[:end]
    for kind, text in zip((True, False), whole, strict=True):
        assert text.startswith("".join(part for part, thinking in parts if thinking is kind))


@given(MESSAGES, CUTS)
def test_thoughts_can_be_spelled_as_other_models_do(messages: list[Message], cuts: list[int]) -> None:
    pieces, ids = tokens_of(spelled(messages), cuts)
    decoder = Spelled(Channels(dict(enumerate(MARKS)), Detokenizer(pieces), PROMPT))
    text = "".join(map(decoder.push, ids)) + decoder.flush()
    parts = [(part, thinking) for part, thinking in heard(spelled(messages), cuts) if part]
    expected, before = "", False
    for part, thinking in parts:
        mark = "" if thinking is before else "<think>\n" if thinking else "\n</think>\n\n"
        expected, before = expected + mark + part, thinking
    assert text == expected


@pytest.mark.parametrize("stop", ["\n", "think", ">", ".</"])
def test_a_stop_string_is_not_found_in_how_thoughts_are_spelled(stop: str) -> None:
    pieces, ids = tokens_of(f"{THOUGHT}<|channel|>final<|message|>Yes.")
    strings = StopStrings([stop])
    decoder = Spelled(Channels(dict(enumerate(MARKS)), Detokenizer(pieces), PROMPT, strings))
    assert "".join(map(decoder.push, ids)) + decoder.flush() == "<think>\nHm.\n</think>\n\nYes."
    assert strings.found is None


def test_a_thought_is_spelled_before_the_answer() -> None:
    pieces, ids = tokens_of(f"{THOUGHT}<|channel|>final<|message|>Yes.<|return|>")
    decoder = Spelled(Channels(dict(enumerate(MARKS)), Detokenizer(pieces), PROMPT))
    assert "".join(map(decoder.push, ids)) + decoder.flush() == "<think>\nHm.\n</think>\n\nYes."


def vocabulary(marks: Sequence[str], **more: Any) -> Tokenizer:
    tokens = [*ALPHABET, *marks]
    found: dict[str, Any] = {"model": "gpt2", "pre": "gpt-4o", "tokens": tokens, "merges": []} | more
    found["token_type"] = [1] * len(ALPHABET) + [CONTROL] * len(marks)
    return Tokenizer({f"tokenizer.ggml.{key}": value for key, value in found.items()})


def test_a_model_is_known_by_its_template_and_its_tokens() -> None:
    words = vocabulary(MARKS, bos_token_id=len(ALPHABET), add_bos_token=True)
    assert harmony_marks(TEMPLATE, words) == {len(ALPHABET) + number: mark for number, mark in enumerate(MARKS)}
    assert set(harmony_marks(TEMPLATE, vocabulary(MARKS[:4])).values()) == set(MARKS[:4])
    assert harmony_marks(TEMPLATE, vocabulary(["<|start|>", "<|channel|>"])) == {}
    assert harmony_marks("<|message|><think></think>", words) == harmony_marks("<|channel|>", words) == {}


def test_a_text_that_spells_a_mark_out_is_text() -> None:
    words = vocabulary(MARKS)
    plain = words.encode("<|end|><|channel|>", special=False)
    channels = Channels(harmony_marks(TEMPLATE, words), words.detokenizer(), PROMPT)
    ids = [*words.encode("<|channel|>final<|message|>"), *plain, *words.encode("<|return|>")]
    assert "".join(map(channels.push, ids)) + channels.flush() == "<|end|><|channel|>" == decode_of(words, plain)


def decode_of(words: Tokenizer, ids: list[int]) -> str:
    return decode([words.detokenizer().piece(token) for token in range(words.vocab)], ids)


def test_a_message_that_calls_has_its_thought_where_the_template_looks_for_it() -> None:
    said = {"role": "assistant", "content": "I look.", "reasoning_content": "Hm."}
    calling = said | {"tool_calls": [{"id": "a"}]}
    assert harmony_message(calling) == calling | {"content": "", "thinking": "Hm."}
    for same in (said, calling | {"reasoning_content": ""}, {"role": "user", "content": "Hi"}):
        assert harmony_message(same) == same


@pytest.mark.parametrize(("name", "rest"), [("f", "{}"), (None, "f<|channel|>commentary json<|message|>{}")])
def test_a_call_can_be_begun_by_the_prompt(name: str | None, rest: str) -> None:
    pieces, ids = tokens_of(rest)
    channels = Channels(dict(enumerate(MARKS)), Detokenizer(pieces), PROMPT + harmony_call(name), tools=True)
    assert ("".join(map(channels.push, ids)) + channels.flush(), channels.function) == ("{}", "f")
