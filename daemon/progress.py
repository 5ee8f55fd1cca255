"""What a step brings to requests: their positions move, they are given tokens, they yield or end.

Every grant that is spent before the total is reached shows as a YIELD, even if it is renewed at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..protocol import YIELD, Frame, Item, Refusal
from . import replies
from .admission import Admission
from .cache import Cache
from .drafts import Drafts
from .endings import Endings
from .grants import Grants
from .held import Held
from .plan import Row, RowFailure, RowResult, StepResult
from .requests import Request, State
from .scheduler import Scheduler
from .stats import Counters


class Progress:
    def __init__(
        self,
        live: Mapping[int, Request],
        cache: Cache,
        scheduler: Scheduler,
        admission: Admission,
        grants: Grants,
        endings: Endings,
        held: Held,
        drafts: Drafts,
        counters: Counters,
    ) -> None:
        self._live = live
        self._cache = cache
        self._scheduler = scheduler
        self._admission = admission
        self._grants = grants
        self._endings = endings
        self._held = held
        self._drafts = drafts
        self._counters = counters

    def finish(self, rows: tuple[Row, ...], result: StepResult, now: float, items: list[Item]) -> None:
        """Applies what a step has brought to all that are still there, under the leases that its rows had."""
        self._counters.count_step(rows, result)
        for row, outcome in zip(rows, result.rows, strict=True):
            request = self._live.get(row.req_id)
            if request is None or request.slot != row.slot or request.epoch != row.epoch:
                self._counters.stale_results += 1
                continue
            self._receive(request, row, outcome, len(rows), now, items)
        for request, error in self._held.look_ahead():
            items += self._endings.end(request, "failed", now, code="grammar_failed", error=error)

    def snap(self, request: Request, items: list[Item]) -> None:
        """The snapshot that its START asked for. The request goes on, whatever comes of it."""
        assert request.snap is not None
        position, name = request.snap
        if self._grants.input_ended:
            return
        try:
            self._cache.snapshot(name, request, 0, position)
        except Refusal as refusal:
            items.append(replies.no_snapshot(request, name, refusal))
        else:
            items.append(replies.snapshot_taken(request, name, position))
            self._admission.freed()  # an earlier snapshot of this name may have held pages

    def _receive(
        self, request: Request, row: Row, outcome: RowResult | RowFailure, company: int, now: float, items: list[Item]
    ) -> None:
        """Applies what a step of `company` rows has brought for it."""
        if isinstance(outcome, RowFailure):
            request.overtaken = row.continues
            items += self._endings.end(request, "failed", now, code="step_failed", error=outcome.error)
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
            self._counters.drafted += row.outputs - 1
            self._counters.drafted_right += len(right) - 1
        for index, token in enumerate(right):
            self._advance(request, row.position + len(row.tokens) - row.outputs + index + 1, items)
            if request.digest is not None:
                request.digest.update(outcome.logits_of(index))
            if outcome.logprobs is not None:
                items += replies.logprobs(request, token, outcome.logprobs[index])
            self._emit(request, token, now, items)
            if request.ended is not None:
                return
        if outcome.drafted:
            self._drafts.propose(request, outcome.drafted)

    def _advance(self, request: Request, position: int, items: list[Item]) -> None:
        """A step has fed it up to `position`."""
        request.position = position
        new = self._cache.advance(request)
        if new is not None:
            self._admission.known(request, new)
        if request.snap is not None and request.snap[0] == position:
            self.snap(request, items)
        if request.stops and request.stops[-1] == position:
            request.stops.pop()
            if self._cache.keep_state(request):
                self._admission.known(request, position - 1)

    def _emit(self, request: Request, token: int, now: float, items: list[Item]) -> None:
        """A prediction for `request`: its next token, or its end."""
        if request.state is State.PREFILL:
            request.state = State.DECODE
        if reason := request.ends.get(token):
            items += self._endings.end(request, reason, now, stop_token=token)
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
            self._counters.ttft.add(now - request.arrived)
        else:
            self._counters.gap.add(now - request.last_token)
        request.last_token = now
        if not request.remaining:
            items += self._endings.end(request, "length", now)
            return
        self._held.note(request, token)
        if request.grant <= 0:
            self._spent(request, now, items)

    def _spent(self, request: Request, now: float, items: list[Item]) -> None:
        items.append(Frame(request.req_id, YIELD))
        items += [Frame(follower, YIELD) for follower in request.followers]
        if self._grants.anew(request):
            request.grant = 0
            self._grants.give(request, request.quantum)
        elif self._grants.input_ended:
            items += self._endings.end(request, "cancelled", now)
        else:
            if request.state is State.DECODE:
                self._scheduler.leave(request)
            request.state = State.PARKED
            request.grant = 0
