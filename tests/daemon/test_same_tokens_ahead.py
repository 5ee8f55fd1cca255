"""The first promise where a device begins steps before they are asked for: any schedule, the bits of a run alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from paceline.daemon.engine import NativeEngine
from paceline.native.core import open_core
from schedules import MOST_DRAFT, SLOTS, STATES, Bench, run_schedule

pytest.importorskip("paceline.native._emulator", reason="the emulated device is not built")


class Ahead(Bench):
    """Schedules run on the emulated device, runs alone on the CPU, where no step is begun before it is asked for."""

    def __init__(self, path: Path) -> None:
        self.taken: Counter[bool] = Counter()  # steps that were asked for: whether they had been begun
        self._device: NativeEngine | None = None
        super().__init__(path, 256, (1, 3, 16, 65, 70), (1, 4, 17, 40), plain=False)
        self.kinds = [("emulator", 0)]

    def core(self, isa: str, threads: int) -> NativeEngine:
        if isa != "emulator":
            return super().core(isa, threads)
        if self._device is None:
            core = open_core(
                self.path, slots=SLOTS, context=self.context, states=STATES, replay=MOST_DRAFT + 1, kind="emulator"
            )
            device: Any = core.stepper
            prepare = device._core.prepare
            device._core = Counting(device._core, lambda rows: self._count(prepare(rows)))
            self._device = NativeEngine(core, self.path)
            assert self._device.info.wait_cost == 1.0
        return self._device

    def _count(self, prepared: Any) -> Any:
        self.taken[prepared.begun] += 1
        return prepared


class Counting:
    def __init__(self, core: Any, prepare: Any) -> None:
        self._core = core
        self.prepare = prepare

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)


@pytest.mark.parametrize("architecture", ["llama", "gemma3", "qwen3moe", "qwen35", "lfm2", "granitehybrid"])
def test_any_schedule_gives_the_bits_of_a_run_alone(tiny_model: Any, architecture: str) -> None:
    shape = {"type": "Q4_0", "width": 96, "heads": 6, "kv_heads": 2, "head_size": 32, "ffn": 160, "vocab": 300}
    bench = Ahead(tiny_model(architecture=architecture, **shape))
    for seed in range(500, 506):
        run_schedule(bench, seed)
    assert min(bench.taken[True], bench.taken[False]) > 20
