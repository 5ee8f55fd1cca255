"""An engine around any other one, which fails as it is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from .engine import DeviceLost, Engine
from .faults import Faults
from .plan import EngineInfo, Row, RowFailure, RowResult


class InjectedFault(Exception):
    pass


class Faulty:
    def __init__(self, engine: Engine, faults: Faults, sleep: Callable[[float], None] = time.sleep) -> None:
        self._engine = engine
        self._faults = faults
        self._sleep = sleep
        self._step = 0
        self.seat = engine.seat
        self.keep = engine.keep
        self.copy_page = engine.copy_page
        self.read_page = engine.read_page
        self.write_page = engine.write_page
        self.read_state = engine.read_state
        self.write_state = engine.write_state
        self.pieces = engine.pieces
        self.meanwhile = engine.meanwhile

    @property
    def info(self) -> EngineInfo:
        return self._engine.info

    def commit(self, slot: int, position: int) -> None:
        if self._faults.crash is not None and self._step + 1 >= self._faults.crash:
            raise InjectedFault(f"crash before step {self._step + 1}")
        self._engine.commit(slot, position)

    def step(self, rows: Sequence[Row]) -> tuple[Sequence[RowResult | RowFailure], int]:
        self._step += 1
        faults, step = self._faults, self._step
        if faults.slow:
            self._sleep(faults.slow)
        if faults.lost is not None and step >= faults.lost:
            raise DeviceLost(f"injected in step {step}")
        if faults.always or step == faults.once:
            raise InjectedFault(f"injected in step {step}")
        for row in rows:
            if any(slot == row.slot and step >= first for slot, first in faults.rows):
                raise InjectedFault(f"injected for slot {row.slot} in step {step}")
        return self._engine.step(rows)
