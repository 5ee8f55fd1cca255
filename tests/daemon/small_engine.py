"""The null engine with few tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from paceline.daemon.null_engine import NullEngine
from paceline.daemon.plan import Row, RowResult

CONTEXT = 200
TOKENS = 40


class FewTokens(NullEngine):
    @staticmethod
    def _choose(state: int, position: int, seed: int | None, allowed: Sequence[int] | None) -> int:
        return NullEngine._choose(state, position, seed, allowed) % TOKENS


class SmallEngine:
    """So that stop ids and an end-of-sequence (token 3) are met. Some steps fail."""

    def __init__(
        self,
        slots: int,
        failing: frozenset[int] = frozenset(),
        recurrent: bool = False,
        elsewhere: bool = False,
        drafts: bool = False,
    ) -> None:
        self._elsewhere = elsewhere
        self._work: Callable[[], None] = lambda: None
        self._inner = inner = FewTokens(slots, CONTEXT, recurrent, drafts)
        self._failing = failing
        self._steps = 0
        self.info = replace(inner.info, vocab=500, eos=(3,))
        self.commit, self.seat, self.keep, self.copy_page = inner.commit, inner.seat, inner.keep, inner.copy_page
        self.read_page, self.write_page = inner.read_page, inner.write_page
        self.read_state, self.write_state = inner.read_state, inner.write_state

    def step(self, rows: Sequence[Row]) -> tuple[list[RowResult], int]:
        self._steps += 1
        self._work()
        if self._steps in self._failing:
            raise RuntimeError("this step fails")
        return self._inner.step(rows)[0], 7

    def meanwhile(self, work: Callable[[], None]) -> bool:
        if self._elsewhere:
            self._work = work
        return self._elsewhere
