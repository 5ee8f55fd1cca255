"""The gguf package's reader, made quick and safe for files that are damaged.

`gguf.GGUFReader` takes every piece of the header through `_get`. Here each such read is checked against the end of the
file, where NumPy would give a shorter slice and the reader would go on with it, perhaps for ever; and it slices a plain
array: a slice of a memmap costs ten times as much. Arrays, of which a vocabulary has three with a quarter of a million
elements, are read whole if they are numbers and in a short loop if they are strings. Counts in a
header are bounded before they are used: a damaged one would be followed to the end of a file of gigabytes.
"""

import struct
import sys
from math import prod
from pathlib import Path
from typing import Any, Literal

import gguf
import numpy as np
import numpy.typing as npt

from .model_file import MATRIX_TYPES

TYPE_NUMBERS = frozenset(int(type) for type in gguf.GGMLQuantizationType)
MOST_ELEMENTS = 1 << 22  # in all arrays of the metadata together; tokens and merges of known models are under 2 ** 20
MOST_TENSORS = 1 << 20
MOST_DIMENSIONS = 4
WEIGHTS_PER_BYTE = 8  # no type has more


class Truncated(Exception):
    """A read past the end of the file."""


class UnknownType(Exception):
    """A tensor of a type that the package has no name for."""


class GGUFFile(gguf.GGUFReader):
    """Raises Truncated, UnknownType, or what the package raises for a malformed file (see DAMAGE)."""

    _plain: npt.NDArray[np.uint8] | None = None
    _elements = 0  # of arrays so far

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        if self.byte_order != "I":
            raise ValueError("its bytes are in the order of another kind of processor")

    def _get(
        self,
        offset: int,
        dtype: npt.DTypeLike,
        count: int = 1,
        override_order: Literal["I", "S", "<"] | None = None,
    ) -> npt.NDArray[Any]:
        if self._plain is None:
            self._plain = self.data.view(np.ndarray)  # uint8 [size], memory-mapped
        kind = np.dtype(dtype)
        end = int(offset) + kind.itemsize * int(count)
        if end > len(self._plain):
            raise Truncated(f"it ends at byte {len(self._plain)}, expected at least {end}")
        piece = self._plain[int(offset) : end].view(kind)
        order = override_order or self.byte_order
        return piece if order == "I" else piece.view(kind.newbyteorder(order))

    def _build_tensors(self, start_offs: int, fields: list[gguf.ReaderField]) -> None:
        for field in fields:
            number = int(field.parts[4][0])
            if number not in TYPE_NUMBERS:
                raise UnknownType(
                    f"the tensor {field.name!r} has the type number {number}, supported: {', '.join(MATRIX_TYPES)}"
                )
            kind = gguf.GGMLQuantizationType(number)
            block, columns = gguf.GGML_QUANT_SIZES[kind][0], [int(size) for size in field.parts[3][:1]]
            if columns and columns[0] % block:
                raise ValueError(
                    f"the tensor {field.name!r} has {columns[0]} columns, "
                    f"expected a multiple of {block} for {kind.name}"
                )
        super()._build_tensors(start_offs, fields)

    def _get_field_parts(
        self, orig_offs: int, raw_type: int
    ) -> tuple[int, list[Any], list[int], list[gguf.GGUFValueType]]:
        """The bytes of a value, its parts, which of them are the data, its type and that of its elements."""
        if raw_type != gguf.GGUFValueType.ARRAY:
            return super()._get_field_parts(orig_offs, raw_type)
        element, count = self._get(orig_offs, np.uint32), self._get(orig_offs + 4, np.uint64)
        if element[0] == gguf.GGUFValueType.ARRAY:
            raise ValueError("an array of arrays in its metadata")
        self._elements += int(count[0])
        if self._elements > MOST_ELEMENTS:
            raise ValueError(f"arrays of {self._elements} elements in its metadata, expected at most {MOST_ELEMENTS}")
        begin, kind = orig_offs + 12, gguf.GGUFValueType(int(element[0]))
        scalar = self.gguf_scalar_to_np.get(kind)
        if int(count[0]) == 0 or (scalar is None and kind != gguf.GGUFValueType.STRING):
            return super()._get_field_parts(orig_offs, raw_type)
        found: list[Any]
        if scalar is not None:
            found = [self._get(begin, scalar, int(count[0]))]
            end = begin + found[0].nbytes
        else:
            found, end = self._strings(begin, int(count[0]))
        places = list(range(2, 2 + len(found)))
        return end - orig_offs, [element, count, *found], places, [gguf.GGUFValueType.ARRAY, kind]

    def _strings(self, begin: int, count: int) -> tuple[list[Any], int]:
        """The bytes of `count` strings and where they end."""
        little = (self.byte_order == "I") == (sys.byteorder == "little")
        length = struct.Struct("<Q" if little else ">Q").unpack_from
        assert self._plain is not None  # the magic was read through it
        whole, size, found = memoryview(self._plain.data), len(self._plain), []
        for _ in range(count):
            text = begin + 8
            if text > size:
                raise Truncated(f"it ends at byte {size}, expected at least {text}")
            begin = text + length(whole, begin)[0]
            if begin > size:
                raise Truncated(f"it ends at byte {size}, expected at least {begin}")
            found.append(whole[text:begin])
        return found, begin

    def _build_tensor_info(self, offs: int, count: int) -> Any:
        """Checks sizes before the package multiplies and adds them in 64 bits, where they could overflow."""
        if count > MOST_TENSORS:
            raise ValueError(f"{count} tensors, expected at most {MOST_TENSORS}")
        end, fields = super()._build_tensor_info(offs, count)
        for field in fields:
            sizes, begin = field.parts[3].tolist(), int(field.parts[5][0])
            if not 1 <= len(sizes) <= MOST_DIMENSIONS or not 0 < prod(sizes) <= WEIGHTS_PER_BYTE * len(self.data):
                raise ValueError(f"the tensor {field.name!r} has the impossible dimensions {sizes}")
            if begin > len(self.data):
                raise Truncated(f"it ends at byte {len(self.data)}, and the tensor {field.name!r} begins at {begin}")
        return end, fields


DAMAGE = (Truncated, UnknownType, ValueError, KeyError, IndexError, OverflowError, TypeError, MemoryError)
