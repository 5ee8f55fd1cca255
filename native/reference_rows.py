"""What the reference is asked for, and what it answers."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from .reference_math import Floats


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
