"""What scripts/bench_gpu.py measures of a model: steps of rows that decode, and of prompts."""

from __future__ import annotations

import statistics
import time
from array import array
from collections.abc import Iterator
from typing import Any

from bench_gpu_measure import Clock, Device, timed
from bench_gpu_models import MODELS, expert_bytes, synthetic
from paceline.daemon.plan import Row
from paceline.native.core import PAGE
from paceline.protocol import Sampling


def more_experts(shape: Any, rows: int) -> int:
    """How many experts of a layer `rows` rows reach besides the first row's, if each chooses at random."""
    if not shape.experts:
        return 0
    reached = shape.experts * (1 - (1 - shape.experts_used / shape.experts) ** rows)
    return round(reached) - shape.experts_used


def opened(
    device: Device, model: str, kind: str, rows: tuple[int, ...], contexts: tuple[int, ...], columns: int = 0
) -> tuple[Any, Any, int]:
    """A model for so many rows and contexts, and steps of so many columns, its memory, and how many pages of cache
    there was room for."""
    stepper, memory = synthetic(MODELS[model], kind, max(*contexts, columns) + PAGE, max(rows), device.open)
    stepper.make_room(max(*rows, columns), max(rows))
    pages = min(max(max(rows) * (max(contexts) // PAGE + 2), -(-columns // PAGE)), memory.free // stepper.page_bytes)
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
    stepper.seat(slot, [1] * used, 0 if stepper.state_bytes and used else None)


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


def timed_prefill(stepper: Any, tokens: int, pages: int, seconds: float) -> float:
    """Seconds of a step with the first `tokens` tokens of one request; the median of 5 series that take `seconds`.
    ValueError without room."""
    if tokens > pages * PAGE:
        raise ValueError(f"no room for {-(-tokens // PAGE)} pages")
    seat(stepper, 0, 0)
    row = Row(0, 0, 0, [1 + at % 250 for at in range(tokens)], 0, 1, None, tokens, array("i", range(pages)), False)
    return timed(lambda: stepper.step([row]), lambda: None, seconds)


def steps(
    device: Device,
    model: str,
    kind: str,
    rows: tuple[int, ...],
    contexts: tuple[int, ...],
    prompts: tuple[int, ...],
    roof: float,
    clock: Clock,
) -> Iterator[dict[str, Any]]:
    """Whole steps of a model: rows that decode, contexts ascending; then prompts of so many tokens. Each row has its
    own token, so that rows choose experts independently."""
    shape, begun = MODELS[model], time.perf_counter()
    stepper, memory, pages = opened(device, model, kind, rows, contexts, max(prompts, default=0))
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
    for tokens in prompts:
        prompt = about | {"rows": 1, "context": 0, "tokens": tokens}
        if clock.left() <= 0:
            yield prompt | {"skipped": clock.over}
            continue
        try:
            seconds = timed_prefill(stepper, tokens, pages, device.seconds)
        except ValueError as reason:
            yield prompt | {"skipped": str(reason)}
            continue
        yield prompt | {"ms": 1e3 * seconds, "tokens_per_s": tokens / seconds}
