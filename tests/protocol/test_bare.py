"""The untagged stream: what each item adds to it, and the line that only it knows."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paceline.protocol import (
    CANCELLED,
    DONE,
    FAILED,
    YIELD,
    BareStream,
    Frame,
    Ids,
    Item,
    Line,
    Message,
    Options,
    PromptFile,
    Refusal,
    Start,
    parse,
)

VERBS = {
    "START ids:1 2": True,
    "CONTINUE 2": True,
    "CANCEL": True,
    "SCHED_STEP": True,
    "LIST_REQUESTS": True,
    "/tmp/prompt.bin 8": True,
    "nonsense": True,
    "SLOT 0 SNAPSHOT a": False,
    "SNAPSHOT 0": False,
    "LIST_SLOTS": False,
    "PING": False,
    "WAIT": False,
}
"""Lines, and whether the original answers them on its stream."""


def values(data: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(data) // 4}i", data))


def shown(stream: BareStream, *items: Item) -> list[int]:
    return values(stream.encode(items))


def reply(line: int, **body: Any) -> Message:
    return Message(4, {"re": line, "ok": True, **body})


def stream_of(*lines: str) -> BareStream:
    stream = BareStream()
    for number, text in enumerate(lines, 1):
        with contextlib.suppress(Refusal):
            stream.read(Line(number, f"REQ 4 {text}"))
    return stream


@pytest.mark.parametrize("line", VERBS)
def test_a_refused_line_is_minus_one_or_nothing(line: str) -> None:
    refused = Message(4, {"re": 1, "ok": False, "code": "bad_argument", "error": "no"})
    assert shown(stream_of(line), refused) == [DONE] * VERBS[line]


def test_a_line_that_could_not_be_read_is_minus_one() -> None:
    assert shown(BareStream(), Message(0, {"re": 9, "ok": False, "code": "line_too_long", "error": "no"})) == [DONE]


@pytest.mark.parametrize(("value", "bare"), [(7, 7), (YIELD, -4), (DONE, -1), (CANCELLED, -1), (FAILED, -1)])
def test_frames(value: int, bare: int) -> None:
    assert shown(BareStream(), Frame(4, value)) == [bare]


def test_events_are_no_values() -> None:
    assert shown(BareStream(), Message(0, {"event": "ready"}), Message(4, {"event": "end", "req": 4})) == []


def test_lines_that_come_while_a_grant_is_used_up_are_answered_after_it() -> None:
    stream = stream_of("START ids:1 9 2", "LIST_REQUESTS", "CONTINUE 3", "PING")
    assert shown(stream, reply(1, slot=0), reply(2, requests=[]), reply(3, granted=3), reply(4, pong=None)) == []
    assert shown(stream, Frame(4, 11), Frame(4, YIELD)) == [11, YIELD, DONE, YIELD]
    assert shown(stream, Frame(4, 12), Frame(4, DONE)) == [12, DONE]


def test_a_cancel_is_answered_by_the_end_that_it_causes() -> None:
    parked = stream_of("START ids:1 9 2", "CANCEL")
    assert shown(parked, reply(1), Frame(4, YIELD), reply(2, state="parked"), Frame(4, CANCELLED)) == [YIELD, DONE]
    running = stream_of("START ids:1 9 2", "CANCEL")
    assert shown(running, reply(1), reply(2, state="decode"), Frame(4, CANCELLED)) == [DONE, DONE]


@pytest.mark.parametrize(
    ("line", "nothing", "something"),
    [
        ("SCHED_STEP", {"req": None}, {"req": 4}),
        ("SCHED_DRAIN", {"live": 0}, {"live": 1}),
        ("SCHED_BATCH_DRAIN 2", {"live": 0}, {"live": 1}),
    ],
)
def test_grants_that_may_be_none(line: str, nothing: dict[str, Any], something: dict[str, Any]) -> None:
    assert shown(stream_of(line), reply(1, **nothing)) == [DONE]
    assert shown(stream_of(line), reply(1, **something), Frame(4, 3), Frame(4, YIELD)) == [3, YIELD]


def test_a_target_step_is_answered_by_its_frames() -> None:
    assert shown(stream_of("SCHED_BATCH_TARGET_STEP"), Frame(4, 3), Frame(4, YIELD), reply(1, rows=[{}])) == [3, YIELD]
    assert shown(stream_of("SCHED_BATCH_TARGET_STEP"), reply(1, rows=[])) == [DONE]
    assert shown(stream_of("SCHED_BATCH_PEEK"), reply(1, rows=[{}])) == [DONE]


TARGET = "SCHED_BATCH_TARGET_STEP"


@pytest.mark.parametrize(
    ("end", "told"),
    [(YIELD, [YIELD, YIELD]), (DONE, [DONE, DONE]), (CANCELLED, [DONE, DONE])],
    ids=["grant", "end", "cut"],
)
@pytest.mark.parametrize("by", ["the target step", "a later one"])
def test_a_target_step_in_mid_grant_is_answered_with_the_grant(end: int, told: list[int], by: str) -> None:
    stream = stream_of("START ids:1 9 2")
    assert shown(stream, reply(1), Frame(4, 5)) == [5]
    stream.read(Line(2, TARGET))
    last: list[Item] = [Frame(4, end)]
    stepped = [*last, reply(2, rows=[{}])] if by == "the target step" else [reply(2, rows=[{}]), Frame(4, 7), *last]
    assert shown(stream, Frame(4, 6), *stepped) == [6, *([] if by == "the target step" else [7]), *told]
    assert shown(stream, Message(0, {"re": 3, "ok": False, "code": "bad_command", "error": "no"})) == [DONE]


def test_a_target_step_in_mid_grant_that_is_refused_or_has_no_row_is_minus_one() -> None:
    stream = stream_of("START ids:1 9 2")
    assert shown(stream, reply(1)) == []
    stream.read(Line(2, TARGET))
    assert shown(stream, reply(2, rows=[])) == []
    with pytest.raises(Refusal):
        stream.read(Line(3, f"{TARGET} none"))
    assert shown(stream, Message(0, {"re": 3, "ok": False, "code": "bad_argument", "error": "no"})) == []
    stream.read(Line(4, TARGET))
    assert shown(stream, Frame(4, 6), Frame(4, YIELD), reply(4, rows=[{}])) == [6, YIELD, DONE, DONE, YIELD]
    assert shown(stream, Frame(4, 6), Frame(4, YIELD)) == [6, YIELD]


def test_a_target_step_in_mid_grant_that_a_signal_ends_is_answered_once() -> None:
    stream = stream_of("START ids:1 9 2")
    assert shown(stream, reply(1)) == []
    stream.read(Line(2, TARGET))
    assert shown(stream, Frame(4, CANCELLED), reply(2, rows=[])) == [DONE, DONE]


@given(st.lists(st.one_of(st.integers(0, 9), st.sampled_from([YIELD, DONE, CANCELLED, FAILED]))), st.data())
def test_tokens_are_all_there_in_order_whatever_comes_between(frames: list[int], data: st.DataObject) -> None:
    stream, items, number = BareStream(), list[Item](), 0
    for value in frames:
        while data.draw(st.booleans()):
            number += 1
            line = data.draw(st.sampled_from(sorted(VERBS)))
            try:
                stream.read(Line(number, f"REQ 4 {line}"))
                items.append(reply(number, req=4, state="decode"))
            except Refusal as refusal:
                items.append(Message(4, {"re": number, "ok": False, "code": refusal.code, "error": refusal.error}))
        items.append(Frame(4, value))
    found = shown(stream, *items)
    assert [value for value in found if value >= 0] == [value for value in frames if value >= 0]
    assert {value for value in found if value < 0} <= {DONE, YIELD}


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("/tmp/p.bin 8", Start(PromptFile("/tmp/p.bin"), 8, req_id=1)),
        ("\t/tmp/p.bin\t8 ", Start(PromptFile("/tmp/p.bin"), 8, req_id=1)),
        ("p.bin 8", Start(PromptFile("p.bin"), 8, req_id=1)),
        ("SLOT 1 REQ 7 ./p 8 stop=2", Start(PromptFile("./p"), 8, None, Options(stop=(2,)), 1, req_id=7)),
        ("ids:1,2 3 snap=1:a", Start(Ids((1, 2)), 3, None, Options(snap=(1, "a")), req_id=1)),
    ],
)
def test_the_generate_line(line: str, command: Start) -> None:
    assert BareStream().read(Line(1, line)) == command
    with pytest.raises(Refusal, match="is no command"):
        parse(line)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/tmp/p.bin", "is no command; expected: one of"),
        ("/tmp/p.bin 0", "total '0' is no whole number"),
        ("/tmp/p.bin 8 2", "'2' is a word too many; expected: <path> <n> [<option>=<value>…]"),
        ("CONTNUE 2x", "expected: <path> <n> [<option>=<value>…], as 'CONTNUE' is no command"),
        ("REQ x /tmp/p.bin 8", "REQ 'x' is no whole number"),
        ("START /tmp/p.bin 8", "'START' lacks its REQ prefix"),
        ("", "holds no command"),
    ],
)
def test_what_is_no_generate_line(line: str, words: str) -> None:
    with pytest.raises(Refusal) as caught:
        BareStream().read(Line(1, line))
    assert words in caught.value.error


@given(st.sampled_from(["PING x", "REQ 4 START ids:1 2 3 temp=1", "CANCEL 4", "WAIT step=3", "SLOT 2 SNAPSHOT a"]))
def test_every_other_line_is_read_as_always(line: str) -> None:
    assert BareStream().read(Line(1, line)) == parse(line)
