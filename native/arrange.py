"""Tensors in the one form that the reference and the cores read, whatever form a file has them in.

Rows of a matrix are moved as the bytes they are, whatever the type of the weights. What has the form already is passed
on, memory-mapped; so nothing changes when it is arranged twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from .files.rearrange import as_float32, renamed, take_rows
from .shape import ModelShape
from .weights import Tensor

Indexes = npt.NDArray[np.int64]
ROUTED = ".ffn_down_exps.weight"
BRANCHES = (".attn_output.weight", ".ffn_down.weight", ".ffn_down_shexp.weight", ROUTED)  # added to the residual stream


def arranged(shape: ModelShape, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors, with those that files fuse split into their parts."""
    return [part for tensor in tensors for part in _parts(shape, tensor)]


def computed_with(shape: ModelShape, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors of a file, arranged, and with a scale where the model scales what they give."""
    return [_scaled(shape, tensor) for tensor in arranged(shape, tensors)]


def embedding_scale(shape: ModelShape) -> float:
    """What the embedding is multiplied by; a tied one is scaled as the head already."""
    return shape.embedding_scale / (shape.logit_scale if shape.tied else 1.0)


def _scaled(shape: ModelShape, tensor: Tensor) -> Tensor:
    factor = 1.0
    if tensor.name == ("token_embd.weight" if shape.tied else "output.weight"):
        factor = shape.logit_scale
    elif tensor.name.endswith(BRANCHES):
        factor = shape.residual_scale * (shape.expert_scale if tensor.name.endswith(ROUTED) else 1.0)
    if factor == 1:
        return tensor
    scales = tuple(scale * factor for scale in tensor.scales or (1.0,))
    return Tensor(tensor.name, tensor.type, tensor.rows, tensor.columns, tensor.source, scales)


def _parts(shape: ModelShape, tensor: Tensor) -> Iterator[Tensor]:
    *before, name = tensor.name.split(".", 2)
    block = ".".join(before)
    ratio = shape.value_heads // shape.key_heads if shape.key_heads else 0
    queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    match name:
        case "ffn_gate_inp.weight" if tensor.type in ("F16", "BF16"):
            yield as_float32(tensor)
        case "attn_qkv.weight" if not ratio:
            sizes = [queries, keys, keys]
            for part, rows in zip("qkv", _taken_apart(tensor, 1, sizes), strict=True):
                yield _joined(tensor, f"{block}.attn_{part}.weight", [rows])
        case "ffn_up.weight" if tensor.rows == 2 * shape.ffn:
            for part, rows in zip(("gate", "up"), _taken_apart(tensor, 1, [shape.ffn] * 2), strict=True):
                yield _joined(tensor, f"{block}.ffn_{part}.weight", [rows])
        case "ssm_a.weight":
            yield renamed(tensor, f"{block}.ssm_a")
        case "ffn_gate_up_exps.weight":
            gate, up = _taken_apart(tensor, shape.experts, [shape.expert_ffn] * 2)
            yield _joined(tensor, f"{block}.ffn_gate_exps.weight", [gate])
            yield _joined(tensor, f"{block}.ffn_up_exps.weight", [up])
        case "ssm_in.weight" if ratio:
            values = ratio * shape.value_size
            query, key, value, gate = _taken_apart(tensor, shape.key_heads, [shape.key_size] * 2 + [values] * 2)
            yield _joined(tensor, f"{block}.attn_qkv.weight", [query, key, value])
            yield _joined(tensor, f"{block}.attn_gate.weight", [gate])
        case "ssm_ba.weight" if ratio:
            beta, alpha = _taken_apart(tensor, shape.key_heads, [ratio] * 2)
            yield _joined(tensor, f"{block}.ssm_beta.weight", [beta])
            yield _joined(tensor, f"{block}.ssm_alpha.weight", [alpha])
        case _:
            yield tensor


def _taken_apart(tensor: Tensor, groups: int, sizes: list[int]) -> list[Indexes]:
    """The row indexes of the parts of a tensor of `groups` times sum(`sizes`) rows: each [groups, size of the part]."""
    rows = groups * sum(sizes)
    if tensor.rows != rows:
        raise ValueError(
            f"the tensor {tensor.name!r} is [{tensor.rows}, {tensor.columns}], expected [{rows}, {tensor.columns}]"
        )
    return np.split(np.arange(rows).reshape(groups, -1), np.cumsum(sizes)[:-1], axis=1)


def _joined(tensor: Tensor, name: str, parts: list[Indexes]) -> Tensor:
    """The parts stacked by rows, each with all of its groups."""
    return renamed(take_rows(tensor, np.concatenate([part.ravel() for part in parts])), name)
