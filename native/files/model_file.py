"""What every kind of model file gives: its metadata and its tensors, in GGUF's vocabulary."""

import errno
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

MATRIX_TYPES = (
    *("F32", "F16", "BF16"),
    *("Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "IQ4_NL", "MXFP4", "NVFP4"),
    *("Q6_K", "Q5_K", "Q4_K", "IQ4_XS", "Q3_K", "Q2_K"),
    *("IQ3_S", "IQ3_XXS", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_M", "IQ1_S"),
)

Bytes = npt.NDArray[np.uint8]


LONGEST = 900  # characters of a sentence: a damaged name or value may have millions


class ModelUnreadable(Exception):
    """The file is no model that can be used; the message is one sentence. The process ends with exit code 66."""

    def __init__(self, sentence: str) -> None:
        line = " ".join(sentence.splitlines())
        super().__init__(line if len(line) <= LONGEST else f"{line[: LONGEST * 2 // 3]} … {line[-LONGEST // 3 :]}")


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a model file says about itself; `values` holds every key as plain Python (str, int, float, bool, list)."""

    path: Path
    architecture: str
    name: str
    vocab: int
    eos: tuple[int, ...]
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor, not yet read; a 1-d tensor has one row.

    `source` is the bytes as they lie in the file, memory-mapped, or the function that reads and converts them.
    `scales` are factors of the whole tensor, or of each expert (as many equal parts of its rows), that its type has no
    place for: the product is multiplied by them.
    """

    name: str
    type: str
    rows: int
    columns: int
    source: Bytes | Callable[[], Bytes]
    scales: tuple[float, ...] = ()

    @property
    def data(self) -> Bytes:
        """[rows, bytes of one row]; a tensor that has to be converted is converted each time."""
        return self.source() if callable(self.source) else self.source

    @property
    def nbytes(self) -> int:
        """The size of `data`, without reading it."""
        return self.rows * row_bytes(self.type, self.columns)


def row_bytes(type: str, columns: int) -> int:
    """The bytes of a row of `columns` weights of a GGML type; raises ValueError if it is no whole number of blocks."""
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType[type]]
    if columns % block:
        raise ValueError(f"{columns} columns are no multiple of the {block} weights in a block of {type}")
    return columns // block * int(size)


def unreadable(path: Path, reason: str) -> ModelUnreadable:
    return ModelUnreadable(f"cannot read the model {path}: {reason}")


def untokenizable(path: str | Path, problem: ValueError) -> ModelUnreadable:
    return ModelUnreadable(f"cannot turn text into tokens with {path}: {problem}")


def check_regular(path: Path) -> None:
    """Raises OSError for what a reader could wait for without end: a pipe, a device."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "it is no regular file")


def read_object(path: Path) -> dict[str, Any]:
    """A JSON file that holds an object; raises ValueError naming it."""
    try:
        check_regular(path)
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"the file {path.name} is missing") from None
    except OSError as problem:
        raise ValueError(f"the file {path.name} cannot be read ({problem.strerror or problem})") from None
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"the file {path.name} is no JSON ({problem})") from None
    if not isinstance(found, dict):
        raise ValueError(f"the file {path.name} holds no JSON object")
    return found
