"""Who gets a slot and its pages, and when: the queue and the leases.

A START gets a slot and all pages of its whole life, or waits in the queue, or is refused; every check comes before any
change. The queue is first in, first out: a START passes its head only by naming a free slot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ..protocol import Refusal, Start
from .limits import Limits, pages_for
from .pages import PagePool
from .plan import EngineInfo
from .requests import Request, State, new_request
from .slots import Slots
from .starts import check_start


class Admission:
    def __init__(self, info: EngineInfo, limits: Limits, draw_seed: Callable[[], int]) -> None:
        self._info = info
        self._limits = limits
        self._draw_seed = draw_seed
        self.slots = Slots(limits.slots)
        self.pages = PagePool(limits.pages)
        self.queue: deque[Request] = deque()

    def start(self, start: Start, now: float) -> Request:
        """A new request, in a slot or in the queue."""
        self.check_slot(start.slot)
        prompt = check_start(start, self._info, self._limits)
        slot = self._choose_slot(start.slot, pages_for(len(prompt) + start.total - 1))
        request = new_request(start, prompt, self._info.eos, self._draw_seed, now)
        if slot is None:
            self.queue.append(request)
        else:
            self._admit(request, slot, now)
        return request

    def next(self, now: float) -> Request | None:
        """Admits the head of the queue, if there is a place for it."""
        slot = self.slots.free()
        if not self.queue or slot is None or self.queue[0].pages > self.pages.free:
            return None
        request = self.queue.popleft()
        self._admit(request, slot, now)
        return request

    def vacate(self, request: Request) -> None:
        """Takes back what a request that ends holds: slot and pages, or its place in the queue."""
        if request.slot is None or request.epoch is None:
            self.queue.remove(request)
            return
        self.slots.release(request.slot, request.epoch)
        self.pages.release(request.table)

    def check_slot(self, slot: int | None) -> None:
        if slot is not None and slot >= len(self.slots):
            raise Refusal("no_such_slot", f"slot {slot}: expected 0 to {len(self.slots) - 1}")

    def _admit(self, request: Request, slot: int, now: float) -> None:
        request.table = self.pages.allocate(request.pages)
        request.slot, request.epoch = slot, self.slots.lease(slot, request.req_id)
        request.state = State.PREFILL
        request.admitted = now

    def _choose_slot(self, wanted: int | None, pages: int) -> int | None:
        """The slot to admit to now; None is the queue."""
        if pages > len(self.pages):
            raise self._too_few(pages - len(self.pages), "a retry cannot help: the whole cache is smaller than that")
        fits = pages <= self.pages.free
        if wanted is not None:
            if self.slots.owners[wanted] is not None:
                raise Refusal("slot_busy", f"slot {wanted} belongs to request {self.slots.owners[wanted]}")
            if not fits:
                raise self._too_few(pages - self.pages.free, "retry when a request has ended")
            return wanted
        slot = self.slots.free()
        if slot is not None and fits and not self.queue:
            return slot
        if len(self.queue) >= self._limits.queue:
            raise Refusal(
                "queue_full", f"there is no place for it now, and {len(self.queue)} requests wait already: retry later"
            )
        return None

    def _too_few(self, pages: int, advice: str) -> Refusal:
        return Refusal("kv_budget", f"the cache lacks {pages * self._info.page_bytes} bytes for this request: {advice}")
