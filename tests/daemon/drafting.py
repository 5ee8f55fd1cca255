"""Drivers that draft, with guessers that know what they say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from driver import Driver, limits, tokens_of
from paceline.daemon.guesses import Guesser
from paceline.daemon.null_engine import NullEngine
from prophet import Prophet

START = "START ids:1,2,3 20"


class Sure(Prophet):
    """Always right where nobody draws; `chance` for each further token."""

    chance = 1.0

    def __init__(self, ids: Sequence[int]) -> None:
        super().__init__(ids)
        self.known = [*ids]

    def add(self, token: int) -> None:
        super().add(token)
        self.known.append(token)

    def guess(self, count: int) -> list[int]:
        driver = Driver(slots=1)
        driver.send(f"REQ 1 START ids:{','.join(map(str, self.known))} {count}")
        driver.end()
        return tokens_of(driver.items, 1)

    def chances(self) -> Iterator[float]:
        return iter([self.chance**n for n in range(1, 100)])


class Wrong(Sure):
    def guess(self, count: int) -> list[int]:
        return [token + 1 for token in super().guess(count)]


class Likely(Sure):
    chance = 0.5


def drafting(guesser: type[Guesser] = Sure, cost: float = 0.16, **named: Any) -> Driver:
    bounds = limits(**({"draft": 8} | named))
    engine = NullEngine(bounds.slots, bounds.context)
    engine.info = replace(engine.info, column_cost=cost)
    driver = Driver(bounds, engine)
    driver.session.lifecycle.drafts.new_guesser = guesser
    return driver


def lengths(driver: Driver) -> list[int]:
    """Of the rows of the last step."""
    return [len(row.tokens) for row in driver.plans[-1].batches[0]]


def stepwise(start: str) -> Driver:
    """What came of one request alone, a token a step."""
    driver = Driver()
    driver.send(start)
    driver.end()
    return driver
