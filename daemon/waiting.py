"""The requests that wait for a place: who is next, and who may pass whom.

The highest priority is next, among equals the first come. If there is no room for it now, another that fits may pass
it. But once a request was passed PASSES times, by priority or by size, nobody passes it any more, and freed pages are
saved up until it fits. So nothing starves, and the order depends on the commands alone, not on the clock.

Pages are freed by requests that end, not by snapshots, which stay until somebody frees them. So a request for which the
snapshots leave too few pages holds nobody up, however often it was passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .requests import Request

PASSES = 16


class Waiting:
    def __init__(self) -> None:
        self._requests: list[Request] = []  # in the order of coming
        self.prompt_tokens = 0

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests)

    def add(self, request: Request) -> None:
        self._requests.append(request)
        self.prompt_tokens += request.waiting_tokens

    def remove(self, request: Request) -> None:
        self._requests.remove(request)
        self.prompt_tokens -= request.waiting_tokens

    def first(self, will_fit: Callable[[Request], bool]) -> Request | None:
        """Who must be next, whether it fits now or not: it was passed often enough, and will fit when the running
        requests end."""
        return next((request for request in self._requests if request.passed >= PASSES and will_fit(request)), None)

    def next(self, fits: Callable[[Request], bool], will_fit: Callable[[Request], bool]) -> Request | None:
        """The request to admit now; the caller still has to remove it, with `pass_over`."""
        first = self.first(will_fit)
        if first is not None:
            return first if fits(first) else None
        highest = max(self._requests, key=_urgency, default=None)  # the first come of them
        if highest is None or fits(highest):
            return highest
        by_priority = sorted(self._requests, key=_urgency, reverse=True)  # stable: the first come are first
        return next((request for request in by_priority if fits(request)), None)

    def pass_over(self, request: Request) -> None:
        """Removes the one that is admitted; those that came before it have been passed."""
        for other in self._requests[: self._requests.index(request)]:
            other.passed += 1
        self.remove(request)


def _urgency(request: Request) -> int:
    return request.urgency
