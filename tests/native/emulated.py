"""What the tests of the CUDA core share: the device that they run on, the emulated one where it was built.

PACELINE_TEST_DEVICE=cuda (or cuda:<n>) runs the same tests on a GPU: scripts/gpu_check. scripts/ptx_check runs them on
the emulated device with the kernels that nvcc made, and with PACELINE_WATCH=1 looks for races.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pytest
from paceline.native import _cpu
from paceline.native.device_memory import EmulatedMemory
from paceline.native.open_device import open_gpu

KIND = os.environ.get("PACELINE_TEST_DEVICE", "emulator")
PROBE_BYTES = 1 << 30
WHY = "the emulated device is built with -C cmake.define.PACELINE_EMULATE=ON"
assert _cpu  # it registers types that the emulator's module uses
_emulator = pytest.importorskip("paceline.native._emulator", reason=WHY)

COUNTS_LOADS = KIND == "emulator"
if os.environ.get("PACELINE_WATCH") == "1":
    assert KIND == "emulator" and _emulator.translated, "only the kernels of scripts/ptx_check tell their accesses"
    _emulator.watch(True)

ORDERS = ("forward", "reversed", "shuffled")
Floats = npt.NDArray[np.float32]
Result = TypeVar("Result")


def counting_loads(work: Callable[[], Result]) -> tuple[Result, int]:
    """What it returns, and the bytes of weights that products on the emulated device loaded for it.

    The device's own kernels count them where they load; of nvcc's every request is known (native/emulate/traffic.h).
    """
    if not _emulator.translated:
        _emulator.counted_weights()
        return work(), int(_emulator.counted_weights())
    _emulator.measure(True)
    result = work()
    requests = _emulator.measured()
    _emulator.measure(False)
    loads = (r for r in requests if "product" in r[0] and r[4] in ("read-only load", "copy") and not r[3])
    return result, sum(bytes for _, _, _, _, _, _, bytes, _, _ in loads)


@cache
def gpu() -> tuple[Any, Any]:
    return open_gpu(KIND, lambda free: PROBE_BYTES)


def new_device() -> tuple[Any, Any]:
    """The native module and memory for it."""
    return (_emulator, EmulatedMemory()) if KIND == "emulator" else gpu()


@contextmanager
def lanes(order: str, seed: int = 1) -> Iterator[None]:
    """The order that the emulated device runs them in; a GPU has its own."""
    _emulator.set_order(order, seed)
    try:
        yield
    finally:
        _emulator.set_order("forward")


@contextmanager
def planned_for(multiprocessors: int) -> Iterator[None]:
    """Steps of the emulated device as for one of so many; a GPU has its own."""
    _emulator.set_multiprocessors(multiprocessors)
    try:
        yield
    finally:
        _emulator.set_multiprocessors(1)


def same_bits(found: Floats, expected: Floats) -> bool:
    return found.shape == expected.shape and np.array_equal(found.view(np.uint32), expected.view(np.uint32))


class Product:
    """One matrix on the device."""

    def __init__(
        self, name: str, rows: int, columns: int, data: npt.NDArray[np.uint8], most: int = 80, copies: int = 1
    ):
        native, self.memory = new_device()
        self.rows = rows
        self.probe = native.ProductProbe(name, rows, columns, data, self.memory, most_columns=most, copies=copies)

    def __call__(self, inputs: Floats, multiprocessors: int = 0, copy: int = 0) -> Floats:
        """inputs [n, columns] -> [n, rows]. multiprocessors: to plan for, 0 for the device's own."""
        count, stride = len(inputs), self.probe.out_stride
        x, out = self.memory.allocate(inputs.nbytes), self.memory.allocate(4 * count * stride)
        self.memory.upload(x, inputs)
        self.probe.quantize(x, count, self.memory.stream)
        self.probe.multiply(count, out, self.memory.stream, multiprocessors=multiprocessors, copy=copy)
        found = self.memory.download(out, 4 * count * stride).view(np.float32).reshape(count, stride)
        self.memory.release(x)
        self.memory.release(out)
        return np.ascontiguousarray(found[:, : self.rows])

    def read(self, ids: list[int]) -> Floats:
        """Rows `ids` of the matrix, as an embedding reads them: [n, columns rounded up to whole blocks]."""
        counts, columns = [len(ids)] + 7 * [0], [[token, 0, 0, 0] for token in ids]
        data = np.array([*counts, *np.ravel(columns)], np.int32)
        stride = self.probe.in_stride
        given, out = self.memory.allocate(data.nbytes), self.memory.allocate(4 * len(ids) * stride)
        self.memory.upload(given, data)
        self.probe.read_rows(given, len(ids), out, self.memory.stream)
        found = self.memory.download(out, 4 * len(ids) * stride).view(np.float32).reshape(len(ids), stride)
        self.memory.release(given)
        self.memory.release(out)
        return found
