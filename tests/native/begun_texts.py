"""Texts on a device that begins their next step, and on one that does not."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from paceline.native.core import Core, open_core
from paceline.native.cuda_core import DeviceStepper
from paceline.protocol import Sampling

from .core_models import ids_of
from .emulated import KIND
from .rows import Row, table

CONTEXT = 128
SLOTS = 4
PLANS = (
    None,
    Sampling(temp=0.8, seed=7, logprobs=3),
    Sampling(logit_bias=((5, 2.0),), logprobs=1, seed=0),
    Sampling(temp=1.2, seed=9, rep_penalty=1.3, freq_penalty=0.4, pres_penalty=-0.2),
)


class Texts:
    """Requests in the slots of a core, and what its steps gave them."""

    def __init__(self, core: Core, continues: bool) -> None:
        self.core, self.continues = core, continues
        self.launches = 0
        self.given: dict[int, list[Any]] = {}
        self.rows: dict[int, Row] = {}
        stepper: Any = core.stepper
        if isinstance(stepper, DeviceStepper):
            launch: Callable[[Any], None] = stepper._launch

            def counted(sizes: Any) -> None:
                self.launches += 1
                launch(sizes)

            stepper._launch = counted  # type: ignore[method-assign]

    def start(self, slot: int, prompt: Sequence[int], own: array[int] | None = None, **more: Any) -> None:
        self.core.seat(slot, [], None)
        own = table(slot, CONTEXT) if own is None else own
        self.rows[slot] = Row(slot, prompt, 0, 1, own, len(prompt), PLANS[slot], logits=slot != 1, **more)
        self.given[slot] = []

    def step(self, *slots: int) -> int:
        """A step of these; how many launches it took."""
        before = self.launches
        rows = [self.rows[slot]._replace(continues=self.continues) for slot in slots]
        results, _ = self.core.step(rows)
        for row, (tokens, logits, logprobs, drafted) in zip(rows, results, strict=True):
            assert (logits is not None) == row.logits and drafted == ()
            bits = None if logits is None else logits.view(np.uint32).tolist()
            self.given[row.slot].append((tokens, bits, logprobs))
            position = row.position + len(row.tokens)
            self.core.commit(row.slot, position)
            self.rows[row.slot] = row._replace(tokens=list(tokens), position=position)
        return self.launches - before


def opened(path: Path, **more: Any) -> Core:
    return open_core(path, slots=SLOTS, context=CONTEXT, states=1, kind=KIND, **more)


def both(path: Path, work: Callable[[Texts], None]) -> tuple[Texts, Texts]:
    """The same work with steps begun ahead and without: everybody is given the same."""
    ahead, without = (Texts(opened(path), continues) for continues in (True, False))
    for texts in (ahead, without):
        work(texts)
    assert ahead.given == without.given
    return ahead, without


def started(texts: Texts, *slots: int) -> None:
    for slot in slots:
        texts.start(slot, ids_of(slot, 3 + 20 * slot, texts.core.vocab))
