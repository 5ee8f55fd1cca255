"""What happened, as events of the Chrome trace format, which Perfetto opens. It is shown what the loop sees: steps and
items.

Lanes: commands (refusals), engine (a slice per step), and one per slot, where slices nest: the request, its turns,
and in a turn a row for each step. Queueing is an asynchronous slice from START to the slot. Counters: rows per step,
queue depth. Times come in as seconds of any clock and leave as microseconds since the timeline began.

A request that was live before that is drawn from that moment on. A turn runs from its first row to the YIELD.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ..protocol import YIELD, Item, Message
from .plan import Plan, PlanKind, Row, RowFailure, StepResult
from .requests import Request

Event = dict[str, Any]
Facts = dict[str, Any]

PROCESS: Final = 1
COMMANDS, ENGINE, FIRST_SLOT = 1, 2, 3
"""Lanes; slot s has lane FIRST_SLOT + s."""

_PAUSE = 1e-3  # with this many seconds between two steps, the row counter drops to 0
_STEP_NAMES: Final = {PlanKind.STEP: "step", PlanKind.TARGET: "target step", PlanKind.PROBE: "probe"}


@dataclass(slots=True)
class _Stay:
    """A request in a slot."""

    req_id: int
    turns: int = 0
    in_turn: bool = False


class Timeline:
    """Each call returns the events that it gives rise to. `steps` is how many steps the daemon has made so far."""

    def __init__(self, model: str, slots: int, steps: int, now: float) -> None:
        self._model = model
        self._slots = slots
        self._steps = steps
        self._origin = now
        self._stays: dict[int, _Stay] = {}  # by slot
        self._slot_of: dict[int, int] = {}  # by request
        self._queued: dict[int, int] = {}  # request -> number of its wait
        self._follows: dict[int, int] = {}  # request -> the one whose row it shares
        self._waits = 0
        self._last_step: float | None = None  # when it ended, if the counter still shows its rows

    def opening(self, live: Iterable[Request]) -> list[Event]:
        lanes = {COMMANDS: "commands", ENGINE: "engine"} | {FIRST_SLOT + n: f"slot {n}" for n in range(self._slots)}
        events = [_name("process_name", 0, f"paceline {self._model}")]
        events += [_name("thread_name", lane, name) for lane, name in lanes.items()]
        for request in live:
            self._follows |= dict.fromkeys(request.followers, request.req_id)
            if request.slot is None:
                events += self._queue(request.req_id, self._origin)
            else:
                events += self._enter(request.req_id, request.slot, self._origin)
        return events

    def step(self, plan: Plan, results: list[StepResult], begun: float, ended: float) -> list[Event]:
        """Called before `saw` gets the items of the step."""
        if plan.kind is PlanKind.MOVES:
            return [self._slice(ENGINE, "moves", "moves", begun, ended, {"moves": len(plan.moves)})]
        rows = plan.batches[0]
        fed = sum(len(row.tokens) for row in rows)
        facts: Facts = {
            "rows": len(rows),
            "tokens": fed,
            "prefill_tokens": sum(len(row.tokens) for row in rows if _prefills(row)),
            "weight_bytes": sum(result.weight_bytes for result in results),
            "engine_ms": round(1e3 * sum(result.seconds for result in results), 3),
        }
        if plan.kind is PlanKind.PROBE:
            return [self._slice(ENGINE, "probe", "probe", begun, ended, facts)]
        self._steps += 1
        events = [] if self._last_step is None or begun - self._last_step < _PAUSE else self._no_rows()
        events.append(self._slice(ENGINE, _STEP_NAMES[plan.kind], "step", begun, ended, {"step": self._steps} | facts))
        events.append(self._counter("rows", len(rows), begun))
        for row, outcome in zip(rows, results[0].rows, strict=True):
            events += self._row(row, isinstance(outcome, RowFailure), begun, ended)
        self._last_step = ended
        return events

    def saw(self, items: Iterable[Item], now: float) -> list[Event]:
        events: list[Event] = []
        waiting = len(self._queued)
        for item in items:
            if isinstance(item, Message):
                events += self._message(item, now)
            elif item.value == YIELD and (slot := self._slot_of.get(item.req_id)) is not None:
                events += self._end_turn(slot, now)
                events.append(self._instant(FIRST_SLOT + slot, "yield", {"req": item.req_id}, now))
        if len(self._queued) != waiting:
            events.append(self._counter("queue", len(self._queued), now))
        return events

    def closing(self, now: float) -> list[Event]:
        """Ends whatever has begun."""
        events: list[Event] = []
        for slot in list(self._stays):
            events += self._leave(slot, {}, now)
        for req_id in list(self._queued):
            events += self._unqueue(req_id, now)
        return events if self._last_step is None else events + self._no_rows()

    def _message(self, message: Message, now: float) -> list[Event]:
        body = message.body
        if body.get("ok") is False:
            facts = {"line": body["re"], "req": message.req_id}
            return [self._instant(COMMANDS, f"refused: {body['code']}", facts, now)]
        if "prompt_tokens" in body and "re" in body:
            return self._started(message.req_id, body, now)
        if body.get("event") == "admitted":
            return self._unqueue(body["req"], now) + self._enter(body["req"], body["slot"], now)
        if body.get("event") == "end":
            return self._ended(body, now)
        return []

    def _started(self, req_id: int, body: dict[str, Any], now: float) -> list[Event]:
        if body["slot"] is not None:
            return self._enter(req_id, body["slot"], now)
        if body.get("with") is None:
            return self._queue(req_id, now)
        self._follows[req_id] = body["with"]
        return []

    def _ended(self, body: dict[str, Any], now: float) -> list[Event]:
        req_id, reason = body["req"], body["reason"]
        facts = {name: value for name, value in body.items() if name not in ("event", "stop_token")}
        slot = self._slot_of.get(req_id)
        events = self._unqueue(req_id, now)
        heir = self._succeed(req_id)
        if events and heir is not None:
            events += self._queue(heir, now)
        if slot is not None:
            events += self._leave(slot, facts, now)
        lane = COMMANDS if slot is None else FIRST_SLOT + slot
        return [*events, self._instant(lane, f"end: {reason}", {"req": req_id, "reason": reason}, now)]

    def _succeed(self, req_id: int) -> int | None:
        """Who takes over the row of a request that has ended, if anybody shared it."""
        self._follows.pop(req_id, None)
        heirs = [follower for follower, owner in self._follows.items() if owner == req_id]
        for heir in heirs:
            self._follows[heir] = heirs[0]
        return self._follows.pop(heirs[0]) if heirs else None

    def _queue(self, req_id: int, now: float) -> list[Event]:
        self._waits += 1
        self._queued[req_id] = self._waits
        return [self._wait("b", req_id, self._waits, now)]

    def _unqueue(self, req_id: int, now: float) -> list[Event]:
        wait = self._queued.pop(req_id, None)
        return [] if wait is None else [self._wait("e", req_id, wait, now)]

    def _enter(self, req_id: int, slot: int, now: float) -> list[Event]:
        events = self._leave(slot, {}, now)
        self._stays[slot] = _Stay(req_id)
        self._slot_of[req_id] = slot
        return [*events, self._begin(slot, f"req {req_id}", "request", {"req": req_id}, now)]

    def _leave(self, slot: int, facts: Facts, now: float) -> list[Event]:
        if slot not in self._stays:
            return []
        events = self._end_turn(slot, now)
        self._slot_of.pop(self._stays.pop(slot).req_id, None)
        return [*events, self._end(slot, facts, now)]

    def _row(self, row: Row, failed: bool, begun: float, ended: float) -> list[Event]:
        events: list[Event] = []
        stay = self._stays.get(row.slot)
        if stay is None or stay.req_id != row.req_id:
            events += self._enter(row.req_id, row.slot, begun)
            stay = self._stays[row.slot]
        if not stay.in_turn:
            stay.in_turn = True
            stay.turns += 1
            facts = {"req": row.req_id, "turn": stay.turns}
            events.append(self._begin(row.slot, f"turn {stay.turns}", "turn", facts, begun))
        first, last = row.position, row.position + len(row.tokens)
        kind, name = ("prefill", f"prefill [{first},{last})") if _prefills(row) else ("decode", f"decode {first}")
        facts = {"req": row.req_id, "epoch": row.epoch, "step": self._steps, "from": first, "to": last}
        if failed:
            facts["failed"] = True
        return [*events, self._slice(FIRST_SLOT + row.slot, name, kind, begun, ended, facts)]

    def _end_turn(self, slot: int, now: float) -> list[Event]:
        stay = self._stays[slot]
        if not stay.in_turn:
            return []
        stay.in_turn = False
        return [self._end(slot, {}, now)]

    def _no_rows(self) -> list[Event]:
        assert self._last_step is not None
        event = self._counter("rows", 0, self._last_step)
        self._last_step = None
        return [event]

    def _slice(self, lane: int, name: str, kind: str, begun: float, ended: float, facts: Facts) -> Event:
        start = self._microseconds(begun)
        duration = round(max(0.0, self._microseconds(ended) - start), 3)
        return _event("X", lane, start, name=name, cat=kind, dur=duration, args=facts)

    def _begin(self, slot: int, name: str, kind: str, facts: Facts, now: float) -> Event:
        return _event("B", FIRST_SLOT + slot, self._microseconds(now), name=name, cat=kind, args=facts)

    def _end(self, slot: int, facts: Facts, now: float) -> Event:
        return _event("E", FIRST_SLOT + slot, self._microseconds(now), args=facts)

    def _wait(self, phase: str, req_id: int, wait: int, now: float) -> Event:
        facts = {"req": req_id}
        return _event(
            phase, COMMANDS, self._microseconds(now), name=f"req {req_id} waits", cat="queue", id=wait, args=facts
        )

    def _instant(self, lane: int, name: str, facts: Facts, now: float) -> Event:
        return _event("i", lane, self._microseconds(now), name=name, s="t", args=facts)

    def _counter(self, name: str, value: int, now: float) -> Event:
        return _event("C", 0, self._microseconds(now), name=name, args={name: value})

    def _microseconds(self, now: float) -> float:
        return round(max(0.0, now - self._origin) * 1e6, 3)


def _prefills(row: Row) -> bool:
    return row.position < row.prompt_tokens


def _name(what: str, lane: int, name: str) -> Event:
    return _event("M", lane, 0, name=what, args={"name": name})


def _event(phase: str, lane: int, time: float, **rest: Any) -> Event:
    return {"ph": phase, "pid": PROCESS, "tid": lane, "ts": time, **rest}
