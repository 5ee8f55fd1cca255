"""MXFP4 weights of a Hugging Face folder, as in gpt-oss, turned into ggml's blocks.

A block is 32 weights of four bits (E2M1) with one power of two as their scale. A folder has all experts of a layer in
NAME_blocks [experts, rows, blocks, 16] and NAME_scales [experts, rows, blocks], two neighbours to a byte; ggml has the
scale first, and weights i and i + 16 in byte i: https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0
"""

from collections.abc import Iterator, Mapping

import numpy as np

from .model_file import Bytes, ModelUnreadable, Tensor
from .safetensors_file import Stored

MXFP4 = "MXFP4"
NOT_A_NUMBER = 0xFF


def blocks(pairs: Bytes, scales: Bytes) -> Bytes:
    """ggml's blocks [rows, blocks * 17] of pairs [rows, blocks * 16] and scales [rows, blocks]."""
    rows = len(pairs)
    elements = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(rows, -1, 32)  # [rows, blocks, elements]
    packed = elements[..., :16] | elements[..., 16:] << 4
    return np.concatenate([scales.reshape(rows, -1, 1), packed], axis=-1).reshape(rows, -1)


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
        yield _tensor(stem, pairs, scales), (name, scales.name)


def _tensor(name: str, pairs: Stored, scales: Stored) -> Tensor:
    rows, columns = scales.rows, scales.columns * 32

    def read() -> Bytes:
        if (scales.raw == NOT_A_NUMBER).any():
            raise ModelUnreadable(f"cannot use the model: the tensor {scales.name!r} has a scale that is no number")
        return blocks(pairs.raw.reshape(rows, -1), scales.raw.reshape(rows, -1))

    return Tensor(name, MXFP4, rows, columns, read)
