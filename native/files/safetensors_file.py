"""One *.safetensors file, memory-mapped: its header is checked by the safetensors package, its bytes are read by us.

The package's NumPy side has no bfloat16 and no 8-bit floats, so a tensor is given as raw bytes and its type's name.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from .model_file import Bytes


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor as it lies in the file; `dtype` is the format's word (F32, F16, BF16, U8, F8_E4M3 …)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    raw: Bytes  # [bytes], memory-mapped

    @property
    def rows(self) -> int:
        """All but the last dimension."""
        rows = 1
        for size in self.shape[:-1]:
            rows *= size
        return rows

    @property
    def columns(self) -> int:
        return self.shape[-1] if self.shape else 1


def read_stored(path: Path) -> Iterator[Stored]:
    """The tensors of a file; raises ValueError naming the file for a damaged one."""
    try:
        with safe_open(path, framework="np"):  # checks the header: sizes, types, and that it covers the file exactly
            pass
    except SafetensorError as problem:
        raise ValueError(f"the file {path.name} is damaged ({' '.join(str(problem).split())})") from None
    except OSError as problem:
        raise ValueError(f"the file {path.name} cannot be read ({problem.strerror or problem})") from None
    data = np.memmap(path, np.uint8, "r").view(np.ndarray)
    begin = 8 + int.from_bytes(data[:8].tobytes(), "little")
    for name, entry in json.loads(data[8:begin].tobytes()).items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        shape = tuple(entry["shape"])
        if not all(shape):
            raise ValueError(f"the tensor {name!r} has the impossible dimensions {list(shape)}")
        yield Stored(name, entry["dtype"], shape, data[begin + first : begin + last])
