"""The promises of the wire, for any commands and any split of their bytes, through the real loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

from driver import Driver, events_of, terminal_of, tokens_of
from dump import state_of
from fairness import Fairness
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from paceline.daemon.crash import CommandLog
from paceline.daemon.engine import DeviceLost
from paceline.daemon.inbox import Inbox, News
from paceline.daemon.limits import Limits, pages_for
from paceline.daemon.loop import Loop
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.outbox import Outbox
from paceline.daemon.plan import Plan, PlanKind, Row, RowResult
from paceline.daemon.session import Session
from paceline.protocol import TERMINALS, YIELD, Frame, FrameReader, Item, LineReader, Message, encode_tagged

CONTEXT = 200


class SmallEngine:
    """The null engine with few tokens, so that stop ids and an end-of-sequence (token 3) are met; some rows fail."""

    def __init__(self, slots: int, failing: frozenset[int] = frozenset(), recurrent: bool = False) -> None:
        self._inner = inner = NullEngine(slots, CONTEXT, recurrent)
        self._failing = failing
        self._steps = 0
        self.info = replace(inner.info, vocab=500, eos=(3,))
        self.commit, self.seat, self.keep, self.copy_page = inner.commit, inner.seat, inner.keep, inner.copy_page
        self.read_page, self.write_page = inner.read_page, inner.write_page
        self.read_state, self.write_state = inner.read_state, inner.write_state

    def step(self, rows: Sequence[Row]) -> tuple[list[RowResult], int]:
        self._steps += 1
        if self._steps in self._failing:
            raise RuntimeError("this step fails")
        results, _ = self._inner.step(rows)
        return [RowResult(tuple(token % 40 for token in result.tokens), result.logits) for result in results], 7


class ScriptedInbox(Inbox):
    """Pieces of input that come when the loop has polled so often, or has nothing to do."""

    def __init__(self, pieces: list[tuple[int, bytes]]) -> None:
        super().__init__(room=1 << 40)
        self._reader = LineReader()
        self._pieces = pieces
        self._polls = 0

    def poll(self, wait: bool, timeout: float | None = None) -> None:
        self._polls += 1
        if self._pieces and (wait or self._polls >= self._pieces[0][0]):
            self.put_lines(self._reader.feed(self._pieces.pop(0)[1]))
            self._polls = 0
        elif not self._pieces and not self.ended:
            self.put_lines(self._reader.close())
            self.put(News.END_OF_INPUT)
        super().poll(False)


@cache
def solo(prompt: str, total: int, options: str) -> tuple[list[int], str]:
    """The tokens of a run alone, and the hash of its logits."""
    bounds = Limits(slots=1, max_batch=1, context=CONTEXT, pages=pages_for(CONTEXT))
    driver = Driver(bounds, SmallEngine(1))
    driver.send(f"REQ 1 START {prompt} {total} hash=1 {options}")
    driver.end()
    return tokens_of(driver.items, 1), events_of(driver.items, "end")[0]["logits_sha256"]


IDS = st.integers(1, 6)
PROMPTS = st.sampled_from([f"ids:{','.join(map(str, range(7, 7 + length)))}" for length in (1, 2, 5, 30, 64, 65, 150)])
OPTIONS = st.sampled_from(
    ["", "ignore_eos=1", "stop=5,6", "temp=0.8 seed=11", "temp=1 seed=12 hash=1", "ignore_eos=1 hash=1"]
)
SLOT = st.one_of(st.just(""), st.integers(0, 4).map(lambda slot: f" SLOT {slot}"))
TOTALS, QUANTA = st.sampled_from([1, 2, 5, 20, 60]), st.sampled_from([1, 2, 3, 100])
STARTS = st.tuples(IDS, SLOT, PROMPTS, TOTALS, QUANTA, OPTIONS).map(
    lambda parts: "REQ {}{} START {} {} {} {}".format(*parts)
)
NAMES = st.sampled_from(["a", "b"])
SNAPSHOTS = st.one_of(
    st.builds(lambda slot, name: f"SLOT {slot} SNAPSHOT {name}", st.integers(0, 4), NAMES),
    st.builds(
        lambda slot, name, start, length: f"SLOT {slot} SNAPSHOT_THIN {name} {start} {start + length}",
        st.integers(0, 3),
        NAMES,
        st.sampled_from([0, 1, 10, 64, 70]),
        st.integers(0, 80),
    ),
    st.builds(lambda name: f"FREE_SNAPSHOT {name}", NAMES),
    st.builds(
        lambda req_id, name, prompt, total, options: f"REQ {req_id} RESTORE {name} {prompt} {total} 5 {options}",
        *(IDS, NAMES, PROMPTS, TOTALS, OPTIONS),
    ),
    st.builds(
        lambda req_id, thick, thin, prompt: f"REQ {req_id} RESTORE_CHAIN {thick} {thin} {prompt} 5",
        *(IDS, st.sampled_from(["a", "-1"]), st.sampled_from(["b", "-", "a,b"]), PROMPTS),
    ),
    st.builds(
        lambda req_id, position, prompt: f"REQ {req_id} START {prompt} 9 snap={position}:b",
        *(IDS, st.sampled_from([1, 20, 64, 100, 150]), PROMPTS),
    ),
)
OTHERS = st.one_of(
    SNAPSHOTS,
    st.builds(lambda req_id, slot, count: f"REQ {req_id}{slot} CONTINUE {count}", IDS, SLOT, st.integers(1, 9)),
    st.builds(lambda req_id, epoch: f"REQ {req_id} CONT 3 epoch={epoch}", IDS, st.integers(1, 4)),
    st.builds(lambda req_id: f"CANCEL {req_id}", IDS),
    st.builds(lambda req_id, slot: f"REQ {req_id}{slot} CANCEL", IDS, SLOT),
    st.builds(
        lambda word, limit: f"SCHED_BATCH_{word} {limit}",
        st.sampled_from(["PEEK", "PROBE", "TARGET_STEP", "TARGET_TAIL", "DRAIN"]),
        st.sampled_from(["", 1, 2, 9]),
    ),
    st.sampled_from(
        [
            *("SCHED_STEP", "SCHED_DRAIN", "SCHED_AUTO on", "SCHED_AUTO off", "WAIT", "WAIT step=3", "STATS", "QUIT"),
            *("LIST_REQUESTS", "LIST_TARGET_CACHE_SLOTS", "PING x", "HELP", "HELP START", "# a comment", "", "   "),
            *("FOO", "REQ 0 PING", "LIST_SLOTS", "\t ping\tq \r", "REQ 3 START ids:1 5 snap=2:a"),
            *("REQ 3 START ids:499,500 5", "REQ 3 START ids:1 500", "REQ 3 START /nowhere/at/all 5"),
            *("REQ 3 START ids: 4", "REQ 3 START ids:1 4 stop=500", "SLOT 77 CONTINUE 1", "REQ 9 SLOT 3 CONTINUE 5"),
        ]
    ),
)
LINES = st.tuples(
    st.lists(STARTS, min_size=1, max_size=4),
    st.lists(st.one_of(STARTS, OTHERS), max_size=25),
    st.lists(OTHERS, max_size=5),
).map(lambda parts: [line for part in parts for line in part])


@st.composite
def scripts(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, bytes]]]:
    data = b"".join(line.encode() + b"\n" for line in draw(LINES))
    if draw(st.booleans()):
        data = data[:-1]
    if draw(st.integers(0, 9)) == 0:
        data = data.replace(b"PING", b"\xff\xfe")
    cuts = sorted(draw(st.sets(st.integers(0, len(data)), max_size=12)))
    edges = [0, *cuts, len(data)]
    return data, [(draw(st.integers(0, 9)), data[a:b]) for a, b in pairwise(edges)]


@st.composite
def bounds(draw: st.DrawFn) -> Limits:
    slots = draw(st.integers(1, 4))
    return Limits(
        slots=slots,
        max_batch=draw(st.integers(1, slots)),
        queue=draw(st.sampled_from([0, 2, 64])),
        context=CONTEXT,
        pages=draw(st.sampled_from([2, 5, slots * pages_for(CONTEXT)])),
        step_tokens=draw(st.sampled_from([1, 3, 64])),
        prefill_tokens=draw(st.sampled_from([1, 17, 512])),
        auto=draw(st.integers(0, 2)) == 0,
        states=draw(st.sampled_from([0, 1, 3])),
        reuse=draw(st.booleans()),
        coalesce=draw(st.booleans()),
    )


class Checked(Session):
    """A session that looks at itself: whatever was refused has changed nothing, and the turns are fair."""

    accepted: list[Any]
    fairness: Fairness

    def next_step(self, now: float) -> Plan | None:
        self.fairness.before(self.lifecycle.scheduler)
        plan = super().next_step(now)
        if plan is not None and plan.kind is PlanKind.STEP:
            self.fairness.after(self.lifecycle.scheduler)
        return plan

    def apply(self, command: Any, line: int, now: float) -> list[Item]:
        before = state_of(self)
        items = super().apply(command, line, now)
        first = items[0].body if items and isinstance(items[0], Message) else {}
        if first.get("ok") is False:
            assert len(items) == 1
            assert state_of(self) == before
        elif type(command).__name__ in ("Start", "Restore", "RestoreChain"):
            self.accepted.append(command)
        elif type(command).__name__ in (
            "BatchPeek",
            "ListRequests",
            "ListSnapshots",
            "ListTargetCacheSlots",
            "Stats",
            "Help",
            "Ping",
        ):
            assert state_of(self) == before
        self.check()
        return items


def serve(
    limits: Limits, pieces: list[tuple[int, bytes]], failing: frozenset[int], recurrent: bool
) -> tuple[Checked, list[Item]]:
    engine = SmallEngine(limits.slots, failing, recurrent)
    seeds = iter(range(10**9))
    session = Checked(engine.info, limits, lambda: next(seeds))
    session.accepted = []
    session.fairness = Fairness()
    ticks = iter(range(10**9))
    outbox = Outbox(encode_tagged, lambda: None)
    Loop(session, engine, ScriptedInbox(pieces), outbox, lambda: float(next(ticks)), CommandLog()).run()
    outbox.close()
    reader = FrameReader()
    items = reader.feed(outbox.take())
    reader.close()
    return session, items


FAILING = st.one_of(st.just(frozenset[int]()), st.frozensets(st.integers(1, 60), max_size=25))


@settings(max_examples=800, deadline=None, suppress_health_check=list(HealthCheck))
@given(bounds(), scripts(), FAILING, st.booleans())
def test_every_promise_of_the_wire(
    limits: Limits, script: tuple[bytes, list[tuple[int, bytes]]], failing: frozenset[int], recurrent: bool
) -> None:
    data, pieces = script
    session, items = serve(limits, list(pieces), failing, recurrent)
    replies_come_in_order(data, items)
    lives = lives_of(session, items)
    for life in lives:
        life_is_whole(*life)
        event(f"ended by {life[1][-2].body['reason']}")  # type: ignore[union-attr]
    nothing_is_left(session)


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
