"""A request's life from START to its terminal: admission, grants, the end. The session decides what happens; this is
what it means for the slots, the pages, the turns and the stream. What a step brings is progress.py's.
"""

from __future__ import annotations

from collections.abc import Callable

from ..protocol import Item, Refusal, Start
from . import replies
from .admission import Admission, FindOrigin
from .beginnings import Beginnings
from .cache import Cache
from .constraints import Grammars
from .continuing import Continuing
from .drafts import Drafts
from .endings import Endings
from .grants import Grants
from .held import Held
from .invariants import check, check_references
from .leaders import each_itself
from .leases import check_lease
from .limits import Limits
from .plan import EngineInfo
from .progress import Progress
from .requests import Request, State
from .scheduler import Scheduler
from .sharing import Sharing
from .stats import Counters


class Lifecycle:
    def __init__(self, info: EngineInfo, limits: Limits, draw_seed: Callable[[], int], grammars: Grammars) -> None:
        self._limits = limits
        self.counters = Counters()
        self.cache = Cache(info, limits)
        self.drafts = Drafts(limits.draft, limits.step_tokens, info.column_cost, info.draft_cost)
        self.held = Held(grammars, self.drafts)
        self.admission = Admission(info, limits, self.cache, draw_seed, self.held)
        shares = limits.reuse and not self.cache.recurrent and not info.seats_feed
        leaders = Beginnings(self.cache, self._found).leaders if shares else each_itself
        self.scheduler = Scheduler(limits.step_tokens, limits.prefill_tokens, leaders)
        self.sharing = Sharing()
        self.live: dict[int, Request] = {}
        self.grants = Grants(limits, self.live, self.scheduler)
        self.continuing = Continuing(info.wait_cost, self.scheduler, self.grants, self.admission.waiting)
        self.endings = Endings(self.live, self.scheduler, self.admission, self.sharing, self.counters)
        self.progress = Progress(
            self.live,
            self.cache,
            self.scheduler,
            self.admission,
            self.grants,
            self.endings,
            self.held,
            self.drafts,
            self.counters,
        )

    def start(
        self,
        start: Start,
        now: float,
        effects: list[Item],
        find_origin: FindOrigin | None = None,
    ) -> replies.Body:
        """Accepts a new request and returns the reply's body; what follows the reply is added to `effects`."""
        if self._limits.alone and self.live:
            raise Refusal(
                "slot_busy",
                f"request {min(self.live)} is live: a bare stream carries one at a time; expected this after its end",
            )
        owner = self.live.get(start.req_id) or self.sharing.followers.get(start.req_id)
        if owner is not None:
            state = owner.state.value
            raise Refusal(
                "duplicate_request", f"request {start.req_id} is live ({state}): its id is free after its end"
            )
        shares = self._limits.coalesce and self.grants.auto and find_origin is None
        row = self.sharing.find(start) if shares else None
        if row is not None and len(self.sharing.followers) < self._limits.queue:
            self.counters.accepted += 1
            self.counters.coalesced += 1
            effects += self.sharing.join(row, start, now)
            return replies.following(row)
        request = self.admission.start(start, now, find_origin)
        self.live[start.req_id] = request
        self.counters.accepted += 1
        if shares and row is None:
            self.sharing.offer(start, request)
        if request.slot is not None:
            self._enter(request, effects)
        return replies.started(request)

    def find(self, req_id: int, slot: int | None, epoch: int | None = None) -> Request:
        """The live request of this id, if it holds the lease that the line names."""
        self.admission.check_slot(slot)
        request = self.live.get(req_id) or self.sharing.followers.get(req_id)
        if request is None:
            raise Refusal("not_active", f"request {req_id} is not live")
        check_lease(request, req_id, slot, epoch)
        return request

    def resume(self, request: Request, count: int) -> int:
        """CONTINUE: grants by hand; returns how many tokens were granted."""
        if request.followers:
            raise Refusal("unsupported", f"the row of request {request.req_id} is shared: it is granted all it needs")
        self.sharing.withdraw(request)
        return self.grants.give(request, count)

    def aim(self, taken: list[Request], skipped: list[Request]) -> None:
        """A target step is a turn of one token. A parked request yields after it, where a later follower, who goes by
        the quantum alone, would not expect it: so nobody may follow it any more."""
        for request in taken:
            if request.state is State.PARKED:
                self.sharing.withdraw(request)
        if any(request.pending is not None for request in skipped):
            self.grants.rotate(taken)

    def cancel(self, req_id: int, slot: int | None, now: float, effects: list[Item]) -> State:
        """Ends a request in any state, and returns that state. A shared row goes on while it has listeners."""
        request = self.find(req_id, slot)
        state = request.state
        if req_id != request.req_id:
            effects += self.endings.leave_row(req_id, now)
        elif request.followers:
            effects += self.endings.pass_on(request, now)
        else:
            effects += self.endings.end(request, "cancelled", now)
        return state

    def end_input(self, now: float, effects: list[Item]) -> None:
        """No grant will come any more: parked requests end (in auto mode and during a drain none stays parked). Nor
        will anybody ask for a snapshot, and waiting requests may need its pages."""
        self.grants.input_ended = True
        for request in [request for request in self.live.values() if request.state is State.PARKED]:
            effects += self.endings.end(request, "cancelled", now)
        self.cache.snapshots.clear()
        self.admission.freed()

    def settle(self, now: float) -> list[Item]:
        """What may follow from any change: waiting requests are admitted, drains end."""
        items: list[Item] = []
        while (request := self.admission.next(now)) is not None:
            items.append(replies.admitted(request))
            self._enter(request, items)
        if not self.live:
            items += self.grants.end_drains()
        return items

    def check(self) -> None:
        """What must be true between any two commands; raises RuntimeError if it is not."""
        check_references(self.cache, self.live.values())
        check(self.live, self.admission, self.scheduler, self.sharing)

    def _enter(self, request: Request, items: list[Item]) -> None:
        if request.cached and request.origin is None:
            self.counters.prefix_hits += 1
            self.counters.prefix_tokens += request.cached
        if request.snap is not None and request.snap[0] <= request.position:
            self.progress.snap(request, items)
        self.scheduler.enter(request)

    def _found(self, request: Request, count: int) -> None:
        """Others have computed `count` more positions of its prompt; pages of its own may have become free."""
        if request.origin is None:
            self.counters.prefix_tokens += count
            if not request.cached:
                self.counters.prefix_hits += 1
        request.cached += count
        self.admission.freed()
