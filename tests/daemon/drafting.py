"""Drivers that draft, with guessers that know what they say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from driver import Driver, limits, tokens_of
from paceline.daemon.guesses import PROPOSED, Guesser
from paceline.daemon.limits import Limits
from paceline.daemon.null_engine import NullEngine, mix
from paceline.daemon.plan import EngineInfo, Plan
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


class Truthful(NullEngine):
    """Drafts what it will predict where no grammar is, as much as it is asked for."""

    def _draft(self, state: int, position: int, seed: int | None, count: int) -> Iterator[int]:
        for at in range(position, position + count):
            yield (token := self._choose(state, at, seed, None))
            state = mix(state, token)


class Untrue(Truthful):
    def _draft(self, state: int, position: int, seed: int | None, count: int) -> Iterator[int]:
        return (token + 1 for token in super()._draft(state, position, seed, count))


def drafting(
    guesser: type[Guesser] = Sure, cost: float = 0.16, engine: type[NullEngine] | None = None, **named: Any
) -> Driver:
    """`engine` is of a kind that drafts."""
    bounds = limits(**({"draft": 8} | named))
    kind = engine or NullEngine
    made = kind(bounds.slots, bounds.context, drafts=engine is not None)
    made.info = replace(made.info, column_cost=cost)
    driver = Driver(bounds, made)
    driver.session.lifecycle.drafts.new_guesser = guesser
    return driver


def aheads(driver: Driver) -> list[int]:
    """What the last step was to draft behind each row."""
    return [row.ahead for row in driver.plans[-1].batches[0]]


def asks_what_it_may(plan: Plan, info: EngineInfo, bounds: Limits) -> None:
    """Of an engine that refused a row, nobody would be told: the row is tried again without a draft."""
    for row in chain.from_iterable(plan.batches):
        assert 0 <= row.ahead <= min(bounds.draft, len(PROPOSED))
        assert not row.ahead or (row.outputs and info.draft_cost)


def lengths(driver: Driver) -> list[int]:
    """Of the rows of the last step."""
    return [len(row.tokens) for row in driver.plans[-1].batches[0]]


def stepwise(start: str) -> Driver:
    """What came of one request alone, a token a step."""
    driver = Driver()
    driver.send(start)
    driver.end()
    return driver
