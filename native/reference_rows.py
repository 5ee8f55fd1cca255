"""What the reference is asked for, and what it answers."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from .reference_cache import SlotCache
from .reference_math import Floats
from .shape import ModelShape


class Row(Protocol):
    """What the reference reads of a row."""

    @property
    def slot(self) -> int: ...
    @property
    def tokens(self) -> Sequence[int]: ...
    @property
    def position(self) -> int: ...
    @property
    def outputs(self) -> int: ...


class RowLogits(NamedTuple):
    tokens: tuple[int, ...]  # the greedy choice of each output
    logits: Floats  # [outputs, vocab]


def spans(rows: Sequence[Row]) -> Iterator[tuple[Row, slice]]:
    """Each row and the span of its tokens among those of all rows, concatenated."""
    begin = 0
    for row in rows:
        yield row, slice(begin, begin + len(row.tokens))
        begin += len(row.tokens)


def check_rows(shape: ModelShape, rows: Sequence[Row], cache_of: Callable[[int], SlotCache]) -> None:
    """Raises ValueError where a step cannot take the rows; makes room for them in their slots' caches."""
    if not rows:
        raise ValueError("a step needs at least one row")
    if len({row.slot for row in rows}) != len(rows):
        raise ValueError("a step takes at most one row per slot")
    for row in rows:
        end = row.position + len(row.tokens)
        cache = cache_of(row.slot)
        if row.position != cache.committed:
            raise ValueError(f"slot {row.slot}: row at position {row.position}, committed is {cache.committed}")
        if not row.tokens or end > shape.context:
            raise ValueError(f"slot {row.slot}: {len(row.tokens)} tokens end at {end} of {shape.context}")
        if not 0 <= row.outputs <= len(row.tokens):
            raise ValueError(f"slot {row.slot}: {row.outputs} outputs of {len(row.tokens)} tokens")
        if not all(0 <= token < shape.vocab for token in row.tokens):
            raise ValueError(f"slot {row.slot}: a token outside 0..{shape.vocab - 1}")
        cache.reserve(end)
