"""The CUDA core behind the interface of the cores (stepper.Stepper), on a device or in the emulator.

A step's host work: the native side checks the rows and writes them into one buffer, uploaded in one copy; one sequence
of launches, or the graph captured from it, runs; four bytes for each output come back, with the likeliest ids and their
logits for each row that wants log-probabilities, and all logits of the step if any row wants logits.

Rows that continue (daemon/plan.py) are begun again at once, behind the step and before its results: their next tokens
are read where the step leaves them. When they are asked for, some or all of them and nobody else, that step has long
been under way, and the device has not waited for the host. Anything else is computed as if nothing had been begun.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .device_memory import DeviceMemory
from .lost import DeviceLost
from .rope import Tables
from .stepper import Output

WAIT, RATE = 150e-6, 1.5e12
"""Seconds between two steps in which a GPU would wait for the host, and bytes per second of weights that a step of one
token reads: on an H100 0 to 260 us, and 1.3 to 2e12."""
POSITION_BYTES = 8  # of a state in a file, before the state itself


class DeviceStepper:
    """What `native` (paceline.native._cuda or ._emulator) computes in `memory`."""

    def __init__(
        self,
        native: Any,
        memory: DeviceMemory,
        shape: Any,
        tables: Tables,
        *,
        slots: int,
        pages: int,
        states: int = 0,
        replay: int = 0,
        cache_type_k: str = "f16",
        cache_type_v: str = "f16",
    ):
        self._memory = memory
        self._core = native.Core(
            shape,
            *tables,
            memory,
            slots=slots,
            pages=pages,
            states=states,
            replay=replay,
            cache_type_k=cache_type_k,
            cache_type_v=cache_type_v,
        )
        self._drafts = shape.drafting > 0
        self.without_drafts: str | None = None  # why a step drafted less than it was asked for, if one did
        self.without_next: str | None = None  # why a step that could have been begun was not, if one was not
        self._generation = 0
        self._sizes: tuple[int, ...] | None = None
        self.load = self._core.load
        self.state_bytes: int = self._core.state_bytes
        self.page_bytes: int = self._core.page_bytes
        self.make_room = self._core.make_room
        self.meanwhile: Callable[[], None] = lambda: None  # the host's own work while the device has a step to compute

    @property
    def token_bytes(self) -> int:
        """What a step of one token reads of the weights, but for what drafts."""
        found: int = self._core.token_bytes
        return found

    @property
    def draft_bytes(self) -> int:
        """What one drafted token takes; 0: no layer drafts."""
        found: int = self._core.draft_bytes
        return found

    @property
    def wait_cost(self) -> float:
        """About what a wait for the host between two steps takes, in steps of one token; 0: no step is begun ahead."""
        return 0.0 if self._drafts else min(1.0, WAIT * RATE / self.token_bytes)

    def one_piece(self, on: bool) -> None:
        """For benchmarks: only the first 16 MiB of a large matrix are packed and uploaded, and copied for the rest."""
        self._core.one_piece = on

    def take_pages(self, pages: int) -> None:
        """Allocates the pages, filled with zeros, where `pages` was 0."""
        self._core.take_pages(pages)
        self._memory.clear(self._core.page(0), pages * self.page_bytes)

    def step(self, rows: Sequence[Any]) -> tuple[list[Output], int]:
        core = self._core
        prepared = core.prepare(rows)
        if not prepared.begun:
            self._launch(prepared.sizes)
        outputs = prepared.outputs
        pieces = [(core.tokens_place, 4 * outputs), (core.told_place, prepared.told_bytes)]
        if prepared.needs_logits:
            pieces.append((core.logits_place, 4 * outputs * core.logits_stride))
        wait = self._memory.bring(pieces)
        self._begin_next(prepared)
        self.meanwhile()
        tokens, told, *rest = wait()
        if self._drafts:
            core.begin_drafts(prepared, tokens.view(np.int32))
            try:
                self._draft()
            except DeviceLost:
                raise
            except Exception as error:  # the step has been made, and goes without (more) drafts
                if self.without_drafts is None:
                    print(f"paceline: a step ended before all was drafted: {error}", file=sys.stderr)
                self.without_drafts = str(error)
        logits = rest[0].view(np.float32) if rest else None
        results: tuple[list[Output], int] = core.finish(prepared, tokens.view(np.int32), told, logits)
        return results

    def _launch(self, sizes: tuple[int, ...]) -> None:
        """Runs what the core has prepared."""
        core, memory = self._core, self._memory
        if core.generation != self._generation:  # captured graphs point to freed memory
            memory.forget()
            self._generation = core.generation
        memory.begin(core.input_place, core.input)
        self._sizes = sizes
        self.run_again()

    def _begin_next(self, prepared: Any) -> None:
        try:
            sizes = self._core.prepare_next(prepared)
            if sizes is not None:
                self._launch(sizes)
        except DeviceLost:
            raise
        except Exception as error:  # the next step will be launched when it is asked for
            self._core.forget_next()
            if self.without_next is None:
                print(f"paceline: a step was not begun before it was asked for: {error}", file=sys.stderr)
            self.without_next = str(error)

    def _draft(self) -> None:
        """Runs the layer that drafts: what the step has made sure of, then what it predicts itself."""
        core, memory = self._core, self._memory
        while (draft := core.prepare_draft()) is not None:
            sizes, kind = draft
            if core.generation != self._generation:
                memory.forget()
                self._generation = core.generation
            memory.begin(core.input_place, core.input)
            memory.run(("draft", kind, sizes), partial(core.enqueue_draft, sizes, kind))
            _, outputs, *_ = sizes
            (drafted,) = memory.fetch([(core.tokens_place, 4 * outputs)])
            core.take_drafts(drafted.view(np.int32))

    def run_again(self) -> None:
        """Repeats the launches of the last step, on the input that the device still has."""
        sizes = self._sizes
        self._memory.run(sizes, lambda stream: self._core.enqueue(sizes, stream))

    def commit(self, slot: int, position: int) -> None:
        updates = self._core.commit(slot, position)
        if updates:  # of recurrent layers, replayed as a row was committed in part
            most = 1 << (updates - 1).bit_length()
            self._memory.begin(self._core.replay_place, self._core.replay_input)
            self._memory.run(("replay", most), lambda stream: self._core.replay(most, stream))

    def seat(self, slot: int, ids: Sequence[int], state: int | None) -> None:
        self._copy_state(*self._core.seat(slot, ids, state))

    def keep(self, slot: int, state: int) -> None:
        self._copy_state(*self._core.keep(slot, state))

    def _copy_state(self, source: int, target: int) -> None:
        if source and target:
            self._memory.copy(source, target, self.state_bytes)
        elif target:
            self._memory.clear(target, self.state_bytes)

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
        place = self._core.filled_state(state)
        position: int = self._core.kept_position(state)
        return position.to_bytes(POSITION_BYTES, "little") + self._memory.download(place, self.state_bytes).tobytes()

    def write_state(self, state: int, data: bytes) -> None:
        self._core.check_state(state)
        size = POSITION_BYTES + self.state_bytes
        if len(data) != size:
            raise ValueError(f"{len(data)} bytes are no state of this model and its position, expected {size}")
        place = self._core.fill_state(state, int.from_bytes(data[:POSITION_BYTES], "little", signed=True))
        self._memory.upload(place, data[POSITION_BYTES:])
