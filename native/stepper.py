"""The interface of every core, and the NumPy reference behind it."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from .reference import Reference

NO_FILES = "the NumPy reference has no pages and no states that could be read or written"

Logprobs = tuple[float, tuple[tuple[int, float], ...]]
"""A token's, by the model's own logits, before bias and penalties; and (id, its own), likeliest first."""

Output = tuple[tuple[int, ...], npt.NDArray[np.float32] | None, tuple[Logprobs, ...] | None, tuple[int, ...]]
"""A row's predicted tokens, -1 for one whose logits are all NaN; its logits float32 [outputs, vocab] if row.logits;
Logprobs of each if sampling asks; what is drafted behind its right tokens, up to row.ahead."""


class Stepper(Protocol):
    """The ragged step of one implementation. Wrong arguments are ValueError, and then nothing has changed.

    A page is one of the pool, a state one of the kept copies of recurrent states; as bytes both are little-endian and
    belong to one fingerprint. A page has page_bytes; a state its position as int64, then state_bytes.
    """

    @property
    def state_bytes(self) -> int:
        """Bytes of a kept state; 0 for a model without recurrent layers, which has none."""

    def step(self, rows: Sequence[Any]) -> tuple[list[Output], int]:
        """Per row its Output; then the weight bytes."""

    def commit(self, slot: int, position: int) -> None:
        """Moves a slot to an absolute position: where it stands, anywhere its last step reached, or 0. Of a row that
        continues (daemon/plan.py), where layers are recurrent: to its end, or 0."""

    def seat(self, slot: int, ids: Sequence[int], state: int | None) -> None:
        """Moves a slot to len(ids) as if it had been fed exactly `ids`; their keys and values are where the tables of
        its later rows point. state: where layers are recurrent, the kept state of that position; None for no ids."""

    def keep(self, slot: int, state: int) -> None:
        """Copies the committed recurrent state of a slot into a kept one."""

    def copy_page(self, source: int, target: int) -> None:
        """The keys and values of all layers."""

    def read_page(self, page: int) -> bytes: ...
    def write_page(self, page: int, data: bytes) -> None: ...
    def read_state(self, state: int) -> bytes: ...
    def write_state(self, state: int, data: bytes) -> None: ...


class Fed(NamedTuple):
    """A row of the reference that only feeds."""

    slot: int
    tokens: Sequence[int]
    position: int = 0
    outputs: int = 0


class ReferenceStepper:
    """The NumPy reference behind the interface of the cores; greedy only. Slots have caches of their own and no pages,
    so a seat computes its ids again, and there is nothing to copy, to keep or to write."""

    state_bytes = 0

    def __init__(self, reference: Reference, slots: int, context: int):
        self.reference = reference
        self.slots = slots
        self.context = context
        self.weight_bytes = sum(weights.nbytes for weights in reference.weights.values())

    def step(self, rows: Sequence[Any]) -> tuple[list[Output], int]:
        for row in rows:
            if row.sampling is not None or row.allowed is not None:
                raise ValueError("the NumPy reference decodes greedily; sampling options are the C++ core's")
        results = self.reference.step(rows)
        outputs: list[Output] = [
            (result.tokens, result.logits if row.logits else None, None, ())
            for row, result in zip(rows, results, strict=True)
        ]
        return outputs, self.weight_bytes

    def commit(self, slot: int, position: int) -> None:
        self.reference.commit(slot, position)

    def seat(self, slot: int, ids: Sequence[int], state: int | None) -> None:
        if not 0 <= slot < self.slots:
            raise ValueError(f"slot {slot} is not one of {self.slots}")
        if len(ids) > self.context:
            raise ValueError(f"{len(ids)} ids are more than the context of {self.context}")
        vocab = self.reference.shape.vocab
        if not all(0 <= token < vocab for token in ids):
            raise ValueError(f"slot {slot}: a token outside 0..{vocab - 1}")
        self.reference.commit(slot, 0)
        if ids:
            self.reference.step([Fed(slot, ids)])
            self.reference.commit(slot, len(ids))

    def keep(self, slot: int, state: int) -> None:
        pass

    def copy_page(self, source: int, target: int) -> None:
        pass

    def read_page(self, page: int) -> bytes:
        raise ValueError(NO_FILES)

    def write_page(self, page: int, data: bytes) -> None:
        raise ValueError(NO_FILES)

    def read_state(self, state: int) -> bytes:
        raise ValueError(NO_FILES)

    def write_state(self, state: int, data: bytes) -> None:
        raise ValueError(NO_FILES)
