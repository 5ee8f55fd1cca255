"""MXFP4 weights of a Hugging Face folder, as in gpt-oss, turned into ggml's blocks.

A block is 32 weights of four bits (E2M1) with one power of two as their scale. A folder has all experts of a layer in
NAME_blocks [experts, rows, blocks, 16] and NAME_scales [experts, rows, blocks], two neighbours to a byte; ggml has the
scale first, and weights i and i + 16 in byte i: https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from .model_file import Bytes, ModelUnreadable, Tensor
from .safetensors_file import Stored

MXFP4 = "MXFP4"
NOT_A_NUMBER = 0xFF


def blocks(pairs: Bytes, scales: Bytes) -> Bytes:
    """ggml's blocks [rows, blocks * 17] of pairs [rows, blocks * 16] and scales [rows, blocks]."""
    halves = pairs.reshape(*scales.shape, 16)
    first, second = halves[..., :8], halves[..., 8:]
    result = np.empty((*scales.shape, 17), np.uint8)
    result[..., 0] = scales
    result[..., 1::2] = first & 15 | second << 4
    result[..., 2::2] = first >> 4 | second & 0xF0
    return result.reshape(len(scales), -1)


def packed_tensors(found: Mapping[str, Stored]) -> Iterator[tuple[Tensor, tuple[str, ...]]]:
    """The MXFP4 matrices of a safetensors folder, each with the names that it is made of."""
    for name, pairs in found.items():
        stem, end, rest = name.rpartition("_blocks")
        if not end or rest:
            continue
        scales = found.get(f"{stem}_scales")
        if pairs.dtype != "U8" or scales is None or scales.dtype != "U8":
            given = "missing" if scales is None else scales.dtype
            raise ValueError(f"the tensor {name!r} is {pairs.dtype} and its scales are {given}, expected U8 for both")
        if pairs.shape != (*scales.shape, 16):
            raise ValueError(
                f"the tensor {name!r} is {list(pairs.shape)} and its scales {list(scales.shape)}, "
                "expected [experts, rows, n, 16] and [experts, rows, n]"
            )
        yield Tensor(stem, MXFP4, scales.rows, scales.columns * 32, Packed(pairs, scales)), (name, scales.name)


@dataclass(frozen=True, slots=True)
class Packed:
    """Reads a matrix, or every `step`-th of its rows from `first` on."""

    pairs: Stored
    scales: Stored
    first: int = 0
    step: int = 1

    def __call__(self) -> Bytes:
        rows = slice(self.first, None, self.step)
        scales = self.scales.raw.reshape(self.scales.rows, -1)[rows]
        if (scales == NOT_A_NUMBER).any():
            raise ModelUnreadable(
                f"cannot use the model: the tensor {self.scales.name!r} has a scale that is no number"
            )
        return blocks(self.pairs.raw.reshape(self.scales.rows, -1)[rows], scales)


def every_second(tensor: Tensor, first: int) -> Tensor:
    """Rows first, first + 2, … of an MXFP4 matrix of a folder; the others are not converted."""
    packed = cast(Packed, tensor.source)
    rows = len(range(first, tensor.rows, 2))
    return Tensor(tensor.name, MXFP4, rows, tensor.columns, replace(packed, first=first, step=2))
