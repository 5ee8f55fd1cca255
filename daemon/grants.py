"""Grants: how many tokens a live request may still emit before it parks, and who gives more of them.

A request has a grant of at least one while it prefills or decodes, and none while it is parked. CONTINUE and SCHED_STEP
grant by hand; during a drain, or in auto mode, a spent grant is renewed at once.

`live` is in turn order: a request that was served by SCHED_STEP, or by a TARGET_STEP that left others out, goes to the
tail.
"""

from __future__ import annotations

from ..protocol import Item, Message
from .limits import Limits
from .requests import Request, State
from .scheduler import Scheduler


class Grants:
    def __init__(self, limits: Limits, live: dict[int, Request], scheduler: Scheduler) -> None:
        self._max_batch = limits.max_batch
        self._live = live
        self._scheduler = scheduler
        self.auto = limits.auto
        self.input_ended = False  # nobody will grant by hand any more
        self.drains: list[tuple[int, int | None]] = []  # (REQ tag, most seats) of each drain that goes on

    @property
    def seats(self) -> int:
        """Most rows of a step: a drain may ask for fewer than the daemon allows."""
        if not self.drains:
            return self._max_batch
        return min([self._max_batch, *(limit for _, limit in self.drains if limit is not None)])

    def anew(self, request: Request) -> bool:
        """Whether a spent grant is renewed without being asked for."""
        return self.auto or bool(self.drains) or bool(request.followers)

    def give(self, request: Request, count: int) -> int:
        """Grants `count` more tokens, at most what is left of its total; returns how many."""
        granted = min(count, request.remaining - request.grant)
        request.grant += granted
        if request.state is State.PARKED:
            request.state = State.DECODE
            self._scheduler.enter(request)
        return granted

    def give_next(self) -> Request | None:
        """One quantum to the next parked request in turn."""
        for request in self._live.values():
            if request.state is State.PARKED:
                self.give(request, request.quantum)
                self.rotate([request])
                return request
        return None

    def rotate(self, served: list[Request]) -> None:
        for request in served:
            self._live[request.req_id] = self._live.pop(request.req_id)

    def switch_auto(self, on: bool) -> None:
        self.auto = on
        if on:
            self._give_parked()

    def drain(self, req_id: int, most: int | None) -> None:
        self.drains.append((req_id, most))
        self._give_parked()

    def end_drains(self) -> list[Item]:
        """An event for each, when nothing is live any more."""
        ended = [Message(req_id, {"event": "drained"}) for req_id, _ in self.drains]
        self.drains.clear()
        return [*ended]

    def _give_parked(self) -> None:
        for request in self._live.values():
            if request.state is State.PARKED:
                self.give(request, request.quantum)
