"""A request's life from START to its terminal: admission, tokens, parking, the end. The session decides what happens;
this is what it means for the slots, the pages, the turns and the stream.

Every grant that is spent before the total is reached shows as a YIELD, even if it is renewed at once.
"""

from __future__ import annotations

from collections.abc import Callable

from ..protocol import YIELD, Frame, Item, Refusal, Start
from . import replies
from .admission import Admission, FindOrigin
from .beginnings import Beginnings
from .cache import Cache
from .constraints import Grammars
from .drafts import Drafts
from .endings import Endings
from .grants import Grants
from .held import Held
from .invariants import check, check_references
from .leaders import each_itself
from .leases import check_lease
from .limits import Limits
from .plan import EngineInfo, Row, RowFailure, RowResult
from .requests import Request, State
from .scheduler import Scheduler
from .sharing import Sharing
from .stats import Counters


class Lifecycle:
    def __init__(self, info: EngineInfo, limits: Limits, draw_seed: Callable[[], int], grammars: Grammars) -> None:
        self._limits = limits
        self.counters = Counters()
        self.cache = Cache(info, limits)
        self.held = Held(grammars)
        self.admission = Admission(info, limits, self.cache, draw_seed, self.held)
        shares = limits.reuse and not self.cache.recurrent and not info.seats_feed
        leaders = Beginnings(self.cache, self._found).leaders if shares else each_itself
        self.scheduler = Scheduler(limits.step_tokens, limits.prefill_tokens, leaders)
        self.drafts = Drafts(limits.draft, limits.step_tokens, info.column_cost)
        self.sharing = Sharing()
        self.live: dict[int, Request] = {}
        self.grants = Grants(limits, self.live, self.scheduler)
        self.endings = Endings(self.live, self.scheduler, self.admission, self.sharing, self.counters)
        self.input_ended = False

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

    def receive(
        self, request: Request, row: Row, outcome: RowResult | RowFailure, company: int, now: float, items: list[Item]
    ) -> None:
        """Applies what a step of `company` rows has brought for it."""
        if isinstance(outcome, RowFailure):
            items += self.endings.end(request, "failed", now, code="step_failed", error=outcome.error)
            return
        request.steps += 1
        request.step_rows += company
        if not row.outputs:
            self._advance(request, row.position + len(row.tokens), items)
            return
        right = outcome.right(row)
        if row.outputs > 1:
            request.drafted += row.outputs - 1
            request.drafted_right += len(right) - 1
            self.counters.drafted += row.outputs - 1
            self.counters.drafted_right += len(right) - 1
        for index, token in enumerate(right):
            self._advance(request, row.position + len(row.tokens) - row.outputs + index + 1, items)
            if request.digest is not None:
                request.digest.update(outcome.logits_of(index))
            if outcome.logprobs is not None:
                items += replies.logprobs(request, token, outcome.logprobs[index])
            self._emit(request, token, now, items)
            if request.ended is not None:
                return

    def look_ahead(self, now: float, items: list[Item]) -> None:
        """Once all rows of a step are received."""
        for request, error in self.held.look_ahead(self.drafts):
            items += self.endings.end(request, "failed", now, code="grammar_failed", error=error)

    def _advance(self, request: Request, position: int, items: list[Item]) -> None:
        """A step has fed it up to `position`."""
        request.position = position
        new = self.cache.advance(request)
        if new is not None:
            self.admission.known(request, new)
        if request.snap is not None and request.snap[0] == position:
            self._snap(request, items)
        if request.stops and request.stops[-1] == position:
            request.stops.pop()
            if self.cache.keep_state(request):
                self.admission.known(request, position - 1)

    def _emit(self, request: Request, token: int, now: float, items: list[Item]) -> None:
        """A prediction for `request`: its next token, or its end."""
        if request.state is State.PREFILL:
            request.state = State.DECODE
        if reason := request.ends.get(token):
            items += self.endings.end(request, reason, now, stop_token=token)
            return
        request.pending = token
        request.output.append(token)
        request.grant -= 1
        request.turn -= 1
        items.append(Frame(request.req_id, token))
        if request.followers:
            items += [Frame(follower, token) for follower in request.followers]
        if request.last_token is None:
            request.first_token = now
            self.counters.ttft.add(now - request.arrived)
        else:
            self.counters.gap.add(now - request.last_token)
        request.last_token = now
        if not request.remaining:
            items += self.endings.end(request, "length", now)
            return
        self.held.note(request, token)
        if request.grant <= 0:
            self._spent(request, now, items)

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
        self.input_ended = True
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
            self._snap(request, items)
        self.scheduler.enter(request)

    def _found(self, request: Request, count: int) -> None:
        """Others have computed `count` more positions of its prompt; pages of its own may have become free."""
        if request.origin is None:
            self.counters.prefix_tokens += count
            if not request.cached:
                self.counters.prefix_hits += 1
        request.cached += count
        self.admission.freed()

    def _snap(self, request: Request, items: list[Item]) -> None:
        """The snapshot that its START asked for. The request goes on, whatever comes of it."""
        assert request.snap is not None
        position, name = request.snap
        if self.input_ended:
            return
        try:
            self.cache.snapshot(name, request, 0, position)
        except Refusal as refusal:
            items.append(replies.no_snapshot(request, name, refusal))
        else:
            items.append(replies.snapshot_taken(request, name, position))
            self.admission.freed()  # an earlier snapshot of this name may have held pages

    def _spent(self, request: Request, now: float, items: list[Item]) -> None:
        items.append(Frame(request.req_id, YIELD))
        items += [Frame(follower, YIELD) for follower in request.followers]
        if self.grants.anew(request):
            request.grant = 0
            self.grants.give(request, request.quantum)
        elif self.input_ended:
            items += self.endings.end(request, "cancelled", now)
        else:
            if request.state is State.DECODE:
                self.scheduler.leave(request)
            request.state = State.PARKED
            request.grant = 0
