"""What scripts/bench_gpu.py measures of the CUDA core without a model: copies, products alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from bench_gpu_models import Blocks
from paceline.native.device_memory import EmulatedMemory
from paceline.native.open_device import open_gpu

COLUMNS = 4096  # of an isolated product
SHARE = 0.94  # of the free memory


class Clock:
    """How much of the time given to a run is left."""

    def __init__(self, seconds: float) -> None:
        self._begun, self._seconds = time.monotonic(), seconds
        self.over = f"the {seconds:g} seconds are over"

    def spent(self) -> float:
        return time.monotonic() - self._begun

    def left(self) -> float:
        return self._seconds - self.spent()


class Device:
    """Where everything runs, and how large things are there."""

    def __init__(self, kind: str, tiny: bool) -> None:
        self.kind = kind
        self.matrix_bytes, self.sweep_bytes, self.copy_bytes = (
            (1 << 14, 1 << 16, 1 << 20) if tiny else (32 << 20, 512 << 20, 2 << 30)
        )
        self.columns = 512 if tiny else COLUMNS
        self.seconds = 0.02 if tiny else 0.3

    def open(self) -> tuple[Any, Any]:
        if self.kind == "emulator":
            from paceline.native import _emulator

            return _emulator, EmulatedMemory()
        return open_gpu(self.kind, lambda free: int(SHARE * free))


def timed(run: Callable[[], None], wait: Callable[[], Any], seconds: float) -> float:
    """Seconds of one run(), from a series that takes `seconds` and is waited for at its end; the median of 5 series."""
    for _ in range(3):  # launched, captured, replayed
        run()
    wait()
    begun = time.perf_counter()
    run()
    wait()
    count = max(1, int(seconds / 5 / max(1e-6, time.perf_counter() - begun)))
    found = []
    for _ in range(5):
        begun = time.perf_counter()
        for _ in range(count):
            run()
        wait()
        found.append((time.perf_counter() - begun) / count)
    return statistics.median(found)


def copy_bandwidth(device: Device, clock: Clock) -> Iterator[dict[str, Any]]:
    """The bandwidth of the device: bytes read and written per second."""
    _, memory = device.open()
    size = device.copy_bytes
    source, target = memory.allocate(size), memory.allocate(size)
    seconds = timed(lambda: memory.copy(source, target, size), lambda: memory.fetch([]), device.seconds)
    yield {"device": memory.name, "copy_bytes_per_s": 2 * size / seconds}


def products(device: Device, kind: str, rows: tuple[int, ...], roof: float, clock: Clock) -> Iterator[dict[str, Any]]:
    native, memory = device.open()
    columns = device.columns
    blocks = Blocks(kind, columns)
    outputs = -(-device.matrix_bytes // blocks.of(128, columns).size) * 128
    data = blocks.of(outputs, columns)
    count = max(2, device.sweep_bytes // data.size)
    probe = native.ProductProbe(kind, outputs, columns, data, memory, most_columns=max(rows), copies=count)
    inputs = np.random.RandomState(1).standard_normal((max(rows), columns)).astype(np.float32)
    x, out = memory.allocate(inputs.nbytes), memory.allocate(4 * max(rows) * probe.out_stride)
    memory.upload(x, inputs)
    for number in rows:
        about = {"kind": "product", "format": kind, "rows": number, "outputs": outputs, "inputs": columns}
        if clock.left() <= 0:
            yield about | {"skipped": clock.over}
            continue
        probe.quantize(x, number, memory.stream)

        def multiply(stream: int, number: int = number) -> None:
            for copy in range(count):
                probe.multiply(number, out, stream, copy=copy)

        seconds = timed(lambda m=multiply, n=number: memory.run(n, m), lambda: memory.fetch([]), device.seconds) / count
        per_second = probe.bytes / seconds
        found = {"ms": 1e3 * seconds, "bytes": probe.bytes}
        yield about | found | {"bytes_per_s": per_second, "share": per_second / roof}
