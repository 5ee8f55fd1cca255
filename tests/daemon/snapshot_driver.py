"""A driver for tests of snapshots, and a prompt of three pages."""

from __future__ import annotations

from driver import Driver, limits
from paceline.daemon.null_engine import NullEngine

LONG = ",".join(map(str, range(1, 151)))


def driver(recurrent: bool = False, **named: object) -> Driver:
    bounds = limits(**{"states": 4, "reuse": False, **named})  # type: ignore[arg-type]
    return Driver(bounds, NullEngine(bounds.slots, bounds.context, recurrent))


def ids(text: str, tokens: list[int]) -> str:
    return ",".join([text, *map(str, tokens)])
