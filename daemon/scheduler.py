"""Who is in the next step, and with how many tokens.

A request is *due* while it prefills, or decodes and holds a grant. `enter` puts it in line, `leave` takes it out. A
due request is in one of three places, and `step` moves them:

  seated    in the next step
  paused    lost its seat in mid-turn, keeps what is left of the turn, is seated again before anybody new
  waiting   in line, in the order of coming

Turns. A turn is the prefill, if there is one, and `quantum` emitted tokens. It begins with a seat. When it is over, the
request goes to the tail of the line, and the free seats fill: from paused, then from the head of the line. While no
more requests are due than there are seats, nobody is left in line and everyone is in every step: no special case.

Hence the promise: *between two turns of one request, every request that was waiting has begun one*. A request re-enters
at the tail, and only the head of the line begins turns. A prefill may be taken from the middle of the line (below), but
a request prefills only in its first turn, so nobody begins a second turn that way.

The prefill's seat. While prefills are due and none has a seat, the first of them takes one; if none is free, a decoding
request is paused: the one that came last, by `rank`, its place in line. The one that came first of the seated is never
paused, so turns do end; a seat that becomes free goes to the paused request that came first, so nobody is paused for
ever.

If there is only one seat, a decoding request and a prefill share it and alternate, step by step. Here too only the head
of the line begins a turn as a decoding request, even if that leaves every step to the prefill for a while.

Tokens. The decoding rows come first, one token each; then the prefills share what is left of the step's budget. Each
gets one token; of the rest the first in line is guaranteed half, and what remains goes to those that need least, in
that order. So a long prompt does not hold up short ones and still makes progress, and among equal ones each is done as
soon as if it had run alone after those before it. The budget is `step_tokens` if anybody decodes in this step,
otherwise `prefill_tokens`.

Steps begun ahead. An engine may have begun the next step of those that were in the last one (continuing.py). As long as
one of them has a seat, the step is theirs, and everybody else waits for the one behind it, seated or not. Turns that
are over are over all the same.

Common prefixes. A prefill that waits for what another one in the step computes gets a single token; the rest of its
share goes to that one, as far as their prompts agree (leaders.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from .leaders import Leaders, each_itself, missing, needed
from .requests import Request, State

Share = tuple[Request, int]


class Scheduler:
    def __init__(
        self, step_tokens: int, prefill_tokens: int, leaders: Callable[[Sequence[Request]], Leaders] = each_itself
    ) -> None:
        """`leaders` says who computes for whom in a step, and may move requests forward before it."""
        self._step_tokens = step_tokens
        self._prefill_tokens = prefill_tokens
        self._leaders = leaders
        self.seated: list[Request] = []
        self.paused: list[Request] = []
        self.waiting: deque[Request] = deque()
        self._rank = 0
        self._prefill_next = False

    @property
    def idle(self) -> bool:
        return not (self.seated or self.paused or self.waiting)

    def enter(self, request: Request) -> None:
        self._rank += 1
        request.rank = self._rank
        self.waiting.append(request)

    def leave(self, request: Request) -> None:
        for place in (self.seated, self.paused, self.waiting):
            if request in place:
                place.remove(request)
                return
        raise ValueError(f"request {request.req_id} is not due")

    def step(self, seats: int, begun: frozenset[Request] = frozenset()) -> list[Share]:
        """Each request of the next step with the number of tokens that it is fed. `begun`: for whom the engine has
        begun one."""
        for place in (self.seated, self.paused):  # target steps use up turns of the paused, too
            for request in [request for request in place if request.turn <= 0]:
                place.remove(request)
                self.enter(request)
        due = [*self.seated, *self.paused, *self.waiting]
        if begun and not begun.issuperset(due):
            if 1 < len(due) <= seats:
                self._fill(seats)
            kept = [request for request in self.seated if request in begun]
            if kept and len(self.seated) <= seats:
                return self._divide(kept)
        if seats == 1:
            return self._divide(self._share_one_seat())
        if len(self.seated) != seats or self.paused or self.waiting:
            self._fill(seats)
        return self._divide(self.seated)

    def _fill(self, seats: int) -> None:
        self._seat_a_prefill()
        while len(self.seated) > seats:
            prefills = self._seated_prefills()
            self._pause(prefills if len(prefills) > 1 else self._seated_decoders())
        while len(self.seated) < seats and (self.paused or self.waiting):
            if self.paused:
                self._resume(self.paused)
            else:
                self._begin(self.waiting[0])

    def _share_one_seat(self) -> list[Request]:
        while len(self._seated_decoders()) > 1:
            self._pause(self._seated_decoders())
        while len(self._seated_prefills()) > 1:
            self._pause(self._seated_prefills())
        self._seat_a_prefill()
        if not self._seated_decoders():
            if paused := [request for request in self.paused if request.state is State.DECODE]:
                self._resume(paused)
            elif self.waiting and self.waiting[0].state is State.DECODE:
                self._begin(self.waiting[0])
        if len(self.seated) < 2:
            return self.seated
        self._prefill_next = not self._prefill_next
        return self._seated_prefills() if self._prefill_next else self._seated_decoders()

    def _seat_a_prefill(self) -> None:
        if self._seated_prefills():
            return
        if paused := [request for request in self.paused if request.state is State.PREFILL]:
            self._resume(paused)
        elif prefill := next((request for request in self.waiting if request.state is State.PREFILL), None):
            self._begin(prefill)

    def _begin(self, request: Request) -> None:
        self.waiting.remove(request)
        self.seated.append(request)
        request.turn = request.quantum

    def _resume(self, paused: list[Request]) -> None:
        request = min(paused, key=_rank)
        self.paused.remove(request)
        self.seated.append(request)

    def _pause(self, seated: list[Request]) -> None:
        request = max(seated, key=_rank)
        self.seated.remove(request)
        self.paused.append(request)

    def _seated_prefills(self) -> list[Request]:
        return [request for request in self.seated if request.state is State.PREFILL]

    def _seated_decoders(self) -> list[Request]:
        return [request for request in self.seated if request.state is State.DECODE]

    def _divide(self, seated: list[Request]) -> list[Share]:
        decoders = [(request, 1) for request in seated if request.state is State.DECODE]
        if len(decoders) == len(seated):
            return decoders
        prefills = [request for request in seated if request.state is State.PREFILL]
        leaders = self._leaders(prefills)
        left = self._step_tokens - len(decoders) if decoders else self._prefill_tokens
        counts = dict.fromkeys(prefills, 1)
        left = max(0, left - len(prefills))
        in_turn = [(prefills[0], (left + 1) // 2), *((request, left) for request in sorted(prefills, key=missing))]
        for request, most in in_turn:
            leader = leaders[request]
            more = min(most, left)
            more = max(0, needed(request, leader, counts[leader] + more) - counts[leader])
            counts[leader] += more
            left -= more
        return decoders + list(counts.items())


def _rank(request: Request) -> int:
    return request.rank
