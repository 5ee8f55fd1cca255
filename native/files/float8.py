"""Matrices of 8-bit floats (E4M3) in a Hugging Face folder, read as BF16: number times scale, rounded to the nearest.

NAME [rows, columns], of experts [experts, rows, columns], stands beside NAME_scale_inv (DeepSeek's, Qwen's and
Mistral's, no inverse in spite of its name) or NAME_scale (compressed-tensors, ModelOpt): one scale for each matrix, one
for each row, or one for each block of weights, whose size config.json may give. E4M3 has no infinity: https://arxiv.org/abs/2209.05433
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize, quantize

from .folder_keys import MOST
from .model_file import Bytes, ModelUnreadable, Tensor
from .rearrange import FLOAT_TYPES, Floats
from .safetensors_file import Stored

FLOAT8 = "F8_E4M3"
SCALES = ("_scale_inv", "_scale")
USUAL = (128, 128)  # rows and columns of a block
CODES = 256
NOT_A_NUMBER = 0x7F  # without its sign
TOGETHER = 1 << 20  # weights that are converted at once


def block_size(config: Mapping[str, Any]) -> tuple[int, int]:
    """Rows and columns of the blocks of weights that have a scale, as a config.json says it; raises ValueError."""
    asked = config.get("quantization_config")
    if not isinstance(asked, dict):
        return USUAL
    groups = asked.get("config_groups")
    weights = [group.get("weights") for group in groups.values()] if _holds_objects(groups) else []
    structures = [each.get("block_structure") for each in weights if isinstance(each, dict)]
    given = [size for size in (asked.get("weight_block_size"), *structures) if size is not None]
    if any(size != given[0] for size in given) or not all(map(_is_size, given)):
        raise ValueError(f"its quantization_config has blocks of {given!r}, expected one size [rows, columns]")
    return (given[0][0], given[0][1]) if given else USUAL


def float8_tensors(found: Mapping[str, Stored], block: tuple[int, int]) -> Iterator[tuple[Tensor, tuple[str, ...]]]:
    """The matrices of 8-bit floats of a safetensors folder, each with the names that it is made of."""
    for name, weights in found.items():
        if weights.dtype != FLOAT8 or name.endswith(SCALES):
            continue
        names = [f"{name}{scale}" for scale in SCALES if f"{name}{scale}" in found]
        if len(names) != 1:
            raise ValueError(f"the tensor {name!r} is {FLOAT8} and has {len(names)} tensors of scales, expected one")
        scales = found[names[0]]
        if scales.dtype not in FLOAT_TYPES:
            raise ValueError(f"the tensor {scales.name!r} is {scales.dtype}, expected {' or '.join(FLOAT_TYPES)}")
        yield _tensor(weights, scales, block), (name, scales.name)


def _size_of_scale(weights: Stored, scales: Stored, block: tuple[int, int]) -> tuple[int, int]:
    """How many rows and columns of a matrix have one scale."""
    *matrices, rows, columns = weights.shape if len(weights.shape) in (2, 3) else (0, 0)
    given = scales.shape[len(matrices) :] if scales.shape[: len(matrices)] == tuple(matrices) else None
    blocks = (-(-rows // block[0]), -(-columns // block[1]))
    sizes = {
        **dict.fromkeys(((), (1,), (1, 1)), (rows, columns)),
        **dict.fromkeys(((rows,), (rows, 1)), (1, columns)),
        **({(2, 1): (rows // 2, columns)} if matrices and rows % 2 == 0 else {}),  # gates and ups of an expert
        blocks: block,
    }
    if not rows or given not in sizes:
        raise ValueError(
            f"the tensor {weights.name!r} is {list(weights.shape)} and its scales {list(scales.shape)}, expected "
            f"matrices, and for each of them one, [rows, 1] or, for blocks of {list(block)}, {list(blocks)}"
        )
    return sizes[given]


def _tensor(weights: Stored, scales: Stored, block: tuple[int, int]) -> Tensor:
    height, width = _size_of_scale(weights, scales, block)
    rows, columns, of_matrix = weights.rows, weights.columns, weights.shape[-2]

    def read() -> Bytes:
        grid = dequantize(scales.raw.reshape(1, -1), GGMLQuantizationType[scales.dtype]).reshape(
            -1, -(-columns // width)
        )
        raw = weights.raw.reshape(rows, columns)
        result = np.empty((rows, columns), np.uint16)
        across = np.arange(columns) // width * CODES
        step = max(1, TOGETHER // columns)
        for begin in range(0, rows, step):
            codes = raw[begin : begin + step]
            matrix, row = np.divmod(np.arange(begin, begin + len(codes)), of_matrix)
            down = matrix * -(-of_matrix // height) + row // height
            tables = _tables(weights.name, scales.name, codes, grid[down[0] : down[-1] + 1])
            places = ((down - down[0]) * grid.shape[1] * CODES)[:, None] + across
            result[begin : begin + step] = tables[places + codes]
        return result.view(np.uint8)

    return Tensor(weights.name, "BF16", rows, columns, read)


def _tables(name: str, scale_name: str, codes: Bytes, scales: Floats) -> npt.NDArray[np.uint16]:
    """What each code is with each scale: [scales * 256], BF16."""
    if ((codes & NOT_A_NUMBER) == NOT_A_NUMBER).any():
        raise ModelUnreadable(f"cannot use the model: the tensor {name!r} has a weight that is no number")
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = VALUES * scales.reshape(-1, 1)
    if not np.isfinite(numbers).all():
        raise ModelUnreadable(f"cannot use the model: the tensor {scale_name!r} has a scale that is no number")
    return quantize(numbers, GGMLQuantizationType.BF16).reshape(-1).view(np.uint16)


def _values() -> Floats:
    """What each code is, [256]; 0 for those that are no number."""
    codes = np.arange(CODES)
    exponent, mantissa = codes >> 3 & 15, codes & 7
    size = np.where(exponent, np.ldexp(1 + mantissa / 8, exponent - 7), np.ldexp(mantissa / 8, -6))
    size[(codes & NOT_A_NUMBER) == NOT_A_NUMBER] = 0
    return np.where(codes & 0x80, -size, size).astype(np.float32)


VALUES = _values()


def _holds_objects(value: Any) -> TypeGuard[dict[str, dict[str, Any]]]:
    return isinstance(value, dict) and all(isinstance(inner, dict) for inner in value.values())


def _is_size(size: Any) -> bool:
    return isinstance(size, list) and len(size) == 2 and all(type(part) is int and 0 < part <= MOST for part in size)
