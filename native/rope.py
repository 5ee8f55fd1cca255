"""The rotation tables of rotary position embedding, made once at load: no sine is taken inside a step."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.float32]


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


def rope_table(shape: Rotation, positions: int | None = None) -> tuple[Table, Table]:
    """Cosines and sines, each [positions, rope_size / 2]; computed in float64, then rounded once.

    Row p, column i turns by the angle p * rope_base ** (-2 i / rope_size) / rope_divisors[i], without the divisor where
    there are none. Without `positions`: the model's context.
    """
    steps = np.arange(shape.context if positions is None else positions, dtype=np.float64)
    frequencies = shape.rope_base ** (-np.arange(0, shape.rope_size, 2, dtype=np.float64) / shape.rope_size)
    if shape.rope_divisors:
        frequencies = frequencies / np.array(shape.rope_divisors)
    angles = steps[:, None] * frequencies  # [positions, rope_size / 2]
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
