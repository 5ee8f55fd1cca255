"""The page pool: counts are right, misuse is an error, nothing is ever given twice."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paceline.daemon.limits import pages_for
from paceline.daemon.pages import OutOfPages, PagePool


def no_eviction(page: int) -> None:
    raise AssertionError(f"page {page} is idle, but nobody made it known")


def test_pages_for() -> None:
    assert [pages_for(positions) for positions in (0, 1, 63, 64, 65, 128, 129)] == [0, 1, 1, 1, 2, 2, 3]


def test_all_or_nothing() -> None:
    pool = PagePool(4)
    first = pool.allocate(3, no_eviction)
    assert isinstance(first, array)
    assert (pool.used, pool.free, len(pool)) == (3, 1, 4)
    with pytest.raises(OutOfPages) as caught:
        pool.allocate(3, no_eviction)
    assert caught.value.missing == 2
    assert pool.free == 1
    assert set(first) | set(pool.allocate(1, no_eviction)) == {0, 1, 2, 3}


def test_a_page_is_free_when_its_last_reference_goes() -> None:
    pool = PagePool(2)
    table = pool.allocate(2, no_eviction)
    pool.retain(table[:1])
    pool.release(table)
    assert (pool.used, pool.counts[table[0]]) == (1, 1)
    pool.release(table[:1])
    assert pool.used == 0


@pytest.mark.parametrize("misuse", [PagePool.release, PagePool.retain])
@pytest.mark.parametrize(
    ("page", "sentence"), [(1, "page 1 is free"), (2, "the pool has pages 0 to 1"), (-1, "page -1")]
)
def test_misuse_is_an_error(misuse: object, page: int, sentence: str) -> None:
    pool = PagePool(2)
    assert list(pool.allocate(1, no_eviction)) == [0]
    with pytest.raises(ValueError, match=sentence):
        misuse(pool, [page])  # type: ignore[operator]


@given(st.lists(st.tuples(st.sampled_from(["allocate", "retain", "release"]), st.integers(0, 9))))
def test_counts_agree_with_the_tables(actions: list[tuple[str, int]]) -> None:
    pool = PagePool(12)
    tables: list[list[int]] = []
    for action, number in actions:
        if action == "allocate":
            try:
                tables.append(list(pool.allocate(number, no_eviction)))
            except OutOfPages as error:
                assert error.missing == number - pool.free > 0
        elif tables and action == "retain":
            tables.append(list(tables[number % len(tables)]))
            pool.retain(tables[-1])
        elif tables:
            pool.release(tables.pop(number % len(tables)))
        held = [page for table in tables for page in table]
        assert [pool.counts[page] for page in range(12)] == [held.count(page) for page in range(12)]
        assert pool.used == len(set(held))


def test_an_idle_page_is_used_again_or_evicted_or_forgotten() -> None:
    pool = PagePool(3)
    table = pool.allocate(3, no_eviction)
    for page in table[:2]:
        pool.know(page)
    pool.release(table)
    assert (list(pool.idle), pool.free, pool.available, pool.used) == ([table[1], table[0]], 1, 3, 0)
    with pytest.raises(ValueError, match=f"page {table[0]} is idle"):
        pool.release(table[:1])
    pool.retain(table[:1])
    evicted: list[int] = []

    def evict(page: int) -> None:
        evicted.append(page)
        pool.forget(page)

    own = pool.allocate(2, evict)
    assert evicted == [table[1]]
    pool.forget(table[0])
    pool.release([*own, table[0]])
    assert (pool.free, pool.available) == (3, 3)
