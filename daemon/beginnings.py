"""Prompts with one beginning that are computed at the same time: one computes it, the others go on from there.

Before a step every prefill is looked up in the tree of prefixes again: others may have filled pages of its text since
it was seated. And while another one in the step is to compute the page that it needs next, it *waits*: it gets its one
token of the step, and what it would get of the rest that one gets, as far as it helps it. After the step the page is
known, or whoever waited is on its own again. So nobody depends on what becomes of another for longer than a step.

A prefill moves on when it computes for itself, when all it needs is known, or when it comes twice as far: to say where
a slot is takes time for each position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .cache import Cache
from .plan import PAGE
from .requests import Request

WORTH_A_STEP = PAGE // 4
"""From so many positions on it is sooner to wait for them, or to copy them, than to compute them."""

Leaders = dict[Request, Request]
"""Who computes the next page of each: itself, or the one that it waits for."""


class Beginnings:
    def __init__(self, cache: Cache, found: Callable[[Request, int], None]) -> None:
        """`found` hears how many positions a request has moved on."""
        self._cache = cache
        self._found = found

    def leaders(self, prefills: Sequence[Request]) -> Leaders:
        """For a step of these, who have moved on as far as they can."""
        for one in prefills:
            self._look_up(one)
            tail = self._tail(one)
            if tail is not None or one.filed >= 2 * one.position:
                self._move_on(one, tail)
        leaders = choose(prefills)
        for one, leader in leaders.items():
            if leader is one:
                self._move_on(one, None)
        return leaders

    def _look_up(self, one: Request) -> None:
        """How far its text is known, in full pages."""
        tree = self._cache.tree
        if one.node is None or not one.node.known:
            one.node, one.filed = tree.root, 0
        nodes = tree.follow(one.node, one.prompt, one.filed, _last(one))
        if nodes:
            one.node, one.filed = nodes[-1], one.filed + PAGE * len(nodes)

    def _tail(self, one: Request) -> int | None:
        """A page that goes on with its text to the end of its chunk, if it is worth a copy. A page that a snapshot
        shares is not written again."""
        last = _last(one)
        if one.node is None or last - one.filed >= PAGE or last - max(one.filed, one.position) < WORTH_A_STEP:
            return None
        tail, alike = one.node.most_alike(one.prompt[one.filed : last])
        if tail is None or one.filed + alike < last or self._cache.pages.counts[one.table[one.filed // PAGE]] > 1:
            return None
        return tail.page

    def _move_on(self, one: Request, tail: int | None) -> None:
        before = one.position
        if tail is not None or one.filed > before:
            self._cache.move_on(one, tail)
            self._found(one, one.position - before)


def choose(prefills: Sequence[Request]) -> Leaders:
    """For each the one that has come furthest in the page that it needs next, of those whose chunks may reach its end;
    itself, if that spares it little."""
    furthest: dict[object, Request] = {}
    for one in prefills:
        if page_end(one) <= one.position + one.stretch:
            other = furthest.setdefault(_page(one), one)
            if one.position > other.position:
                furthest[_page(one)] = one
    return {one: furthest.get(_page(one), one) if _spared(one) >= WORTH_A_STEP else one for one in prefills}


def page_end(one: Request) -> int:
    """Where its page after `filed` is known to others: at its border, or at the end of its prompt."""
    return min(one.filed + PAGE, len(one.prompt))


def missing(one: Request) -> int:
    """Tokens of its chunk that nobody has computed."""
    return one.position + one.stretch - max(one.position, one.filed)


def _page(one: Request) -> object:
    """Equal where the texts are, up to the end of that page."""
    return one.node, one.prompt[one.filed : one.filed + PAGE]


def _spared(one: Request) -> int:
    return min(one.filed + PAGE, _last(one)) - max(one.position, one.filed)


def _last(one: Request) -> int:
    """The position of the last token of its chunk, which it computes itself in any case."""
    return one.position + one.stretch - 1
