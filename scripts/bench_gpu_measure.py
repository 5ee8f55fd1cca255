"""What scripts/bench_gpu.py measures of the CUDA core: copies, products alone, whole steps of a model."""

from __future__ import annotations

import statistics
import time
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from bench_gpu_models import MODELS, Blocks, expert_bytes, synthetic
from paceline.daemon.plan import Row
from paceline.native.core import PAGE
from paceline.native.device_memory import EmulatedMemory
from paceline.native.open_device import open_gpu
from paceline.protocol import Sampling

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


def more_experts(shape: Any, rows: int) -> int:
    """How many experts of a layer `rows` rows reach besides the first row's, if each chooses at random."""
    if not shape.experts:
        return 0
    reached = shape.experts * (1 - (1 - shape.experts_used / shape.experts) ** rows)
    return round(reached) - shape.experts_used


def opened(
    device: Device, model: str, kind: str, rows: tuple[int, ...], contexts: tuple[int, ...]
) -> tuple[Any, Any, int]:
    """A model for so many rows and contexts, its memory, and how many pages of cache there was room for."""
    stepper, memory = synthetic(MODELS[model], kind, max(contexts) + PAGE, max(rows), device.open)
    stepper.make_room(max(rows), max(rows))
    pages = min(max(rows) * (max(contexts) // PAGE + 2), memory.free // stepper.page_bytes)
    if pages < 1:
        raise MemoryError("no room for a page of cache")
    stepper.take_pages(pages)
    return stepper, memory, pages


def batch_of(stepper: Any, number: int, used: int, pages: int) -> list[Row]:
    """Rows of one token, drawn with a seed of its own, each behind a context of its own; ValueError without room."""
    per_row = used // PAGE + 1
    if number * per_row > pages:
        raise ValueError(f"no room for {number * per_row} pages")
    if stepper.state_bytes:
        stepper.write_state(0, used.to_bytes(8, "little") + bytes(stepper.state_bytes))
    batch = []
    for slot in range(number):
        seat(stepper, slot, used)
        table = array("i", range(slot * per_row, (slot + 1) * per_row))
        batch.append(Row(0, slot, 0, [1 + slot], used, 1, Sampling(temp=1.0, seed=slot), used, table, False))
    return batch


def seat(stepper: Any, slot: int, used: int) -> None:
    stepper.seat(slot, [1] * used, 0 if stepper.state_bytes else None)


class Decode:
    """Rows that decode as the daemon has them do: each is fed its prediction. Called for each step, up to the end of a
    page. begins: the device may begin the next step, and so need not wait for the host."""

    def __init__(self, stepper: Any, batch: list[Row], begins: bool) -> None:
        self._stepper, self._first, self._rows, self._begins = stepper, batch, batch, begins

    @property
    def left(self) -> int:
        """Steps that can still be made."""
        return PAGE - self._rows[0].position % PAGE

    def restart(self) -> None:
        self._rows = self._first
        for row in self._rows:
            seat(self._stepper, row.slot, row.position)

    def __call__(self) -> None:
        rows = self._rows
        position = rows[0].position + 1
        results, _ = self._stepper.step([row._replace(continues=self._begins) for row in rows])
        for row in rows:
            self._stepper.commit(row.slot, position)
        self._rows = [
            row._replace(tokens=[max(0, tokens[0])], position=position)
            for row, (tokens, *_) in zip(rows, results, strict=True)
        ]


def timed_decode(decode: Decode, seconds: float) -> float:
    """Seconds of one step, from series within a page, five of which take `seconds` if pages are long enough; the median
    of 5 or more."""
    decode.restart()
    for _ in range(4):  # launched, captured, replayed; one that was begun in time
        begun = time.perf_counter()
        decode()
    count = max(1, int(seconds / 5 / (time.perf_counter() - begun)))
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < 5 or time.perf_counter() < end:
        decode.restart()
        decode()
        steps = min(count, decode.left)
        begun = time.perf_counter()
        for _ in range(steps):
            decode()
        found.append((time.perf_counter() - begun) / steps)
    return statistics.median(found)


def steps(
    device: Device, model: str, kind: str, rows: tuple[int, ...], contexts: tuple[int, ...], roof: float, clock: Clock
) -> Iterator[dict[str, Any]]:
    """Whole steps of a model; contexts ascending. Each row has its own token, so that rows choose experts
    independently."""
    shape, begun = MODELS[model], time.perf_counter()
    stepper, memory, pages = opened(device, model, kind, rows, contexts)
    about = {"kind": "step", "model": model, "format": kind, "making_s": time.perf_counter() - begun}
    each_expert = expert_bytes(shape, kind)
    weights = stepper.step([Row(0, 0, 0, [1], 0, 1, None, 1, array("i", [0]), False)])[1]
    for used in contexts:
        for number in rows:
            if clock.left() <= 0:
                yield about | {"rows": number, "context": used, "skipped": clock.over}
                continue
            try:
                batch = batch_of(stepper, number, used, pages)
            except ValueError as reason:
                yield about | {"rows": number, "context": used, "skipped": str(reason)}
                continue
            seconds, waiting = (
                timed_decode(Decode(stepper, batch, begins), device.seconds / (1 if begins else 3))
                for begins in (True, False)
            )
            alone = timed(stepper.run_again, lambda: memory.fetch([]), device.seconds)
            moved = weights + more_experts(shape, number) * each_expert
            moved += number * (used * stepper.page_bytes // PAGE + 2 * stepper.state_bytes)
            found = {"rows": number, "context": used, "ms": 1e3 * seconds, "device_ms": 1e3 * alone}
            found |= {
                "waiting_ms": 1e3 * waiting,
                "host_ms": 1e3 * (seconds - alone),
                "tokens_per_s": number / seconds,
                "bytes": moved,
            }
            yield about | found | {"bytes_per_s": moved / seconds, "share": moved / seconds / roof}
