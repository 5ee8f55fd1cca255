"""Percentiles in bounded memory, against the exact ones."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from paceline.daemon.spread import WIDTH, Spread


def spread_of(values: list[float]) -> Spread:
    spread = Spread()
    for value in values:
        spread.add(value)
    return spread


@given(
    st.lists(st.floats(1e-9, 1e6), min_size=1, max_size=200),
    st.one_of(st.sampled_from([0.0, 0.5, 0.95, 1.0]), st.floats(0, 1)),
)
@example([1e-9], 0.5)
@example([1e6, 1.0], 1.0)
def test_percentiles_are_within_a_bucket_of_the_exact_ones(values: list[float], share: float) -> None:
    exact = sorted(values)[max(1, ceil(share * len(values))) - 1]
    found = spread_of(values).percentile(share)
    assert exact / WIDTH * (1 - 1e-9) <= found <= exact * WIDTH * (1 + 1e-9)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=200))
def test_the_rest_is_exact_and_all_is_in_order(values: list[float]) -> None:
    spread = spread_of(values)
    assert (spread.count, spread.low, spread.high) == (len(values), min(values), max(values))
    assert spread.total == pytest.approx(sum(values))
    assert spread.low <= spread.percentile(0.5) <= spread.percentile(0.95) <= spread.high


@given(st.floats(1e-3, 1e3), st.integers(1, 50))
def test_one_value_over_and_over_is_every_percentile(value: float, count: int) -> None:
    spread = spread_of([value] * count)
    assert {spread.percentile(share) for share in (0.0, 0.5, 0.95, 1.0)} == {value}


def test_a_clock_that_stands_still_or_jumps() -> None:
    spread = spread_of([0.0, 0.0, -5.0, 1e12, 0.001])
    assert (spread.low, spread.high) == (0.0, 1e12)  # where the clock goes back, no time has passed
    assert spread.percentile(1.0) <= 1e12
    assert spread.percentile(0.5) < 1e-8


def test_memory_is_bounded() -> None:
    spread = Spread()
    size = len(spread.buckets)
    for step in range(60_000):
        spread.add(1e-12 * 1.001**step)
    assert len(spread.buckets) == size < 1800


def test_milliseconds() -> None:
    assert set(Spread().milliseconds().values()) == {None}
    found = spread_of([n / 1000 for n in range(1, 101)]).milliseconds()
    assert (found["min"], found["mean"], found["max"]) == (1.0, 50.5, 100.0)
    assert found["median"] == pytest.approx(50, rel=WIDTH - 1)
    assert found["p95"] == pytest.approx(95, rel=WIDTH - 1)
