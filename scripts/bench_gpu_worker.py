"""Our own figures for scripts/bench_gpu.py are made in a process of their own: after a device error a process cannot
use the GPU any more, so one bad kernel would cost all later figures."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

from bench_gpu_kernels import kernels
from bench_gpu_measure import Clock, Device, copy_bandwidth, products
from bench_gpu_steps import steps

PATIENCE = 25.0  # seconds after the run's time is over, in which what has begun may finish
MOST = 120.0  # seconds to wait for a figure, and for the weights before the first
KNOWN = (ValueError, MemoryError, ImportError, TimeoutError)  # what is known not to be possible

MEASURES = {"products": products, "steps": steps, "kernels": kernels, "roof": copy_bandwidth}


class Worker:
    """A process that measures one thing after the other; after an error, a new one."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._pipe: Connection | None = None

    def run(self, name: str, *arguments: Any, clock: Clock) -> Iterator[dict[str, Any]]:
        """What a function of MEASURES gives; raises ValueError for one of KNOWN, RuntimeError if it failed, hangs or
        died."""
        whole = False
        try:
            pipe = self._pipe or self._start()
            pipe.send((name, (*arguments, clock)))
            while True:
                if not pipe.poll(min(MOST, max(0.0, clock.left()) + PATIENCE)):
                    raise RuntimeError("it hangs")
                kind, found = pipe.recv()
                if kind == "figure":
                    yield found
                    continue
                whole = kind != "failed"
                if kind == "known":
                    raise ValueError(found)
                if kind == "failed":
                    raise RuntimeError(found)
                return
        except (EOFError, OSError):
            raise RuntimeError(f"its process ended with {self.close()}") from None
        finally:
            if not whole:
                self.close()

    def close(self) -> int | None:
        """The exit code of the process, None where there was none."""
        if not self._pipe:
            return None
        self._pipe.close()
        self._pipe = None
        self.process.join(5)
        self.process.kill()
        self.process.join(5)  # a process that waits in a driver may never end
        return self.process.exitcode

    def _start(self) -> Connection:
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(target=serve, args=(self.device, theirs), daemon=True)
        self.process.start()
        theirs.close()
        return self._pipe


def serve(device: Device, pipe: Connection) -> None:
    """Answers until the pipe is closed."""
    while True:
        try:
            name, arguments = pipe.recv()
        except EOFError:
            return
        try:
            for found in MEASURES[name](device, *arguments):
                pipe.send(("figure", found))
            pipe.send(("end", None))
        except KNOWN as reason:
            pipe.send(("known", str(reason)))
        except Exception as error:
            pipe.send(("failed", f"{type(error).__name__}: {error}"))
        gc.collect()  # frees the memory of the one before
