"""Prompts with one beginning that are computed at the same time: one computes it, the others go on from there.

Before a step every prefill is looked up in the tree of prefixes again: others may have filled pages of its text since
it was seated. While another one in the step computes the page that it needs next, it *waits* (leaders.py): it gets its
one token, and what else it would get that one gets, as far as their prompts are the same.

A prefill moves on when it computes for itself, when all it needs is known, or when it comes twice as far: to say where
a slot is takes time for each position. Until then it holds pages of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .cache import Cache
from .leaders import WORTH_A_STEP, Leaders, choose
from .plan import PAGE
from .requests import Request


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
        nodes = tree.follow(one.node, one.prompt, one.filed, one.chunk_end - 1)
        if nodes:
            one.node, one.filed = nodes[-1], one.filed + PAGE * len(nodes)

    def _tail(self, one: Request) -> int | None:
        """A page that goes on with its text to the end of its chunk, if it is worth a copy. A page that a snapshot
        shares is not written again."""
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
