"""Converts NVFP4 to ggml's layout: 4-bit floats (E2M1), a scale (UE4M3) for every 16, a float32 for the tensor.

ggml's block is 64 weights in 36 bytes: 4 scales, then for each sub-block of 16 weights 8 bytes, byte j having element j
in its low half and element j + 8 in its high half. Everybody else has elements 2j and 2j + 1 in a byte. The float32
has no place in a block: it is in Tensor.scales, one for the tensor or one for each expert.

ModelOpt stores `weight`, `weight_scale` and the factor `weight_scale_2`; compressed-tensors `weight_packed`,
`weight_scale` and the divisor `weight_global_scale`. A GGUF file has the factors in `NAME.scale`; ds4's files use the
same type number for blocks of 256 in another layout, recognizable by name alone: NAME.nvfp4_weight.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite

import numpy as np

from .model_file import Bytes, ModelUnreadable, Tensor, row_bytes
from .safetensors_file import Stored

NVFP4 = "NVFP4"
SIGN, NOT_A_NUMBER = 0x80, 0x7F
# of quantized activations and caches
UNUSED = (".input_scale", "activation_scale", ".input_global_scale", ".k_scale", ".v_scale")


def blocks(pairs: Bytes, scales: Bytes) -> Bytes:
    """ggml's blocks [rows, columns / 64 * 36] of pairs [rows, columns / 2] and scales [rows, columns / 16]."""
    rows = len(pairs)
    low, high = pairs & 15, pairs >> 4
    elements = np.stack([low, high], axis=-1).reshape(rows, -1, 4, 16)  # [rows, blocks, sub-blocks, elements]
    packed = elements[..., :8] | elements[..., 8:] << 4
    return np.concatenate([scales.reshape(rows, -1, 4), packed.reshape(rows, -1, 32)], axis=-1).reshape(rows, -1)


def stored_tensors(found: Mapping[str, Stored]) -> Iterator[tuple[Tensor, tuple[str, ...]]]:
    """The NVFP4 matrices of a safetensors folder, named NAME.weight, each with the names that it is made of."""
    for name, weights in found.items():
        stem, _, part = name.rpartition(".")
        if weights.dtype != "U8" or part not in ("weight", "weight_packed"):
            continue
        scales = _companion(found, name, f"{stem}.weight_scale", "F8_E4M3")
        factor_name = f"{stem}.weight_scale_2" if part == "weight" else f"{stem}.weight_global_scale"
        factor = _companion(found, name, factor_name, "F32")
        columns = weights.columns * 2
        if scales.shape != (weights.rows, columns // 16) or columns % 64:
            raise ValueError(
                f"the tensor {name!r} is {list(weights.shape)} and its scales {list(scales.shape)}, "
                "expected [rows, n / 2] and [rows, n / 16] with n a multiple of 64"
            )
        numbers = factor.raw.view(np.float32)
        if numbers.size != 1:
            raise ValueError(f"the tensor {factor_name!r} has {numbers.size} numbers, expected one")
        number = _factors(factor_name, numbers.tolist())[0]
        scale = number if part == "weight" else float(np.float32(1) / np.float32(number))
        yield _tensor(f"{stem}.weight", weights, scales, scale), (name, f"{stem}.weight_scale", factor_name)


def merged(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors of a GGUF file, NVFP4 factors moved to Tensor.scales and ds4's blocks converted to ggml's."""
    found = {tensor.name: tensor for tensor in tensors}
    used: set[str] = set()
    result = []
    for tensor in tensors:
        stem, _, part = tensor.name.rpartition(".")
        if tensor.type != NVFP4:
            if part in ("nvfp4_weight", "nvfp4_scale_2") and _unpaired(found, stem):
                raise ValueError(f"the tensor {tensor.name!r} is {tensor.type}, expected a pair with NVFP4 weights")
            result.append(tensor)
            continue
        if part == "nvfp4_weight":
            names = [f"{stem}.nvfp4_scale_2"]
            tensor = _from_ds4(tensor, f"{stem}.weight")
        else:
            names = [f"{stem}.scale", f"{tensor.name}.scale"]
            tensor = _checked(tensor)
        companions = [found[name] for name in names if name in found]
        if part == "nvfp4_weight" and not companions:
            raise ValueError(f"the tensor '{stem}.nvfp4_weight' has no {names[0]!r}")
        used |= {companion.name for companion in companions}
        used |= {f"{stem}.input_scale", f"{tensor.name}.input_scale"}
        scales = _merged_scales(tensor, companions[0]) if companions else ()
        result.append(Tensor(tensor.name, NVFP4, tensor.rows, tensor.columns, tensor.source, scales))
    return [tensor for tensor in result if tensor.name not in used]


def _unpaired(found: Mapping[str, Tensor], stem: str) -> bool:
    weights = found.get(f"{stem}.nvfp4_weight")
    return weights is None or weights.type != NVFP4


def _merged_scales(tensor: Tensor, companion: Tensor) -> tuple[float, ...]:
    """One factor for the tensor, or one for each expert."""
    if companion.type != "F32" or companion.rows != 1 or tensor.rows % companion.columns:
        raise ValueError(
            f"the tensor {companion.name!r} is {companion.type} [{companion.rows}, {companion.columns}], expected F32 "
            f"factors of {tensor.rows} rows"
        )
    return tuple(_factors(companion.name, companion.data.reshape(-1).view(np.float32).tolist()))


def _tensor(name: str, weights: Stored, scales: Stored, factor: float) -> Tensor:
    rows, columns = weights.rows, weights.columns * 2

    def read() -> Bytes:
        _check_scales(name, scales.raw)
        return blocks(weights.raw.reshape(rows, -1), scales.raw.reshape(rows, -1))

    return Tensor(name, NVFP4, rows, columns, read, (factor,))


def _from_ds4(tensor: Tensor, name: str) -> Tensor:
    """Blocks of 256 weights in 144 bytes: 128 of pairs, then 16 scales."""
    if tensor.columns % 256:
        raise ValueError(f"the tensor {tensor.name!r} has {tensor.columns} columns, expected a multiple of 256")

    def read() -> Bytes:
        source = tensor.data.reshape(-1, 144)
        _check_scales(name, source[:, 128:])
        return blocks(source[:, :128], source[:, 128:]).reshape(tensor.rows, -1)

    return Tensor(name, NVFP4, tensor.rows, tensor.columns, read)


def _checked(tensor: Tensor) -> Tensor:
    """ggml's own blocks; the scales are checked when the tensor is read."""

    def read() -> Bytes:
        data = tensor.data
        if (data.reshape(-1, 36)[:, :4] & SIGN).any():
            raise _bad_scale(tensor.name)
        return data

    row_bytes(NVFP4, tensor.columns)
    return Tensor(tensor.name, NVFP4, tensor.rows, tensor.columns, read)


def _check_scales(name: str, scales: Bytes) -> None:
    if (scales >= NOT_A_NUMBER).any():
        raise _bad_scale(name)


def _bad_scale(name: str) -> ModelUnreadable:
    return ModelUnreadable(f"cannot use the model: the tensor {name!r} has a scale that is negative or no number")


def _companion(found: Mapping[str, Stored], name: str, companion: str, dtype: str) -> Stored:
    other = found.get(companion)
    if other is None or other.dtype != dtype:
        given = "missing" if other is None else other.dtype
        raise ValueError(f"the tensor {companion!r} of {name!r} is {given}, expected {dtype}")
    return other


def _factors(name: str, numbers: Sequence[float]) -> Sequence[float]:
    if not all(isfinite(number) and number > 0 for number in numbers):
        raise ValueError(f"the tensor {name!r} holds a factor that is no number above 0")
    return numbers
