"""Prompts with a common prefix that are prefilled at the same time: one computes it, the others continue from there.

Before each step every prefill is looked up in the prefix tree again: others may have filled pages of its text since it
was seated. While another one in the step computes the page that it needs next, it *waits* (leaders.py): it gets a
single token, and the rest of its share goes to that other one, as far as their prompts agree.

A prefill is moved forward to what is known when it has to compute for itself, when all it needs is known, or when its
position at least doubles: a Seat takes time for each position. Until then it holds pages of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .cache import Cache
from .leaders import WORTH_A_STEP, Leaders, choose
from .plan import PAGE
from .requests import Request


class Beginnings:
    def __init__(self, cache: Cache, found: Callable[[Request, int], None]) -> None:
        """`found` is told how many positions a request was moved forward."""
        self._cache = cache
        self._found = found

    def leaders(self, prefills: Sequence[Request]) -> Leaders:
        """The leaders for a step of these prefills, which are first moved forward as far as that pays."""
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
        """Updates `node` and `filed`: how far its text is known, in full pages."""
        tree = self._cache.tree
        if one.node is None or not one.node.known:
            one.node, one.filed = tree.root, 0
        nodes = tree.follow(one.node, one.prompt, one.filed, one.chunk_end - 1)
        if nodes:
            one.node, one.filed = nodes[-1], one.filed + PAGE * len(nodes)

    def _tail(self, one: Request) -> int | None:
        """A known page that continues its text to the end of its chunk, if a copy of it pays. None if its own page
        there is shared with a snapshot, since that must not be rewritten."""
        last = one.chunk_end - 1
        assert one.node is not None
        if last - one.filed >= PAGE or last - max(one.filed, one.position) < WORTH_A_STEP:
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
