"""How values are distributed, in bounded memory: least, median, mean, 95th percentile, greatest.

Buckets grow geometrically: each is 2 % wider than the one below it, so that a percentile is known to 2 % of itself
whatever its size. Values are seconds; what lies outside of 1 ns to 11 days is counted in the outermost bucket.
"""

from __future__ import annotations

from itertools import accumulate
from math import ceil, exp, inf, log

WIDTH = 1.02
"""The upper edge of a bucket over its lower one."""

_LEAST = 1e-9
_MOST = 1e6
_SCALE = 1 / log(WIDTH)
_SHIFT = -_SCALE * log(_LEAST)
_BUCKETS = int(_SCALE * log(_MOST) + _SHIFT) + 2


class Spread:
    """`buckets[n]` counts the values from `_LEAST * WIDTH ** n` up to the next edge. `add` is called for every token,
    so it is kept to 0.2 µs."""

    __slots__ = ("buckets", "high", "low", "total")

    def __init__(self) -> None:
        self.total = 0.0
        self.low = inf
        self.high = -inf
        self.buckets = [0] * _BUCKETS

    @property
    def count(self) -> int:
        return sum(self.buckets)

    def add(self, value: float) -> None:
        if value < 0.0:  # the clock went back
            value = 0.0
        if value < self.low:
            self.low = value
        if value > self.high:
            self.high = value
        self.total += value
        if _LEAST < value < _MOST:
            self.buckets[int(_SCALE * log(value) + _SHIFT)] += 1
        else:
            self.buckets[0 if value < _MOST else -1] += 1

    def percentile(self, share: float) -> float:
        """The least value seen that `share` of all values do not exceed, to within a bucket. There must be values."""
        rank = max(1, ceil(share * self.count))
        bucket = next(bucket for bucket, seen in enumerate(accumulate(self.buckets)) if seen >= rank)
        middle = exp((bucket + 0.5 - _SHIFT) / _SCALE)
        return min(max(middle, self.low), self.high)

    def milliseconds(self) -> dict[str, float | None]:
        count = self.count
        if not count:
            return dict.fromkeys(("min", "median", "mean", "p95", "max"))
        values = {
            "min": self.low,
            "median": self.percentile(0.5),
            "mean": self.total / count,
            "p95": self.percentile(0.95),
            "max": self.high,
        }
        return {name: round(1e3 * value, 3) for name, value in values.items()}
