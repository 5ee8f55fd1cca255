"""How requests end: what they release, the `end` event, the terminal frame; and so for each listener of a shared
row."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from ..protocol import CANCELLED, DONE, FAILED, Frame, Item
from . import replies
from .admission import Admission
from .requests import Follower, Request, State
from .scheduler import Scheduler
from .sharing import Sharing
from .stats import Counters

_TERMINAL: Final = {"eos": DONE, "stop": DONE, "length": DONE, "cancelled": CANCELLED, "failed": FAILED}


class Endings:
    def __init__(
        self,
        live: dict[int, Request],
        scheduler: Scheduler,
        admission: Admission,
        sharing: Sharing,
        counters: Counters,
    ) -> None:
        self._live = live
        self._scheduler = scheduler
        self._admission = admission
        self._sharing = sharing
        self._counters = counters

    def end(self, request: Request, reason: str, now: float, **details: Any) -> list[Item]:
        """The event and the terminal. The slot and the pages are free at once; a commit that the engine has not got yet
        is dropped."""
        self._give_back(request)
        return self._terminate(request, reason, now, details)

    def fail_all(self, now: float, **details: Any) -> list[Item]:
        """Every live request ends FAILED, even if the bookkeeping is wrong."""
        items: list[Item] = []
        for request in list(self._live.values()):
            with suppress(Exception):
                self._give_back(request)
            items += self._terminate(request, "failed", now, details)
        return items

    def leave_row(self, req_id: int, now: float) -> list[Item]:
        """A follower is cancelled; the row goes on."""
        request, follower = self._sharing.part(req_id)
        return self._end_follower(request, follower, "cancelled", now, {})

    def pass_on(self, request: Request, now: float) -> list[Item]:
        """The owner of a row is cancelled; the row goes on and now belongs to its first follower."""
        left = request.req_id
        items: list[Item] = [replies.ended(request, "cancelled", now, {}), Frame(left, CANCELLED)]
        self._sharing.succeed(request)
        renamed = {request.req_id if key == left else key: value for key, value in self._live.items()}
        self._live.clear()
        self._live.update(renamed)
        if request.slot is not None:
            self._admission.slots.pass_on(request.slot, request.req_id)
        self._counters.ends["cancelled"] += 1
        return items

    def _give_back(self, request: Request) -> None:
        if request.state in (State.PREFILL, State.DECODE):
            self._scheduler.leave(request)
        self._admission.vacate(request)

    def _terminate(self, request: Request, reason: str, now: float, details: replies.Body) -> list[Item]:
        """It stays live until its end is made, so that if an error comes before that it still gets one."""
        items: list[Item] = [replies.ended(request, reason, now, details), Frame(request.req_id, _TERMINAL[reason])]
        for follower in self._sharing.close(request):
            items += self._end_follower(request, follower, reason, now, details)
        del self._live[request.req_id]
        request.ended = reason
        self._counters.ends[reason] += 1
        return items

    def _end_follower(
        self, request: Request, follower: Follower, reason: str, now: float, details: replies.Body
    ) -> list[Item]:
        self._counters.ends[reason] += 1
        event = replies.follower_ended(request, follower, reason, now, details)
        return [event, Frame(follower.req_id, _TERMINAL[reason])]
