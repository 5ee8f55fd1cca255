"""The tree of known beginnings, against a plain list of everything that was ever put into it."""

from __future__ import annotations

from itertools import takewhile

import pytest
from circles import no_circles
from hypothesis import given, settings
from hypothesis import strategies as st
from paceline.daemon import prefixes
from paceline.daemon.limits import pages_for
from paceline.daemon.pages import OutOfPages, PagePool
from paceline.daemon.plan import PAGE
from paceline.daemon.prefixes import Node, PrefixTree
from paceline.daemon.states import StatePool

Ids = tuple[int, ...]


class Cache:
    """A tree, and what each page holds: the whole text up to the position, as keys and values do."""

    def __init__(self, pages: int, states: int = 0) -> None:
        self.pool = PagePool(pages)
        self.states = StatePool(states)
        self.tree = PrefixTree(self.pool, self.states, recurrent=states > 0)
        self.held: dict[int, Ids] = {}  # page -> the text up to its last position
        self.kept: dict[int, Ids] = {}  # state -> the text before it

    def run(self, ids: Ids, keep: int = 0) -> int | None:
        """Serves a text and lets go of it; how much was found. None: too few pages."""
        match = self.tree.match(ids, len(ids) - 1)
        self.check(ids, match.pages, match.tail, match.length, match.state)
        if match.state is not None:
            self.tree.use(match.state)
        sources = [*match.pages, *([] if match.tail is None else [match.tail])]
        self.pool.retain(sources)
        try:
            own = self.tree.allocate(pages_for(len(ids)) - len(match.pages))
        except OutOfPages:
            self.pool.release(sources)
            return None
        if match.tail is not None:
            self.pool.release([match.tail])
        table = [*match.pages, *own]
        for index, page in enumerate(table[len(match.pages) :], len(match.pages)):
            self.held[page] = ids[: PAGE * (index + 1)]
        self.tree.insert(self.tree.root, ids, table, 0)
        if keep and (state := self.tree.keep(ids[:keep], keep)) is not None:
            self.kept[state] = ids[:keep]
        self.pool.release(table)
        return match.length

    def check(self, ids: Ids, pages: list[int], tail: int | None, length: int, state: int | None) -> None:
        for index, page in enumerate(pages):
            assert self.held[page] == ids[: PAGE * (index + 1)]
        assert (length - PAGE * len(pages) > 0) == (tail is not None)
        if tail is not None:
            assert self.held[tail][:length] == ids[:length]
        assert length < len(ids)
        if self.states.counts and length:
            assert state is not None and self.kept[state] == ids[:length]


def text(*parts: tuple[int, int]) -> Ids:
    return tuple(token for token, count in parts for _ in range(count))


def known(node: Node) -> int:
    """The pages that can be found from here."""
    return sum(1 + known(child) for child in node.children.values())


def alike_in(one: Ids, other: Ids) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def test_the_same_text_again_needs_one_token() -> None:
    for length in (1, 2, 63, 64, 65, 128, 200):
        cache = Cache(8)
        assert cache.run(text((1, length))) == 0
        assert cache.run(text((1, length))) == length - 1


def test_what_is_shared_ends_where_the_texts_part() -> None:
    cache = Cache(32)
    cache.run(text((1, 150)))
    assert cache.run(text((1, 100), (2, 50))) == 100
    assert cache.run(text((1, 100), (2, 20), (3, 90))) == 120
    assert cache.run(text((1, 64), (3, 90))) == 64
    assert cache.run(text((4, 90))) == 0


def test_what_was_idle_longest_is_evicted_first_and_a_text_from_its_tail() -> None:
    cache = Cache(6)
    one, two = text((1, 128)), text((2, 128))
    cache.run(one)
    cache.run(two)
    assert cache.run(one) == 127
    assert cache.run(text((3, 192))) == 0  # takes two free ones, then of what is left
    assert cache.run(two) in (0, 64)
    assert cache.pool.used == 0


def test_a_node_that_goes_takes_along_what_comes_after_it() -> None:
    cache = Cache(4)
    ids = text((1, 192))
    cache.run(ids)
    match = cache.tree.match(ids, 191)
    assert match.tail is not None
    pages = [*match.pages, match.tail]
    cache.pool.retain(pages[1:])  # as a thin snapshot does
    table = cache.tree.allocate(2)
    assert not cache.tree.root.children
    cache.pool.release(table)
    cache.pool.release(pages[1:])
    assert (cache.pool.free, cache.pool.available) == (4, 4)


def test_what_is_forgotten_is_freed_at_once() -> None:
    with no_circles():
        cache = Cache(4)
        cache.run(text((1, 192)))
        pages = cache.tree.match(text((1, 192)), 191).pages
        cache.pool.retain(pages[1:])
        cache.tree.allocate(3)  # the free one, the last of the text, and the first, which takes along the second


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple), unique=True), st.data())
def test_the_most_alike_of_all_children(texts: list[Ids], data: st.DataObject) -> None:
    node = Node(-1, (), None)
    children = [Node(page, ids, node) for page, ids in enumerate(texts)]
    for child in children:
        node.add(child)
    for child in data.draw(st.sets(st.sampled_from(children))) if children else ():
        node.remove(child)
    part = data.draw(st.lists(st.integers(0, 2), max_size=7).map(tuple))
    most = max([alike_in(ids, part) for ids in node.children], default=0)
    best, alike = node.most_alike(part)
    assert alike == most == (0 if best is None else alike_in(best.ids, part))


def test_a_thousand_texts_are_not_compared_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(2000)
    for number in range(1000):
        cache.run((1, 2, 3, number + 10, 4))
    compared: list[Ids] = []
    whole = prefixes._common
    monkeypatch.setattr(prefixes, "_common", lambda one, other: compared.append(one) or whole(one, other))  # type: ignore[func-returns-value]
    assert cache.run((1, 2, 3, 500, 9)) == 3 + 1
    assert len(compared) <= 4


def test_a_state_is_found_beside_any_text_that_begins_alike() -> None:
    cache = Cache(32, states=2)
    begin = text((5, 40))
    cache.run((*begin, 7))
    assert cache.run((*begin, 8, 8), keep=40) == 0
    for token in (9, 1, 8, 7, 6):
        assert cache.run((*begin, token, token, token), keep=40) == 40
    assert len(list(cache.tree.kept)) == 1, "and it is kept once"


def test_a_state_that_a_snapshot_holds_gives_way_to_none() -> None:
    cache = Cache(32, states=1)
    cache.run(text((1, 9)), keep=9)
    (state,) = cache.tree.kept
    cache.states.retain(state)
    cache.run(text((2, 9)), keep=9)
    assert list(cache.tree.kept) == [state] and not cache.tree.can_yield_state
    assert cache.run(text((1, 12))) == 9


def test_recurrent_models_go_on_where_a_state_was_kept() -> None:
    cache = Cache(32, states=2)
    ids = text((1, 200))
    cache.run(ids, keep=128)
    match = cache.tree.match(ids, 199)
    assert (match.length, match.seen) == (128, 199)
    assert cache.run(ids, keep=200) == 128
    assert cache.run(text((1, 200), (2, 9)), keep=64) == 200  # the oldest state gives way
    assert cache.run(ids) in (64, 128)
    assert cache.tree.keep(text((9, 70)), 70) is None, "the text is not known"


def test_a_state_that_is_referred_to_is_not_given_away() -> None:
    cache = Cache(8, states=1)
    cache.run(text((1, 100)), keep=64)
    (state,) = cache.tree.kept
    cache.states.retain(state)
    assert cache.tree.yield_state() is None
    cache.states.release(state)
    assert cache.tree.yield_state() == state
    assert cache.run(text((1, 100))) == 0


PARTS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([1, 5, 63, 64, 65, 100])), min_size=1, max_size=3)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 14), st.integers(0, 3), st.lists(st.tuples(PARTS, st.integers(0, 300)), max_size=25))
def test_whatever_is_found_is_what_was_asked_for(
    pages: int, states: int, texts: list[tuple[list[tuple[int, int]], int]]
) -> None:
    cache = Cache(pages, states)
    seen: list[Ids] = []
    for parts, keep in texts:
        ids = text(*parts)
        found = cache.run(ids, min(keep, len(ids)) if states else 0)
        common = max((_common(ids, other) for other in seen), default=0)
        assert found is None or found <= min(common, len(ids) - 1)
        if pages == 14 and not states and sum(pages_for(len(one)) for one in [*seen, ids]) <= 14 and found is not None:
            assert found == min(common, len(ids) - 1), "nothing was evicted, so all that is common is found"
        if found is not None:
            seen.append(ids)
        assert cache.pool.used == 0
        assert known(cache.tree.root) == len(cache.pool.idle)
        assert len(list(cache.tree.kept)) == states - cache.states.free


def _common(one: Ids, other: Ids) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
