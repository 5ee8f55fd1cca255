"""Who will be in the next step, as far as that is known when a step is planned.

Between two steps a device would wait for the host: for the results to arrive, be told and become the next step's rows.
So an engine with a `wait_cost` begins the next step behind the one under way. It can, as a row that decodes needs
nothing but its own prediction, which the device has (and what a grammar allows behind that, which it has not); who
turns out to have ended was computed in vain, and nobody is told. But whoever is in the next step must have been in this
one: a step with newcomers would be computed as a whole, after what was begun for the others. So they wait for the step
behind it, which they would not have been in much sooner: what was begun is under way when they come. Nobody continues
if somebody is known to come.

A step that is begun has no drafted tokens, as these follow from the last one. So where drafts save more than the wait
takes, in this step or as a rule, nothing is begun.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized

from .grants import Grants
from .requests import Request, State
from .scheduler import Scheduler, Share

REMEMBERED = 10
"""Steps after which what drafts were worth counts a third."""


class Continuing:
    def __init__(self, wait_cost: float, scheduler: Scheduler, grants: Grants, queue: Sized) -> None:
        """wait_cost: EngineInfo's. queue: those that wait for a slot."""
        self._wait_cost = wait_cost
        self._scheduler = scheduler
        self._grants = grants
        self._queue = queue
        self._worth = 0.0
        self.begun: frozenset[Request] = frozenset()
        """For whom a step is begun behind the last one that was planned."""

    def take(self) -> frozenset[Request]:
        """The same, once: the step that is planned now is another one, or that one."""
        begun, self.begun = self.begun, frozenset()
        return begun

    def choose(self, shares: Sequence[Share], worth: float) -> frozenset[Request]:
        """Whose rows of the step that is being planned continue. worth: what its drafts would save, in steps of one
        token."""
        self.begun = frozenset()
        if not self._wait_cost:
            return self.begun
        self._worth += (worth - self._worth) / REMEMBERED
        if max(worth, self._worth) <= self._wait_cost and all(_predicts(*share) for share in shares):
            going = [request for request, _ in shares if self._goes_on(request)]
            free = all(request.ahead is None for request in going)  # of grammars, which follow from the token
            if free and not self._somebody_comes(len(shares), len(going)):
                self.begun = frozenset(going)
        return self.begun

    def _somebody_comes(self, now: int, then: int) -> bool:
        """Into a step behind one of so many rows, of which so many go on."""
        line = self._scheduler
        takes_turns = len(line.seated) > now
        return bool(takes_turns or line.paused or line.waiting or (then < now and len(self._queue)))

    def _goes_on(self, request: Request) -> bool:
        """If its next token does not end it."""
        return request.remaining > 1 and (request.grant > 1 or self._grants.anew(request))


def _predicts(request: Request, count: int) -> bool:
    return request.state is State.DECODE or request.position + count == len(request.prompt)
