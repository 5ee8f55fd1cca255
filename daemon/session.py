"""The daemon without its pipes: commands in, replies and frames out, and in between the steps that an engine is to run.

Pure: no I/O, lock, thread or clock. Time enters as `now`, chance as a callable, and the caller runs the plans:

    items = session.apply(command, line, now)     one reply, then what the command caused
    plan = session.next_step(now)                 None: nothing is due
    items = session.finish(plan, results, now)

Each list of items enters the stream as a whole, so that an `end` event and its terminal stay together. A refused line
changes nothing: whatever can refuse is checked before the first change. While `holding`, lines wait: a target step or a
probe has not run yet, or a WAIT is not over.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from ..protocol import (
    Auto,
    BatchDrain,
    BatchPeek,
    BatchProbe,
    Cancel,
    Command,
    Continue,
    FreeSnapshot,
    Help,
    Item,
    ListRequests,
    ListSnapshots,
    ListTargetCacheSlots,
    Ping,
    Quit,
    Refusal,
    Restore,
    RestoreChain,
    Save,
    SchedDrain,
    SchedStep,
    Snapshot,
    SnapshotThin,
    Start,
    Stats,
    TargetStep,
    TargetTail,
    Trace,
    Wait,
    help_text,
)
from . import replies, snapshot_commands
from .constraints import Grammars, NoGrammars
from .lifecycle import Lifecycle
from .limits import Limits
from .plan import EngineInfo, Plan, PlanKind, StepResult
from .replies import Body
from .saved import Loaded
from .targets import Target, choose, peek


class Session:
    def __init__(
        self,
        info: EngineInfo,
        limits: Limits,
        draw_seed: Callable[[], int],
        now: float = 0.0,
        grammars: Grammars | None = None,
    ) -> None:
        self.info = info
        self.limits = limits
        self.lifecycle = Lifecycle(info, limits, draw_seed, grammars or NoGrammars())
        self.counters = self.lifecycle.counters
        self.live = self.lifecycle.live
        self._started = now
        self._target: Target | None = None
        self._wait: tuple[int, int, float] | None = None  # (REQ tag, line, step or infinity)
        self._unsent: list[Item] = []  # items of the call in progress, so far

    @property
    def holding(self) -> bool:
        return self._target is not None or self._wait is not None

    @property
    def idle(self) -> bool:
        return self.lifecycle.scheduler.idle

    @property
    def input_ended(self) -> bool:
        return self.lifecycle.grants.input_ended

    @property
    def done(self) -> bool:
        return self.input_ended and not self.live and not self.holding

    def apply(self, command: Command | Loaded, line: int, now: float) -> list[Item]:
        effects = self._unsent = []
        try:
            body = self._carry_out(command, line, now, effects)
        except Refusal as refusal:
            return self.refuse(line, command.req_id, refusal.code, refusal.error)
        self.counters.lines += 1
        if body is not None:
            effects.insert(0, replies.accepted(command.req_id, line, body))
        return self._settle(effects, now)

    def refuse(self, line: int, req_id: int, code: str, error: str) -> list[Item]:
        self.counters.lines += 1
        self.counters.refusals[code] += 1
        return [replies.refused(req_id, line, code, error)]

    def next_step(self, now: float) -> Plan | None:
        lifecycle = self.lifecycle
        begun = lifecycle.continuing.take()
        if self._target is not None:
            return self._target.plan(*lifecycle.cache.take())
        shares = lifecycle.scheduler.step(lifecycle.grants.seats, begun)
        if not shares:
            return self.moves() if lifecycle.cache.moves else None
        for request, _ in shares:
            if request.started is None:
                request.started = now
        commits, moves = lifecycle.cache.take()
        return Plan(PlanKind.STEP, commits, (lifecycle.drafts.rows(shares, begun, lifecycle.continuing),), moves)

    def moves(self) -> Plan:
        """A plan without a step: what is to be done to slots, pages and states now."""
        commits, moves = self.lifecycle.cache.take()
        return Plan(PlanKind.MOVES, commits, (), moves)

    def check(self) -> None:
        """What must be true between any two commands; raises RuntimeError if it is not."""
        self.lifecycle.check()

    def finish(self, plan: Plan, results: list[StepResult], now: float) -> list[Item]:
        items = self._unsent = []
        if plan.kind is PlanKind.MOVES:
            return items
        if plan.kind is not PlanKind.PROBE:
            self.lifecycle.progress.finish(plan.batches[0], results[0], now, items)
        if plan.kind is not PlanKind.STEP and self._target is not None:
            items.append(replies.accepted(self._target.req_id, self._target.line, self._target.body(results)))
            self._target = None
        return self._settle(items, now)

    def end_of_input(self, now: float) -> list[Item]:
        items = self._unsent = []
        self.lifecycle.end_input(now, items)
        return self._settle(items, now)

    def shutdown(self, now: float) -> list[Item]:
        """Every live request ends CANCELLED, no line is read any more."""
        items = self._unsent = []
        for request in list(self.live.values()):
            items += self.lifecycle.endings.end(request, "cancelled", now)
        return self._give_up(items)

    def fail_all(self, error: str, now: float, code: str = "internal") -> list[Item]:
        """Every live request ends FAILED. Items that an interrupted call had already made come first; the bookkeeping
        may be wrong after an unexpected error, and is not relied on."""
        items = self._unsent
        items += self.lifecycle.endings.fail_all(now, code=code, error=error)
        held = [(self._target.req_id, self._target.line)] if self._target is not None else []
        held += [self._wait[:2]] if self._wait is not None else []
        self._target = self._wait = None
        items += [replies.refused(*line, code, error) for line in held]
        return self._give_up(items)

    def _carry_out(self, command: Command | Loaded, line: int, now: float, effects: list[Item]) -> Body | None:
        """The reply's body without `ok`, or None if the reply comes later; what follows it is added to `effects`."""
        lifecycle = self.lifecycle
        match command:
            case Start():
                return lifecycle.start(command, now, effects)
            case Continue(count, slot, epoch, req_id=req_id):
                return {"granted": lifecycle.resume(lifecycle.find(req_id, slot, epoch), count)}
            case Cancel(target, slot):
                return {"state": lifecycle.cancel(target, slot, now, effects).value}
            case SchedStep():
                granted = lifecycle.grants.give_next()
                return {"req": granted and granted.req_id}
            case SchedDrain() | BatchDrain():
                lifecycle.grants.drain(command.req_id, command.limit if isinstance(command, BatchDrain) else None)
                return {"live": len(self.live) + len(lifecycle.sharing.followers)}
            case Auto(on):
                lifecycle.grants.switch_auto(on)
                return {}
            case BatchPeek(limit):
                return peek(*choose(self.live.values(), limit, tail=False))
            case BatchProbe(limit):
                return self._aim(PlanKind.PROBE, limit, False, line, command.req_id)
            case TargetStep(limit) | TargetTail(limit):
                return self._aim(PlanKind.TARGET, limit, isinstance(command, TargetTail), line, command.req_id)
            case Wait(step):
                self._wait = (command.req_id, line, inf if step is None else step)
                return None
            case ListRequests():
                return replies.list_requests(self.live.values())
            case ListTargetCacheSlots():
                return replies.list_slots(lifecycle.admission.slots, self.live, self.info.page_bytes)
            case Stats():
                slots, seconds = lifecycle.admission.slots, now - self._started
                return replies.statistics(self.counters, self.live, slots, lifecycle.cache, self.info, seconds)
            case Snapshot() | SnapshotThin() | FreeSnapshot() | ListSnapshots() | Save() | Loaded():
                return snapshot_commands.carry_out(command, lifecycle, self.info)
            case Restore() | RestoreChain():
                return snapshot_commands.restore(command, lifecycle, now, effects)
            case Trace():
                return {}
            case Help(topic):
                return {"help": help_text(topic)}
            case Ping(word):
                return {"pong": word}
            case Quit():
                lifecycle.end_input(now, effects)
                return {}
            case _:
                raise TypeError(f"the snapshot {command.path} has not been read")

    def _aim(self, kind: PlanKind, limit: int | None, tail: bool, line: int, req_id: int) -> Body | None:
        taken, skipped = choose(self.live.values(), limit, tail)
        target = Target(kind, taken, [request.emitted for request in taken], line, req_id)
        if not taken:
            return target.nothing()
        if kind is PlanKind.TARGET:
            self.lifecycle.aim(taken, skipped)
        self._target = target
        return None

    def _give_up(self, items: list[Item]) -> list[Item]:
        """Nothing is live any more: answers every held line and every drain."""
        self.lifecycle.grants.input_ended = True
        if self._target is not None:
            items.append(replies.accepted(self._target.req_id, self._target.line, self._target.nothing()))
            self._target = None
        items += self.lifecycle.grants.end_drains()
        self._end_wait(items)
        self._unsent = []
        return items

    def _settle(self, items: list[Item], now: float) -> list[Item]:
        items += self.lifecycle.settle(now)
        if self._wait is not None and (self.idle or self.counters.steps >= self._wait[2]):
            self._end_wait(items)
        self._unsent = []
        return items

    def _end_wait(self, items: list[Item]) -> None:
        if self._wait is not None:
            items.append(replies.accepted(*self._wait[:2], {"step": self.counters.steps}))
            self._wait = None
