"""Who gets a slot and its pages, and when: the waiting set and the leases.

A START gets a slot and all the pages it will ever need, or waits, or is refused; every check comes before any change.
"""

from __future__ import annotations

from collections.abc import Callable

from ..protocol import Refusal, Start
from .cache import Cache
from .held import Held
from .limits import Limits, pages_for
from .plan import EngineInfo
from .requests import Request, State, draw_seed, new_request
from .slots import Slots
from .snapshots import Origin
from .starts import check_start
from .waiting import Waiting

FindOrigin = Callable[[tuple[int, ...]], Origin]


class Admission:
    def __init__(
        self, info: EngineInfo, limits: Limits, cache: Cache, draw_seed: Callable[[], int], held: Held
    ) -> None:
        self._info = info
        self._limits = limits
        self._cache = cache
        self._draw_seed = draw_seed
        self._held = held
        self._settled = True  # no waiting request can be admitted in the current state
        self.slots = Slots(limits.slots)
        self.waiting = Waiting()

    def start(self, start: Start, now: float, find_origin: FindOrigin | None = None) -> Request:
        """Makes a request, in a slot or waiting for one. `find_origin` returns what a prompt starts from; it may
        refuse."""
        self.check_slot(start.slot)
        prompt = check_start(start, self._info, self._limits)
        self._check_size(pages_for(len(prompt) + start.total - 1))
        origin = None if find_origin is None else find_origin(prompt)
        if origin is not None and start.options.snap is not None:
            self._check_snap(*start.options.snap, origin)
        request = new_request(start, prompt, self._info.eos, now, origin)
        if start.options.grammar is not None:
            self._check_place(start.slot, request.waiting_tokens)  # before what may take seconds
            self._held.begin(request, start.options.grammar)
        slot = self._choose_slot(request, start.slot)
        draw_seed(request, self._draw_seed)
        if origin is not None:
            self._cache.snapshots.hold(origin)
        if slot is None:
            self.waiting.add(request)
            self._settled = False
        else:
            self._admit(request, slot, now)
        return request

    def next(self, now: float) -> Request | None:
        """Admits the next waiting request, if there is room for it."""
        if self._settled or (slot := self.slots.free()) is None:
            return None
        request = self._next_of_waiting()
        if request is None:
            self._settled = True
            return None
        self.waiting.pass_over(request)
        self._admit(request, slot, now)
        return request

    def vacate(self, request: Request) -> None:
        """Releases what an ending request holds: its slot and pages, or its place in the waiting set."""
        self._settled = False
        if request.slot is None or request.epoch is None:
            self.waiting.remove(request)
            if request.origin is not None:
                self._cache.snapshots.let_go(request.origin)
            return
        self._cache.leave(request)
        self.slots.release(request.slot, request.epoch)

    def freed(self) -> None:
        """Pages may have become free: the waiting requests must be checked again."""
        self._settled = False

    def known(self, request: Request, begin: int) -> None:
        """Its text can now be shared from position `begin` on, too: waiting requests whose prompts match it there may
        need fewer pages."""
        if self._settled and len(self.waiting):
            text = request.ids(begin + 1)
            ways = (one.prompt for one in self.waiting if one.prompt[begin : begin + 1] == text[begin:])
            self._settled = not any(prompt[: begin + 1] == text for prompt in ways)

    def check_slot(self, slot: int | None) -> None:
        if slot is not None and slot >= len(self.slots):
            raise Refusal("no_such_slot", f"slot {slot}: expected 0 to {len(self.slots) - 1}")

    def _admit(self, request: Request, slot: int, now: float) -> None:
        self._cache.seat(request, slot)
        request.slot, request.epoch = slot, self.slots.lease(slot, request.req_id)
        request.state = State.PREFILL
        request.admitted = now

    def _choose_slot(self, request: Request, wanted: int | None) -> int | None:
        """The slot to admit it to now; None if it has to wait."""
        if wanted is not None:
            self._check_wanted(request, wanted)
            self.waiting.add(request)
            self.waiting.pass_over(request)
            return wanted
        slot = self.slots.free()
        self.waiting.add(request)
        chosen = None if slot is None else self._next()
        if chosen is request:
            self.waiting.pass_over(request)
            return slot
        self.waiting.remove(request)
        self._check_queue(request.waiting_tokens)
        return None

    def _check_wanted(self, request: Request, slot: int) -> None:
        """A START that names its slot skips the queue, as if it had come first; but like all others it gets no pages
        while they are saved up for a request that was passed over too often."""
        self._check_free(slot)
        cache = self._cache
        first = self.waiting.first(cache.will_fit)
        if first is not None:
            advice = f"pages gather for request {first.req_id}, which is next; retry when it has been admitted"
            raise self._too_few(cache.missing(first.pages + request.pages), advice)
        if not cache.fits(request):
            frees = "a request has ended" if cache.will_fit(request) else "a snapshot is freed"
            raise self._too_few(cache.missing(request.pages), f"retry when {frees}")

    def _next(self) -> Request | None:
        return self.waiting.next(self._cache.fits, self._cache.will_fit)

    def _next_of_waiting(self) -> Request | None:
        """Pages that waiting requests hold through their origins can leave too few for any of them. If nothing runs
        that could free some, they drop their origins, the newest request first, if that lets anyone in: they will
        recompute what they would have shared, and get the same tokens later."""
        request = self._next()
        if request is None and not self.slots.used and any(self._cache.will_fit(one) for one in self.waiting):
            snapshots = self._cache.snapshots
            holders = [one for one in self.waiting if one.origin is not None and snapshots.lack(one.origin)]
            while request is None and holders:
                holder = holders.pop()
                assert holder.origin is not None
                snapshots.let_go(holder.origin)
                holder.origin = None
                request = self._next()
        return request

    def _check_place(self, wanted: int | None, prompt_tokens: int) -> None:
        if wanted is not None:
            self._check_free(wanted)
        elif self.slots.free() is None:
            self._check_queue(prompt_tokens)

    def _check_free(self, slot: int) -> None:
        if self.slots.owners[slot] is not None:
            raise Refusal("slot_busy", f"slot {slot} belongs to request {self.slots.owners[slot]}")

    def _check_snap(self, position: int, name: str, origin: Origin) -> None:
        """A recurrent state that is already past `position` cannot be taken back to it."""
        if self._cache.recurrent and position < origin.position:
            raise Refusal(
                "bad_argument",
                f"snap={position}:{name}: the snapshot that it starts from ends at {origin.position}, and this model "
                f"has recurrent layers: expected a position from {origin.position} on",
            )

    def _check_size(self, pages: int) -> None:
        if pages > self._limits.pages:
            missing = (pages - self._limits.pages) * self._info.page_bytes
            most = self._limits.most_positions
            advice = f"a retry cannot help: the whole cache holds {most} positions of prompt and total"
            raise self._too_few(missing, advice)

    def _check_queue(self, prompt_tokens: int) -> None:
        count, tokens = len(self.waiting), self.waiting.prompt_tokens
        if count >= self._limits.queue or tokens + prompt_tokens > self._limits.queue_tokens:
            raise Refusal(
                "queue_full",
                f"there is no place for it now, and {count} requests with {tokens} tokens of prompt wait already, "
                f"of at most {self._limits.queue} and {self._limits.queue_tokens}: retry later",
            )

    def _too_few(self, missing: int, advice: str) -> Refusal:
        """At least one page: a page that could be shared may be counted twice."""
        missing = max(missing, self._info.page_bytes)
        return Refusal("kv_budget", f"the cache lacks {missing} bytes for this request: {advice}")
