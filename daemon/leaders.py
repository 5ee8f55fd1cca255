"""Who computes for whom: of prefills whose prompts continue alike, only one needs to compute.

The outcome of a step is not known before it is over, so each step decides anew, and no request depends on another for
longer.
"""

from __future__ import annotations

from collections.abc import Sequence

from .plan import PAGE
from .requests import Request

WORTH_A_STEP = PAGE // 4
"""From this many positions on, waiting for them or copying them is faster than computing them."""

Leaders = dict[Request, Request]
"""Who computes the next page of each request: itself, or the one that it waits for, which is its own leader."""


def each_itself(prefills: Sequence[Request]) -> Leaders:
    return dict(zip(prefills, prefills, strict=True))


def choose(prefills: Sequence[Request]) -> Leaders:
    """For each request, the one that is furthest in the page that it needs next, among those whose chunk may reach that
    page's end; itself, if waiting would save it little."""
    pages = {one: (one.node, one.prompt[one.filed : one.filed + PAGE]) for one in prefills}
    furthest: dict[object, Request] = {}
    for one, page in pages.items():
        if one.chunk_end >= _page_end(one) and (page not in furthest or one.position > furthest[page].position):
            furthest[page] = one
    return {one: furthest.get(page, one) if _spared(one) >= WORTH_A_STEP else one for one, page in pages.items()}


def missing(one: Request) -> int:
    """Tokens of its chunk that nobody has computed."""
    return one.chunk_end - max(one.position, one.filed)


def needed(one: Request, leader: Request, most: int) -> int:
    """How many of the next `most` tokens of the leader are of use to `one`: all if it leads itself, otherwise those up
    to the end of the last page that both have."""
    last = min(leader.chunk_end, leader.position + most)
    if leader is one:
        return last - leader.position
    end = _page_end(leader)
    while end < last and one.prompt[end : end + PAGE] == leader.prompt[end : end + PAGE]:
        end += PAGE
    return min(end, last) - leader.position


def _page_end(one: Request) -> int:
    """Where its page after `filed` becomes known to others: at the page's end, or at the end of its prompt."""
    return min(one.filed + PAGE, len(one.prompt))


def _spared(one: Request) -> int:
    """Positions that waiting would save it: it computes the last token of its chunk itself in any case."""
    return min(one.filed + PAGE, one.chunk_end - 1) - max(one.position, one.filed)
