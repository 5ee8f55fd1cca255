"""A request's life from START to its terminal: grants, tokens, parking, the end. The session says what happens; here
is what it means for the slots, the pages, the turns and the stream.

A grant is how many tokens a request may still emit before it parks. It has at least one while it prefills or
decodes, none while it is parked. Every grant that is spent before the total shows as a YIELD, also when a drain or
auto regrants at once.

`live` is in turn order: whom SCHED_STEP or a cut TARGET_STEP served goes to its tail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..protocol import CANCELLED, DONE, FAILED, YIELD, Frame, Item, Message, Refusal, Start
from . import replies
from .admission import Admission
from .limits import Limits
from .plan import EngineInfo
from .requests import Request, State
from .scheduler import Scheduler
from .stats import Counters

_TERMINAL: Final = {"eos": DONE, "stop": DONE, "length": DONE, "cancelled": CANCELLED, "failed": FAILED}


class Lifecycle:
    def __init__(self, info: EngineInfo, limits: Limits, draw_seed: Callable[[], int]) -> None:
        self._max_batch = limits.max_batch
        self.counters = Counters()
        self.admission = Admission(info, limits, draw_seed)
        self.scheduler = Scheduler(limits.step_tokens, limits.prefill_tokens)
        self.live: dict[int, Request] = {}
        self.commits: dict[int, int] = {}  # slot -> position, for the next plan to carry
        self.drains: list[tuple[int, int | None]] = []  # (REQ tag, most seats) of each drain that goes on
        self.auto = limits.auto
        self.input_ended = False

    @property
    def seats(self) -> int:
        if not self.drains:
            return self._max_batch
        return min([self._max_batch, *(limit for _, limit in self.drains if limit is not None)])

    @property
    def _regrants(self) -> bool:
        return self.auto or bool(self.drains)

    def start(self, start: Start, now: float) -> Request:
        if start.req_id in self.live:
            state = self.live[start.req_id].state.value
            raise Refusal(
                "duplicate_request", f"request {start.req_id} is live ({state}): its id is free after its end"
            )
        request = self.admission.start(start, now)
        self.live[start.req_id] = request
        self.counters.accepted += 1
        if request.slot is not None:
            self._enter(request, request.slot)
        return request

    def find(self, req_id: int, slot: int | None, epoch: int | None = None) -> Request:
        """The live request of this id, if it holds the lease that the line names."""
        self.admission.check_slot(slot)
        request = self.live.get(req_id)
        if request is None:
            raise Refusal("not_active", f"request {req_id} is not live")
        holds = f"request {req_id} holds slot {request.slot} at epoch {request.epoch}"
        if request.slot is None:
            holds = f"request {req_id} waits in the queue and holds no slot"
        if slot not in (None, request.slot):
            raise Refusal("stale", f"SLOT {slot}: {holds}")
        if epoch not in (None, request.epoch):
            raise Refusal("stale", f"epoch={epoch}: {holds}")
        return request

    def grant(self, request: Request, count: int) -> int:
        """So many tokens more, at most what is left of its total; returns how many."""
        granted = min(count, request.remaining - request.grant)
        request.grant += granted
        if request.state is State.PARKED:
            request.state = State.DECODE
            self.scheduler.enter(request)
        return granted

    def grant_next(self) -> Request | None:
        """One quantum to the next parked request in turn."""
        for request in self.live.values():
            if request.state is State.PARKED:
                self.grant(request, request.quantum)
                self.rotate([request])
                return request
        return None

    def rotate(self, served: list[Request]) -> None:
        for request in served:
            self.live[request.req_id] = self.live.pop(request.req_id)

    def regrant_parked(self) -> None:
        for request in self.live.values():
            if request.state is State.PARKED:
                self.grant(request, request.quantum)

    def emit(self, request: Request, token: int, now: float, items: list[Item]) -> None:
        """A prediction for `request`: its next token, or its end."""
        if request.state is State.PREFILL:
            request.state = State.DECODE
        if reason := request.ends.get(token):
            items += self.end(request, reason, now, stop_token=token)
            return
        request.pending = token
        request.emitted += 1
        request.grant -= 1
        request.turn -= 1
        items.append(Frame(request.req_id, token))
        if request.last_token is None:
            request.first_token = now
            self.counters.ttft.add(now - request.arrived)
        else:
            self.counters.gap.add(now - request.last_token)
        request.last_token = now
        if request.emitted == request.total:
            items += self.end(request, "length", now)
        elif request.grant <= 0:
            self._spent(request, now, items)

    def end(self, request: Request, reason: str, now: float, **details: Any) -> list[Item]:
        """The event and the terminal. The slot and the pages are free at once; a commit that was to come is dropped."""
        del self.live[request.req_id]
        if request.state in (State.PREFILL, State.DECODE):
            self.scheduler.leave(request)
        if request.slot is not None:
            self.commits.pop(request.slot, None)
        self.admission.vacate(request)
        request.ended = reason
        self.counters.ends[reason] += 1
        return [replies.ended(request, now, details), Frame(request.req_id, _TERMINAL[reason])]

    def end_all(self, reason: str, now: float, **details: Any) -> list[Item]:
        return [item for request in list(self.live.values()) for item in self.end(request, reason, now, **details)]

    def end_input(self, now: float) -> list[Item]:
        """No grant will come any more: whoever is parked ends, unless it is never parked for long."""
        self.input_ended = True
        parked = [request for request in self.live.values() if request.state is State.PARKED]
        return [item for request in parked for item in self.end(request, "cancelled", now)]

    def settle(self, now: float) -> list[Item]:
        """What follows from any change: places for the queue, the end of the drains."""
        items: list[Item] = []
        while (request := self.admission.next(now)) is not None and request.slot is not None:
            items.append(replies.admitted(request))
            self._enter(request, request.slot)
        if not self.live:
            items += (Message(req_id, {"event": "drained"}) for req_id, _ in self.drains)
            self.drains.clear()
        return items

    def _enter(self, request: Request, slot: int) -> None:
        self.commits[slot] = 0
        self.scheduler.enter(request)

    def _spent(self, request: Request, now: float, items: list[Item]) -> None:
        items.append(Frame(request.req_id, YIELD))
        if self._regrants:
            request.grant = 0
            self.grant(request, request.quantum)
        elif self.input_ended:
            items += self.end(request, "cancelled", now)
        else:
            if request.state is State.DECODE:
                self.scheduler.leave(request)
            request.state = State.PARKED
            request.grant = 0
