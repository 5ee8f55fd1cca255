"""What scripts/bench_gpu.py tells of the kernels of a step: which take its time, by PyTorch's profiler, which records
those of its whole process.

A kernel is started while the one before it runs, and waits, so its own duration says little. It is given the time by
which it ended later than all before it: these add up to the step's.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bench_gpu_measure import Clock, Device
from bench_gpu_steps import batch_of, opened

STEPS = 5  # that are recorded together

Kernel = tuple[str, int, int]
"""A kernel's name, when it began and when it ended, in nanoseconds."""

Recorder = Callable[[Callable[[], None]], Iterable[Kernel]]


def recorded(run: Callable[[], None]) -> Iterable[Kernel]:
    """The kernels of run(), which waits for them. ImportError without PyTorch for this GPU."""
    from torch import cuda
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    if not cuda.is_available():
        raise ImportError("PyTorch sees no GPU")
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        run()
    return [
        (event.name(), event.start_ns(), event.start_ns() + event.duration_ns())
        for event in profiler.profiler.kineto_results.events()
        if event.device_type() == DeviceType.CUDA and not event.name().startswith("Mem")
    ]


def short(name: str) -> str:
    """void paceline::cuda::(anonymous namespace)::attend<4, true>(Attention, ...) -> attend<4, true>"""
    name = re.sub(r"\((?:anonymous namespace|\w+::\w+)\)(?:::)?", "", name.removeprefix("void "))
    return re.sub(r"\w+::", "", name.split("(")[0])


def times_of(kernels: Iterable[Kernel], steps: int) -> list[dict[str, Any]]:
    """Of each kind of kernel how many a step has, and how many microseconds of a step's are all theirs; the most
    first."""
    spent: dict[str, list[float]] = defaultdict(list)
    ordered = sorted(kernels, key=lambda kernel: kernel[2])
    last = ordered[0][1] if ordered else 0
    for name, _, ended in ordered:
        spent[short(name)].append((ended - last) / 1e3)
        last = ended
    kinds = [{"kernel": name, "count": len(all_) / steps, "us": sum(all_) / steps} for name, all_ in spent.items()]
    return sorted(kinds, key=lambda kind: -float(kind["us"]))


def kernels(
    device: Device,
    model: str,
    kind: str,
    rows: tuple[int, ...],
    context: int,
    clock: Clock,
    record: Recorder = recorded,
) -> Iterator[dict[str, Any]]:
    """Where the time of steps goes."""
    stepper, memory, pages = opened(device, model, kind, rows, (context,))
    for number in rows:
        about = {"kind": "kernels", "model": model, "format": kind, "rows": number, "context": context}
        if clock.left() <= 0:
            yield about | {"skipped": clock.over}
            continue
        batch = batch_of(stepper, number, context, pages)
        for _ in range(3):  # launched, captured, replayed
            stepper.step(batch)

        def run() -> None:
            for _ in range(STEPS):
                stepper.run_again()
            memory.fetch([])

        yield about | {"kernels": times_of(record(run), STEPS)}
