"""Finds pages by what they hold: a tree of token ids, one page per node.

A node's path from the root spells the ids of all positions up to its own, so a page is found only where the whole text
before it is the same too, which is what its keys and values depend on. The ids themselves are compared, not hashes of
them: there are no collisions to think about.

What a page holds at committed positions never changes. So a request shares the full pages that match as they are,
whether their owner still runs or not; a page that matches in part it copies, and continues in the copy. A page has only
one writer: the request that allocated it.

Models with recurrent layers can continue only from a position whose state was kept. The tree keeps states beside its
nodes, as many as the pool of states allows; the least recently used one is evicted. (A state that a snapshot refers to
is not the tree's to evict.)
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .pages import PagePool
from .plan import PAGE
from .states import StatePool

Ids = tuple[int, ...]


@dataclass(slots=True, eq=False)
class Node:
    """`ids` are those of the positions in its page that are known: PAGE of them, or fewer in a tail."""

    page: int
    ids: Ids
    parent: Node | None = field(repr=False)
    children: dict[Ids, Node] = field(default_factory=dict, repr=False)
    order: list[Ids] = field(default_factory=list)  # the keys of `children`, sorted
    states: dict[int, int] = field(default_factory=dict)  # offset in this page, 1 to PAGE -> state kept after it
    known: bool = True

    def add(self, child: Node) -> None:
        self.children[child.ids] = child
        insort(self.order, child.ids)

    def remove(self, child: Node) -> None:
        del self.children[child.ids]
        del self.order[bisect_left(self.order, child.ids)]

    def path(self, count: int) -> list[Node]:
        """The last `count` nodes on the path to it, itself the last."""
        nodes = [self]
        while len(nodes) < count and nodes[-1].parent is not None:
            nodes.append(nodes[-1].parent)
        return nodes[::-1]

    def most_alike(self, part: Ids) -> tuple[Node | None, int]:
        """The child with the longest common prefix with `part`, and its length: in sorted order it is a neighbour of
        where `part` would be."""
        place = bisect_left(self.order, part)
        best, most = None, 0
        for ids in self.order[max(0, place - 1) : place + 1]:
            alike = _common(ids, part)
            if alike > most:
                best, most = self.children[ids], alike
        return best, most


class Match(NamedTuple):
    """What a text shares with the tree: whole pages, then some positions of the page `tail`.

    `length` positions in all. `state` is the one kept there, None if the model needs none. `seen` is how far the text
    is known, with or without a state.
    """

    pages: list[int]
    tail: int | None
    length: int
    state: int | None
    seen: int


class PrefixTree:
    def __init__(self, pool: PagePool, states: StatePool, recurrent: bool) -> None:
        self.root = Node(-1, (), None)
        self._pool = pool
        self._states = states
        self._recurrent = recurrent
        self._nodes: dict[int, Node] = {}  # page -> its node
        self._kept: dict[int, tuple[Node, int]] = {}  # state -> where it is kept, least recently used first

    @property
    def kept(self) -> Iterable[int]:
        """The states that the tree holds."""
        return self._kept

    def allocate(self, count: int) -> array[int]:
        return self._pool.allocate(count, lambda page: self._drop(self._nodes[page]))

    def match(self, ids: Ids, limit: int) -> Match:
        """The longest known beginning of `ids`, at most `limit` positions of it."""
        nodes = self.follow(self.root, ids, 0, limit)
        node = nodes[-1] if nodes else self.root
        begin = PAGE * len(nodes)
        rest = ids[begin : min(begin + PAGE, limit)]
        tail, copied = node.most_alike(rest)
        seen = begin + copied
        if not self._recurrent:
            return Match([node.page for node in nodes], None if tail is None else tail.page, seen, None, seen)
        return self._match_state(nodes, rest[:copied], seen)

    def follow(self, node: Node, ids: Ids, begin: int, limit: int) -> list[Node]:
        """The known full pages of `ids` up to position `limit`, from `begin` on, where `node` ends."""
        nodes: list[Node] = []
        for first in range(begin, limit - PAGE + 1, PAGE):
            child = node.children.get(ids[first : first + PAGE])
            if child is None:
                break
            nodes.append(child)
            node = child
        return nodes

    def insert(self, near: Node, ids: Ids, table: Sequence[int], begin: int) -> tuple[Node, int | None]:
        """Makes the pages of a text known, from position `begin` (where node `near` ends) to its end, a partly filled
        last one included. Returns the node of the last full page, and where the first page begins that was not known
        before."""
        node, new = near, None
        for first in range(begin, len(ids), PAGE):
            part = ids[first : first + PAGE]
            child = node.children.get(part)
            if child is None:
                child = self._grow(node, part, table[first // PAGE])
                new = first if new is None else new
            if len(part) < PAGE:
                break
            node = child
        return node, new

    def node_at(self, ids: Ids, position: int) -> Node | None:
        """The node of the page, full or not, in which the first `position` ids end; None if it is not known."""
        node = self.root
        for first in range(0, position, PAGE):
            part = ids[first : min(first + PAGE, position)]
            child = node.children.get(part)
            if child is None:
                child, alike = node.most_alike(part)
                if child is None or alike < len(part):
                    return None
            node = child
        return node

    def keep(self, ids: Ids, position: int) -> int | None:
        """A place for the state at `position`; None if there is none, or that state is kept already."""
        node = self.node_at(ids, position)
        offset = (position - 1) % PAGE + 1
        if node is None or any(
            kept == offset and at.parent is node.parent and at.ids[:offset] == node.ids[:offset]
            for at, kept in self._kept.values()
        ):
            return None
        state = self._states.allocate()
        if state is None:
            state = self.yield_state()
        if state is not None:
            node.states[offset] = state
            self._kept[state] = (node, offset)
        return state

    @property
    def can_yield_state(self) -> bool:
        return any(self._states.counts[state] == 1 for state in self._kept)

    def yield_state(self) -> int | None:
        """Takes the least recently used state from the tree: it is the caller's now. None if the tree can spare
        none."""
        for state, (node, offset) in self._kept.items():
            if self._states.counts[state] == 1:
                del self._kept[state]
                del node.states[offset]
                return state
        return None

    def _match_state(self, nodes: list[Node], rest: Ids, seen: int) -> Match:
        """The furthest state on the path: in a page after `nodes` that agrees with `rest` up to it, otherwise in one of
        `nodes`."""
        node = nodes[-1] if nodes else self.root
        begin, pages = PAGE * len(nodes), [node.page for node in nodes]
        tails = [
            (offset, state, tail.page)
            for state, (tail, offset) in self._kept.items()
            if tail.parent is node and offset <= len(rest) and tail.ids[:offset] == rest[:offset]
        ]
        if tails:
            offset, state, page = max(tails)
            return Match(pages, page, begin + offset, state, seen)
        for index in range(len(nodes) - 1, -1, -1):
            if not nodes[index].states:
                continue
            offset = max(nodes[index].states)
            state = nodes[index].states[offset]
            whole = index + (offset == PAGE)
            tail_page = None if offset == PAGE else pages[index]
            return Match(pages[:whole], tail_page, PAGE * index + offset, state, seen)
        return Match([], None, 0, None, seen)

    def use(self, state: int) -> None:
        """Marks a state as just used; a snapshot's own state is not in the tree's order."""
        if state in self._kept:
            self._kept[state] = self._kept.pop(state)

    def _grow(self, node: Node, part: Ids, page: int) -> Node:
        """A child of `node` that holds `part`: made of `page`, or a tail that has grown."""
        own = self._nodes.get(page)
        if own is not None:  # the same page, longer than when it became known
            assert own.parent is node and own.ids == part[: len(own.ids)]
            node.remove(own)
            own.ids = part
            node.add(own)
            return own
        child = Node(page, part, node)
        node.add(child)
        self._nodes[page] = child
        self._pool.know(page)
        return child

    def _drop(self, node: Node) -> None:
        """Forgets a node and everything below it, which can't be found any more."""
        assert node.parent is not None
        node.parent.remove(node)
        pending = [node]
        while pending:
            gone = pending.pop()
            pending += gone.children.values()
            gone.children, gone.order = {}, []  # they refer to their parent: a cycle that only gc would find
            gone.known = False
            del self._nodes[gone.page]
            self._pool.forget(gone.page)
            for state in gone.states.values():
                del self._kept[state]
                self._states.release(state)


def _common(one: Ids, other: Ids) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count
