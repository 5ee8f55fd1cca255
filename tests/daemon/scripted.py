"""Scripts of any commands, cut anyhow, and the real loop that they are played to; every plan is checked on its way."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

from drafting import asks_what_it_may
from driver import Driver, events_of, nobody_waits_in_vain, tokens_of
from dump import state_of
from fairness import Fairness
from hypothesis import strategies as st
from paceline.daemon.crash import CommandLog
from paceline.daemon.inbox import Inbox, News
from paceline.daemon.limits import Limits, pages_for
from paceline.daemon.loop import Loop
from paceline.daemon.observers import Observers
from paceline.daemon.outbox import Outbox
from paceline.daemon.plan import Plan, PlanKind, StepResult
from paceline.daemon.request_log import RequestLog
from paceline.daemon.session import Session
from paceline.protocol import FrameReader, Item, LineReader, Message, encode_tagged
from prophet import Prophet
from small_engine import CONTEXT, TOKENS, SmallEngine


class ScriptedInbox(Inbox):
    """Pieces of input that come when the loop has polled so often, or has nothing to do."""

    def __init__(self, pieces: list[tuple[int, bytes]]) -> None:
        super().__init__(room=1 << 40)
        self._reader = LineReader()
        self._pieces = pieces
        self._polls = 0

    def poll(self, wait: bool, timeout: float | None = None) -> bool:
        self._polls += 1
        if self._pieces and (wait or self._polls >= self._pieces[0][0]):
            self.put_lines(self._reader.feed(self._pieces.pop(0)[1]))
            self._polls = 0
        elif not self._pieces and not self.ended:
            self.put_lines(self._reader.close())
            self.put(News.END_OF_INPUT)
        return super().poll(False)


@cache
def solo(prompt: str, total: int, options: str) -> tuple[list[int], str]:
    """The tokens of a run alone, and the hash of its logits."""
    bounds = Limits(slots=1, max_batch=1, context=CONTEXT, pages=pages_for(CONTEXT))
    driver = Driver(bounds, SmallEngine(1))
    driver.send(f"REQ 1 START {prompt} {total} hash=1 {options}")
    driver.end()
    return tokens_of(driver.items, 1), events_of(driver.items, "end")[0]["logits_sha256"]


IDS = st.integers(1, 6)
TEXTS = [[*range(7, 7 + length)] for length in (1, 2, 5, 30, 64, 65, 150)]
TEXTS += [[*range(7, 7 + common), *[9] * (150 - common)] for common in (20, 64, 100)]  # they part
PROMPTS = st.sampled_from([f"ids:{','.join(map(str, text))}" for text in TEXTS])
OPTIONS = st.sampled_from(
    [
        *("", "ignore_eos=1", "stop=5,6", "temp=0.8 seed=11", "temp=1 seed=12 hash=1", "ignore_eos=1 hash=1"),
        *("predict=7,8,9", "predict=9,9 temp=1 seed=13"),
    ]
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
            *(
                "REQ 3 START ids: 4",
                "REQ 3 START ids:1 4 stop=500",
                "SLOT 77 CONTINUE 1",
                'REQ 3 START ids:1 4 stop=5 grammar={"json":true}',
                "REQ 9 SLOT 3 CONTINUE 5",
            ),
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
        draft=draw(st.sampled_from([0, 1, 8])),
    )


class Checked(Session):
    """A session that looks at itself: whatever was refused has changed nothing, the turns are fair, and nobody waits
    for what is there."""

    accepted: list[Any]
    log: list[str]
    fairness: Fairness

    def next_step(self, now: float) -> Plan | None:
        self.fairness.before(self.lifecycle.scheduler)
        plan = super().next_step(now)
        if plan is not None and plan.kind is PlanKind.STEP:
            self.fairness.after(self.lifecycle.scheduler)
            asks_what_it_may(plan, self.info, self.limits)
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
        assert nobody_waits_in_vain(self)
        return items

    def finish(self, plan: Plan, results: list[StepResult], now: float) -> list[Item]:
        items = super().finish(plan, results, now)
        assert nobody_waits_in_vain(self)
        return items


def serve(
    limits: Limits,
    pieces: list[tuple[int, bytes]],
    failing: frozenset[int],
    recurrent: bool,
    elsewhere: bool = False,
    drafts: bool = False,
) -> tuple[Checked, list[Item]]:
    engine = SmallEngine(limits.slots, failing, recurrent, elsewhere, drafts)
    seeds = iter(range(10**9))
    session = Checked(engine.info, limits, lambda: next(seeds))
    session.accepted, session.log = [], []
    session.fairness = Fairness()
    session.lifecycle.drafts.new_guesser = lambda ids: Prophet(ids, TOKENS)
    ticks = iter(range(10**9))
    outbox = Outbox(encode_tagged, lambda: None)
    observers = Observers(session.log.append, RequestLog("json", lambda: 0.0))
    Loop(session, engine, ScriptedInbox(pieces), outbox, lambda: float(next(ticks)), CommandLog(), observers).run()
    outbox.close()
    reader = FrameReader()
    items = reader.feed(outbox.take())
    reader.close()
    return session, items
