"""The CUDA core behind the interface of the cores (stepper.Stepper), on a device or in the emulator.

A step's host work: the native side checks the rows and writes them into one buffer, which goes over in one copy; one
sequence of launches, or the graph captured from it, runs; four bytes for each output come back, and the logits besides
where some row wants more than the largest one's id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .device_memory import DeviceMemory
from .rope import Table
from .stepper import Output


class DeviceStepper:
    """What `native` (paceline.native._cuda or ._emulator) computes in `memory`."""

    state_bytes = 0

    def __init__(
        self,
        native: Any,
        memory: DeviceMemory,
        shape: Any,
        rotations: tuple[Table, Table, Table, Table],
        *,
        slots: int,
        pages: int,
        cache_type_k: str = "f16",
        cache_type_v: str = "f16",
    ):
        self._memory = memory
        self._core = native.Core(
            shape,
            *rotations,
            memory,
            slots=slots,
            pages=pages,
            cache_type_k=cache_type_k,
            cache_type_v=cache_type_v,
        )
        self._generation = 0
        self.load = self._core.load
        self.commit = self._core.commit
        self.page_bytes: int = self._core.page_bytes

    def step(self, rows: Sequence[Any]) -> tuple[list[Output], int]:
        core, memory = self._core, self._memory
        prepared = core.prepare(rows)
        if core.generation != self._generation:  # what was captured points to memory that is no more
            memory.forget()
            self._generation = core.generation
        memory.begin(core.input_place, core.input)
        memory.run(prepared.sizes, lambda stream: core.enqueue(prepared.sizes, stream))
        outputs = prepared.outputs
        tokens = memory.download(core.tokens_place, 4 * outputs).view(np.int32)
        logits = None
        if prepared.needs_logits and outputs:
            logits = memory.download(core.logits_place, 4 * outputs * core.logits_stride).view(np.float32)
        results: tuple[list[Output], int] = core.finish(prepared, tokens, logits)
        return results

    def seat(self, slot: int, ids: Sequence[int], state: int | None) -> None:
        if state is not None:
            raise ValueError("the model has no recurrent layers, and so no states")
        self._core.seat(slot, ids)

    def keep(self, slot: int, state: int) -> None:
        raise ValueError("the model has no recurrent layers, and so no states")

    def copy_page(self, source: int, target: int) -> None:
        begin, end = self._core.page(source), self._core.page(target)
        if begin != end:
            self._memory.copy(begin, end, self.page_bytes)

    def read_page(self, page: int) -> bytes:
        return self._memory.download(self._core.page(page), self.page_bytes).tobytes()

    def write_page(self, page: int, data: bytes) -> None:
        place = self._core.page(page)
        if len(data) != self.page_bytes:
            raise ValueError(
                f"{len(data)} bytes are no page of this model and these cache types, expected {self.page_bytes}"
            )
        self._memory.upload(place, data)

    def read_state(self, state: int) -> bytes:
        raise ValueError("the model has no recurrent layers, and so no states")

    def write_state(self, state: int, data: bytes) -> None:
        raise ValueError("the model has no recurrent layers, and so no states")
