"""The order in which scripts/bench_gpu.py works: the most important comes first, so that a short run has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bench_gpu_llama import ARCHITECTURES, LlamaCpp
from bench_gpu_llama import FORMATS as FILE_FORMATS
from bench_gpu_measure import Clock
from bench_gpu_models import MODELS
from bench_gpu_peer import transformers_steps
from bench_gpu_worker import Worker

PEER_ROWS = (1, 8, 16)
DENSE, HYBRID = "Qwen3-8B", "Qwen3.5-27B hybrid"
KERNEL_PAIRS = ((DENSE, "Q4_K"), (HYBRID, "Q4_K"))  # whose kernels are timed
FIRST = ((DENSE, "Q4_K"), (DENSE, "Q8_0"), (HYBRID, "Q4_K"), (DENSE, "BF16"))  # the last to compare with transformers

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Work:
    """Figures that share something that takes long to make; `about` names them if there are none."""

    about: dict[str, Any]
    run: Callable[[], Iterator[dict[str, Any]]]


@dataclass(frozen=True)
class Plan:
    """All that can be measured; contexts and rows ascend."""

    device: str
    worker: Worker
    models: tuple[str, ...]
    formats: tuple[str, ...]
    rows: Numbers
    contexts: Numbers
    prompts: Numbers
    roof: float  # bytes per second of a copy
    clock: Clock
    products: bool
    peer: bool
    llama: LlamaCpp | None
    kernels: bool = False

    def works(self) -> Iterator[Work]:
        """Products; the first steps at the near context; peers there; the rest, one format after the other.

        A model that is first measured at one context is made again for the others: that costs seconds, but the figures
        at the near context are ready by then.
        """
        near, far = self.contexts[:1], self.contexts[1:]
        pairs = [(model, kind) for kind in self.formats for model in self.models]
        main = DENSE if DENSE in self.models else self.models[0]
        first = [pair for pair in FIRST if pair in pairs] or [pair for pair in pairs if pair[0] == main]
        if self.products:
            for kind in self.formats:
                yield self._products(kind)
        for model, kind in first:
            yield self._steps(model, kind, near, self.prompts)
        for model, kind in [pair for pair in KERNEL_PAIRS if pair in pairs] if self.kernels else []:
            yield self._kernels(model, kind, near[0])
        yield from self._peers(main, near)
        if far:
            for model, kind in first:
                yield self._steps(model, kind, far)
        for model, kind in pairs:
            if (model, kind) not in first:
                yield self._steps(model, kind, self.contexts, self.prompts)
        for model in self.models:
            if model != main:
                yield from self._peers(model, near)
        if far:
            for model in self.models:
                yield from self._peers(model, far)

    def _products(self, kind: str) -> Work:
        about = {"kind": "product", "format": kind}
        return Work(about, lambda: self.worker.run("products", kind, self.rows, self.roof, clock=self.clock))

    def _steps(self, model: str, kind: str, contexts: Numbers, prompts: Numbers = ()) -> Work:
        about = {"kind": "step", "model": model, "format": kind}
        asked = (model, kind, self.rows, contexts, prompts, self.roof)
        return Work(about, lambda: self.worker.run("steps", *asked, clock=self.clock))

    def _kernels(self, model: str, kind: str, context: int) -> Work:
        def run() -> Iterator[dict[str, Any]]:
            own = Worker(self.worker.device)  # what records kernels might slow down what follows
            try:
                yield from own.run("kernels", model, kind, self._peer_rows(), context, clock=self.clock)
            finally:
                own.close()

        return Work({"kind": "kernels", "model": model, "format": kind}, run)

    def _peer_rows(self) -> Numbers:
        return tuple(number for number in self.rows if number in PEER_ROWS) or self.rows[:1]

    def _peers(self, model: str, contexts: Numbers) -> Iterator[Work]:
        rows = self._peer_rows()
        clock, place = self.clock, self.device
        if self.peer:
            about = {"kind": "peer", "peer": "transformers", "model": model, "format": "BF16"}
            yield Work(about, lambda: transformers_steps(model, rows, contexts, place, clock.left(), clock.over))
        llama = self.llama
        if llama is None or MODELS[model].architecture not in ARCHITECTURES:
            return
        for kind in (kind for kind in FILE_FORMATS if kind in self.formats):
            for context in contexts:
                about = {"kind": "peer", "peer": "llama.cpp", "model": model, "format": kind}
                where = (model, kind, rows, context)
                yield Work(about, lambda where=where: llama.steps(*where, clock.left(), clock.over))
