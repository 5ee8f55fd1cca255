"""Equal deterministic requests that overlap in time share one row (`--coalesce`).

The first of them owns the row; the others follow it: each first gets the tokens that came before it, then every token
as it comes, and an end and a terminal of its own. If the owner is cancelled, the first follower goes on with the row,
under the same lease; the row lives until its last listener ends.

Sharing is for auto mode, where nobody grants by hand: all listeners have the same grants, hence the same yields.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..protocol import YIELD, Frame, Item, PromptFile, Start
from .requests import Follower, Key, Request


class Sharing:
    def __init__(self) -> None:
        self.rows: dict[Key, Request] = {}  # those that may be followed
        self.followers: dict[int, Request] = {}  # a follower's id -> the request it follows

    def find(self, start: Start) -> Request | None:
        """A live request that START is equal to."""
        key = _key(start)
        return None if key is None else self.rows.get(key)

    def offer(self, start: Start, request: Request) -> None:
        """Later requests equal to it may follow it."""
        request.key = _key(start)
        if request.key is not None:
            self.rows[request.key] = request

    def withdraw(self, request: Request) -> None:
        """Nobody follows it from now on."""
        if request.key is not None:
            del self.rows[request.key]
            request.key = None

    def join(self, request: Request, start: Start, now: float) -> list[Item]:
        """A new follower, and the tokens and yields that it has missed."""
        req_id = start.req_id
        request.followers[req_id] = Follower(req_id, now, start.options.priority)
        self.followers[req_id] = request
        items: list[Item] = []
        for count, token in enumerate(request.output, 1):
            items.append(Frame(req_id, token))
            if count % request.quantum == 0:
                items.append(Frame(req_id, YIELD))
        return items

    def part(self, req_id: int) -> tuple[Request, Follower]:
        """A follower that ends before the row does."""
        request = self.followers.pop(req_id)
        return request, request.followers.pop(req_id)

    def succeed(self, request: Request) -> None:
        """The first follower takes the row over from its owner, who is forgotten."""
        follower = request.followers.pop(next(iter(request.followers)))
        del self.followers[follower.req_id]
        request.req_id, request.arrived, request.priority = follower.req_id, follower.arrived, follower.priority

    def close(self, request: Request) -> Iterable[Follower]:
        """The row ends, and all that follow it."""
        self.withdraw(request)
        followers, request.followers = request.followers, {}
        for req_id in followers:
            del self.followers[req_id]
        return followers.values()


def _key(start: Start) -> Key | None:
    """None if it can't be shared: its tokens depend on chance, or it asks for more than tokens."""
    options, sampling = start.options, start.options.sampling
    by_chance = sampling.temp > 0 and sampling.seed is None
    if by_chance or sampling.logprobs or start.slot is not None or options.snap is not None:
        return None
    if isinstance(start.prompt, PromptFile):
        return None
    quantum = min(start.quantum or start.total, start.total)
    return start.prompt.tokens, start.total, quantum, replace(options, priority=0, predict=())
