"""What depends on a position alone, made once at load: no sine is taken inside a step."""

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.float32]
TOGETHER = 1024  # positions computed at once: float64 takes twice the memory of what is kept


EMPTY = np.empty(0, np.float32)


class Tables(NamedTuple):
    """Cosines and sines [positions, rope_size / 2] of full attention, then those of sliding layers, or of unrotated
    ones where none slides, or empty ones; and what queries are multiplied by [positions], or nothing where they are
    not."""

    cosines: Table
    sines: Table
    local_cosines: Table
    local_sines: Table
    temperatures: Table


class Rotation(Protocol):
    """What a table depends on."""

    @property
    def context(self) -> int: ...
    @property
    def rope_base(self) -> float: ...
    @property
    def rope_size(self) -> int: ...
    @property
    def rope_divisors(self) -> tuple[float, ...]: ...
    @property
    def rope_amplitude(self) -> float: ...


class LocalRotation(Rotation, Protocol):
    @property
    def local_rope_base(self) -> float: ...
    @property
    def local_rope_size(self) -> int: ...


class Tempered(Protocol):
    @property
    def context(self) -> int: ...
    @property
    def temperature_scale(self) -> float: ...
    @property
    def temperature_length(self) -> int: ...


def rope_table(shape: Rotation, positions: int | None = None) -> tuple[Table, Table]:
    """Cosines and sines, each [positions, rope_size / 2]; computed in float64, then rounded once.

    Row p, column i is for the angle p * rope_base ** (-2 i / rope_size) / rope_divisors[i], without the divisor where
    there are none, and both are multiplied by rope_amplitude. Without `positions`: the model's context.
    """
    return _table(shape.context if positions is None else positions, shape.rope_base, shape.rope_size, shape)


def local_rope_table(shape: LocalRotation, positions: int | None = None) -> tuple[Table, Table]:
    """The table of sliding layers: another base, unscaled, or that of all layers where there is no other base."""
    if not shape.local_rope_base:
        return rope_table(shape, positions)
    count = shape.context if positions is None else positions
    return _table(count, shape.local_rope_base, shape.local_rope_size or shape.rope_size, shape, scaled=False)


def unrotated_table(shape: Rotation, positions: int | None = None) -> tuple[Table, Table]:
    """A rotation by nothing."""
    size = (shape.context if positions is None else positions, shape.rope_size // 2)
    return np.ones(size, np.float32), np.zeros(size, np.float32)


def temperatures(shape: Tempered, positions: int | None = None) -> Table:
    """What the queries of each position are multiplied by, [positions], or an empty table where they are not: Llama 4's
    rule, which Mistral's models have too, 1 + temperature_scale * log(1 + position // temperature_length)."""
    if not shape.temperature_scale:
        return EMPTY
    times = np.arange(shape.context if positions is None else positions) // shape.temperature_length
    return (1 + shape.temperature_scale * np.log1p(times)).astype(np.float32)


def _table(positions: int, base: float, size: int, shape: Rotation, scaled: bool = True) -> tuple[Table, Table]:
    frequencies = base ** (-np.arange(0, size, 2, dtype=np.float64) / size)
    if scaled and shape.rope_divisors:
        frequencies = frequencies / np.array(shape.rope_divisors)
    amplitude = shape.rope_amplitude if scaled else 1.0
    cosines, sines = (np.empty((positions, len(frequencies)), np.float32) for _ in range(2))
    for begin in range(0, positions, TOGETHER):
        steps = np.arange(begin, min(begin + TOGETHER, positions), dtype=np.float64)
        angles = steps[:, None] * frequencies
        cosines[begin : begin + TOGETHER] = amplitude * np.cos(angles)
        sines[begin : begin + TOGETHER] = amplitude * np.sin(angles)
    return cosines, sines
