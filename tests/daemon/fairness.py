"""The promise about turns, watched from outside: between two turns of one request, every request that was waiting has
begun one."""

from __future__ import annotations

from paceline.daemon.requests import Request
from paceline.daemon.scheduler import Scheduler


class Fairness:
    """Call `before` and `after` around each step of the scheduler."""

    def __init__(self) -> None:
        self._line: list[Request] = []
        self._ahead: dict[
            Request, set[Request]
        ] = {}  # who was waiting when it came into line and has not begun a turn since
        self._begun: set[Request] = set()

    def before(self, scheduler: Scheduler) -> None:
        over = [request for request in scheduler.seated if request.turn <= 0]
        self._line = [*scheduler.waiting, *over]
        for place, request in enumerate(self._line):
            self._ahead.setdefault(request, set(self._line[:place]))

    def after(self, scheduler: Scheduler) -> list[Request]:
        """Who has begun a turn."""
        begun = [request for request in scheduler.seated if request in self._line]
        for ahead in self._ahead.values():
            ahead.difference_update(begun)
        for request in begun:
            passed = self._ahead.pop(request).intersection(scheduler.waiting)
            assert not passed or request not in self._begun, f"{request.req_id} passed {[one.req_id for one in passed]}"
        self._begun.update(begun)
        return begun
