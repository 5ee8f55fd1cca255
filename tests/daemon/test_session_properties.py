"""The promises of the wire, for any commands and any split of their bytes, through the real loop."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from circles import no_circles
from driver import terminal_of, tokens_of
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from paceline.daemon.crash import CommandLog
from paceline.daemon.engine import DeviceLost
from paceline.daemon.limits import Limits, pages_for
from paceline.daemon.loop import Loop
from paceline.daemon.outbox import Outbox
from paceline.daemon.plan import Row, RowResult
from paceline.daemon.session import Session
from paceline.protocol import TERMINALS, YIELD, Frame, Item, LineReader, Message, encode_tagged
from scripted import Checked, Fairness, ScriptedInbox, bounds, scripts, serve, solo
from small_engine import CONTEXT, SmallEngine

FAILING = st.one_of(st.just(frozenset[int]()), st.frozensets(st.integers(1, 60), max_size=25))


@settings(max_examples=800, deadline=None, suppress_health_check=list(HealthCheck))
@given(bounds(), scripts(), FAILING, st.booleans(), st.booleans())
def test_every_promise_of_the_wire(
    limits: Limits,
    script: tuple[bytes, list[tuple[int, bytes]]],
    failing: frozenset[int],
    recurrent: bool,
    drafts: bool,
) -> None:
    data, pieces = script
    session, items = serve(limits, list(pieces), failing, recurrent, drafts=drafts)
    replies_come_in_order(data, items)
    lives = lives_of(session, items)
    for life in lives:
        life_is_whole(*life)
        event(f"ended by {life[1][-2].body['reason']}")  # type: ignore[union-attr]
    the_log_agrees(session, len(lives))
    nothing_is_left(session)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(bounds(), scripts(), FAILING, st.booleans())
def test_a_device_that_computes_elsewhere_changes_nothing_of_the_stream(
    limits: Limits, script: tuple[bytes, list[tuple[int, bytes]]], failing: frozenset[int], recurrent: bool
) -> None:
    here, there = (serve(limits, list(script[1]), failing, recurrent, elsewhere)[1] for elsewhere in (False, True))
    assert here == there


def test_what_breaks_while_a_device_computes_is_no_row_s() -> None:
    """The engine tries a step again that threw; what could not be told was lost with it."""

    def encode(items: Iterable[Item]) -> bytes:
        if any(isinstance(item, Frame) for item in items):
            raise OverflowError("no frame of ours")
        return b""

    engine = SmallEngine(1, elsewhere=True)
    session = Checked(engine.info, Limits(slots=1, context=CONTEXT, pages=pages_for(CONTEXT)), lambda: 1)
    session.accepted, session.log, session.fairness = [], [], Fairness()
    inbox = ScriptedInbox([(0, b"REQ 1 START ids:7,8 20\n")])
    with pytest.raises(OverflowError, match="no frame of ours"):
        Loop(session, engine, inbox, Outbox(encode, lambda: None), lambda: 0.0, CommandLog()).run()


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(bounds(), scripts(), FAILING, st.booleans())
def test_whatever_ends_is_freed_at_once(
    limits: Limits, script: tuple[bytes, list[tuple[int, bytes]]], failing: frozenset[int], recurrent: bool
) -> None:
    with no_circles():
        session, items = serve(limits, list(script[1]), failing, recurrent)
    assert session.done and items


def replies_come_in_order(data: bytes, items: list[Item]) -> None:
    reader = LineReader()
    numbers = [line.number for line in reader.feed(data) + reader.close()]
    replied = [item.body["re"] for item in items if isinstance(item, Message) and "re" in item.body]
    quits = [n for n, line in enumerate(data.split(b"\n"), 1) if line == b"QUIT" and n in numbers]
    if quits and (len(data.split(b"\n")) > quits[0]):
        numbers = [number for number in numbers if number <= quits[0]]
    assert replied == numbers
    live = Counter(item.req_id for item in items if isinstance(item, Frame) and item.value in TERMINALS)
    accepted = Counter(
        item.req_id
        for item in items
        if isinstance(item, Message) and item.body.get("ok") and "prompt_tokens" in item.body
    )
    assert live == accepted


def lives_of(session: Checked, items: list[Item]) -> list[tuple[Any, list[Item]]]:
    """Each accepted START with its own items: from its reply to its terminal."""
    lives = []
    starts = iter(session.accepted)
    for index, item in enumerate(items):
        if isinstance(item, Message) and item.body.get("ok") and "prompt_tokens" in item.body:
            own = [other for other in items[index:] if other.req_id == item.req_id or event_of(other) == item.req_id]
            end = next(i for i, other in enumerate(own) if isinstance(other, Frame) and other.value in TERMINALS)
            lives.append((next(starts), own[: end + 1]))
            between = own[end + 1 :]
            following = next((i for i, other in enumerate(between) if is_start(other)), len(between))
            assert not [other for other in between[:following] if is_news(other)]
    return lives


def event_of(item: Item) -> int | None:
    return item.body.get("req") if isinstance(item, Message) and "event" in item.body else None


def is_start(item: Item) -> bool:
    return isinstance(item, Message) and bool(item.body.get("ok")) and "prompt_tokens" in item.body


def is_news(item: Item) -> bool:
    """A frame or an event of a request; a reply, or the end of a drain, may come at any time."""
    return isinstance(item, Frame) or ("event" in item.body and item.body["event"] != "drained")


def life_is_whole(start: Any, own: list[Item]) -> None:
    tokens = tokens_of(own, start.req_id)
    end = own[-2]
    assert isinstance(end, Message) and end.body["event"] == "end", "the event comes right before the terminal"
    assert sum(isinstance(item, Message) and item.body.get("event") == "end" for item in own) == 1
    assert end.body["tokens"] == len(tokens)
    assert end.body["prompt_tokens"] == len(start.prompt.tokens)

    prompt = "ids:" + ",".join(map(str, start.prompt.tokens))
    options = options_of(start) if hasattr(start, "options") else ""
    wants_hash = hasattr(start, "options") and start.options.hash
    whole, sha256 = solo(prompt, start.total, options)
    assert tokens == whole[: len(tokens)], "company has changed the tokens"
    reason = end.body["reason"]
    assert terminal_of(own, start.req_id) == {"cancelled": -5, "failed": -6}.get(reason, -1)
    assert ("logits_sha256" in end.body) == wants_hash
    if wants_hash and reason in ("length", "eos", "stop"):
        assert end.body["logits_sha256"] == sha256
    if reason == "length":
        assert len(tokens) == start.total
    elif reason in ("eos", "stop"):
        assert tokens == whole and len(tokens) < start.total
        assert end.body["stop_token"] in ((3,) if reason == "eos" else start.options.stop)
    elif reason == "failed":
        assert end.body["code"] == "step_failed"
    yields_fall_on_spent_grants(start, own)


def yields_fall_on_spent_grants(start: Any, own: list[Item]) -> None:
    values = [item.value for item in own if isinstance(item, Frame)]
    for before, value in zip([None, *values], values, strict=False):
        if value == YIELD:
            assert before is not None and before >= 0, "a YIELD follows a token"
    assert values.count(YIELD) < start.total


def options_of(start: Any) -> str:
    options = start.options
    words = []
    if options.ignore_eos:
        words.append("ignore_eos=1")
    if options.stop:
        words.append("stop=" + ",".join(map(str, options.stop)))
    if options.sampling.temp:
        words.append(f"temp={options.sampling.temp} seed={options.sampling.seed}")
    return " ".join(words)


def the_log_agrees(session: Checked, ended: int) -> None:
    """A line for each end, measured from where the session began. Each look at the clock finds it a second later."""
    lines = [json.loads(line) for line in session.log if not line.startswith("paceline: step ")]
    assert len(lines) == ended
    for line in lines:
        assert line["latency_ms"] >= (line["ttft_ms"] or line["queue_ms"]) >= line["queue_ms"] >= 0, line


def nothing_is_left(session: Session) -> None:
    lifecycle = session.lifecycle
    assert session.done
    assert lifecycle.admission.slots.used == 0
    assert lifecycle.cache.pages.used == 0
    assert set(lifecycle.cache.pages.counts) <= {0}
    assert not len(lifecycle.admission.waiting)
    session.check()
    assert not lifecycle.live
    assert not lifecycle.cache.commits
    assert not lifecycle.grants.drains
    assert lifecycle.scheduler.idle
    assert session.counters.stale_results == 0


def test_a_lost_device_is_no_row_failure() -> None:
    """What the loop does not catch leaves it."""

    class Lost(SmallEngine):
        def step(self, rows: Sequence[Row]) -> tuple[list[RowResult], int]:
            raise DeviceLost("gone")

    engine = Lost(1)
    session = Session(engine.info, Limits(slots=1, max_batch=1, context=CONTEXT, pages=4), lambda: 1)
    inbox = ScriptedInbox([(0, b"REQ 1 START ids:1 5\n")])
    loop = Loop(session, engine, inbox, Outbox(encode_tagged, lambda: None), lambda: 0.0, CommandLog())
    try:
        loop.run()
    except DeviceLost:
        items = session.fail_all("gone", 0.0, "device_lost")
    assert [item.value for item in items if isinstance(item, Frame)] == [-6]
    assert session.done
