"""Tensors made of other tensors when they are asked for: rows picked, columns moved, experts stacked."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from .model_file import Tensor, row_bytes

Indexes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
FLOAT_TYPES = ("F32", "F16", "BF16")


def renamed(tensor: Tensor, name: str) -> Tensor:
    return Tensor(name, tensor.type, tensor.rows, tensor.columns, tensor.source, tensor.scales)


def floats(tensor: Tensor) -> Floats:
    """The weights, without `scales`: [rows, columns]."""
    values = dequantize(tensor.data, GGMLQuantizationType[tensor.type])
    return np.ascontiguousarray(values, np.float32).reshape(tensor.rows, tensor.columns)


def as_float32(tensor: Tensor, change: Callable[[Floats], Floats] = lambda values: values) -> Tensor:
    """Widened to F32 and passed through `change`, which keeps the shape."""
    if tensor.type not in FLOAT_TYPES:
        raise ValueError(f"the tensor {tensor.name!r} is {tensor.type}, expected one of {', '.join(FLOAT_TYPES)}")

    def read() -> npt.NDArray[np.uint8]:
        changed = np.ascontiguousarray(change(floats(tensor)), np.float32)
        return changed.reshape(tensor.rows, tensor.columns).view(np.uint8)

    return Tensor(tensor.name, "F32", tensor.rows, tensor.columns, read, tensor.scales)


def shaped(tensor: Tensor, rows: int, columns: int) -> Tensor:
    """The same floats in another shape."""
    if tensor.rows * tensor.columns != rows * columns:
        raise ValueError(
            f"the tensor {tensor.name!r} is [{tensor.rows}, {tensor.columns}], expected [{rows}, {columns}]"
        )
    return Tensor(tensor.name, tensor.type, rows, columns, lambda: tensor.data.reshape(rows, -1), tensor.scales)


def take_rows(tensor: Tensor, rows: Indexes) -> Tensor:
    """The rows at `rows` [count], in that order; a tensor with a scale for each expert keeps them all or is refused."""
    if len(rows) and int(rows.max()) >= tensor.rows:
        raise ValueError(f"the tensor {tensor.name!r} has {tensor.rows} rows, expected {int(rows.max()) + 1}")
    if len(tensor.scales) > 1:
        raise ValueError(f"the tensor {tensor.name!r} has {len(tensor.scales)} scales, expected one")
    return Tensor(tensor.name, tensor.type, len(rows), tensor.columns, lambda: tensor.data[rows], tensor.scales)


def move_columns(tensor: Tensor, order: Indexes, width: int) -> Tensor:
    """Columns in groups of `width`, put in the order `order` [columns / width]."""
    block, _ = GGML_QUANT_SIZES[GGMLQuantizationType[tensor.type]]
    if tensor.columns != len(order) * width:
        raise ValueError(f"the tensor {tensor.name!r} has {tensor.columns} columns, expected {len(order) * width}")
    if width % block:
        raise ValueError(
            f"the tensor {tensor.name!r} is {tensor.type} in blocks of {block}, its heads are {width} wide"
        )
    size = row_bytes(tensor.type, width)
    return Tensor(
        tensor.name,
        tensor.type,
        tensor.rows,
        tensor.columns,
        lambda: tensor.data.reshape(tensor.rows, len(order), size)[:, order].reshape(tensor.rows, -1),
        tensor.scales,
    )


def transposed(tensor: Tensor, groups: int) -> Tensor:
    """Floats [groups * a, b], group by group turned around: [groups * b, a]."""
    if tensor.type not in FLOAT_TYPES or tensor.rows % groups:
        raise ValueError(
            f"the tensor {tensor.name!r} is {tensor.type} [{tensor.rows}, {tensor.columns}], expected "
            f"{' or '.join(FLOAT_TYPES)} with the rows of {groups} matrices, as each is turned around"
        )
    inputs, word = tensor.rows // groups, np.uint32 if tensor.type == "F32" else np.uint16

    def read() -> npt.NDArray[np.uint8]:
        turned = tensor.data.view(word).reshape(groups, inputs, tensor.columns).swapaxes(1, 2)
        return np.ascontiguousarray(turned).reshape(-1, inputs).view(np.uint8)

    return Tensor(tensor.name, tensor.type, groups * tensor.columns, inputs, read)


def stacked(name: str, tensors: Sequence[Tensor]) -> Tensor:
    """One tensor after the other: [sum of their rows, columns]; all of one type and shape."""
    first = tensors[0]
    for tensor in tensors:
        if (tensor.type, tensor.rows, tensor.columns) != (first.type, first.rows, first.columns):
            raise ValueError(
                f"the tensor {tensor.name!r} is {tensor.type} [{tensor.rows}, {tensor.columns}], "
                f"expected {first.type} [{first.rows}, {first.columns}] as {first.name!r}"
            )
    size = row_bytes(first.type, first.columns)

    def read() -> npt.NDArray[np.uint8]:
        joined = np.empty((len(tensors), first.rows, size), np.uint8)
        for part, tensor in zip(joined, tensors, strict=True):
            part[:] = tensor.data
        return joined.reshape(-1, size)

    scales = tuple(scale for tensor in tensors for scale in tensor.scales)
    if scales and len(scales) != len(tensors):
        raise ValueError(f"the tensor {name!r} has {len(scales)} scales for {len(tensors)} parts")
    return Tensor(name, first.type, len(tensors) * first.rows, first.columns, read, scales)
