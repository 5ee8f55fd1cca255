"""Tensors in the one form that the reference and the cores read, whatever form a file has them in.

Rows of a matrix are moved as the bytes they are, whatever the type of the weights. What has the form already is passed
on, memory-mapped; so nothing changes when it is arranged twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import sqrt

import numpy as np
import numpy.typing as npt

from .files.model_file import Bytes
from .files.rearrange import Floats, as_float32, floats, renamed, shaped, stacked, take_rows
from .shape import ModelShape
from .tensors import is_vector
from .weights import Tensor

Indexes = npt.NDArray[np.int64]
ROUTED = ".ffn_down_exps.weight"
EXPERT_SCALES = "_exps.scale"
MOST_DIGITS = 10  # of a layer's number
HEAD_KEYS = ".attn_k_b.weight"
QUERIES, GATES = ".attn_q.weight", ".attn_gate.weight"
# What is scaled by the sizes: a router's inputs; the product of the embedding, before its norm; and the inputs that
# layers take of a token, (normed product + table row times the root of token_inputs) over the root of 2.
ROUTER_NORM = ".ffn_gate_inp_norm.weight"
TOKEN_TABLE, TOKEN_PRODUCT, TOKEN_NORM = (
    "per_layer_token_embd.weight",
    "per_layer_model_proj.weight",
    "per_layer_proj_norm.weight",
)
CURVE = ".ffn_xielu.weight"
EMBEDDING_NORM, FINAL_NORM = "token_embd_norm.weight", "output_norm.weight"  # LFM2's files call the latter the former
# What is added to the residual stream.
BRANCHES = (".attn_output.weight", ".ssm_out.weight", ".ffn_down.weight", ".ffn_down_shexp.weight", ROUTED)


def arranged(shape: ModelShape, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors, with those that files fuse split into their parts, and with weights of one for norms without any."""
    tensors = _with_expert_scales(shape, tensors) if shape.expert_norms else tensors
    tensors = _with_gates(shape, tensors) if shape.gated_attention else tensors
    unused = _unused(shape)
    if shape.gated_convolution:
        tensors = [renamed(each, FINAL_NORM) if each.name == EMBEDDING_NORM else each for each in tensors]
    found = [part for tensor in tensors for part in _parts(shape, tensor) if part.name not in unused]
    return [*found, *_plain_norms(shape, {tensor.name for tensor in found}), *_curves(shape, found)]


def computed_with(shape: ModelShape, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors of a file, arranged, and with a scale where the model scales what they give."""
    return [_scaled(shape, tensor) for tensor in arranged(shape, tensors)]


def embedding_scale(shape: ModelShape) -> float:
    """What the embedding is multiplied by; a tied one is scaled as the head already."""
    return shape.embedding_scale / (shape.logit_scale if shape.tied else 1.0)


def _scaled(shape: ModelShape, tensor: Tensor) -> Tensor:
    factor = _factor(shape, tensor.name)
    if factor == 1:
        return tensor
    if is_vector(tensor.name):
        return as_float32(tensor, lambda values: _times(values, factor))
    scales = tuple(scale * factor for scale in tensor.scales or (1.0,))
    return Tensor(tensor.name, tensor.type, tensor.rows, tensor.columns, tensor.source, scales)


def _times(values: Floats, factor: float) -> Floats:
    with np.errstate(all="ignore"):  # what is damaged stays so
        scaled: Floats = values * np.float32(factor)
    return scaled


def _factor(shape: ModelShape, name: str) -> float:
    if name == ("token_embd.weight" if shape.tied else "output.weight"):
        return shape.logit_scale
    if name.endswith(HEAD_KEYS):
        return shape.query_scale  # what turns of a query is scaled by the cores
    if name == TOKEN_TABLE:
        return sqrt(shape.token_inputs / 2)
    if name == TOKEN_NORM:
        return sqrt(1 / 2)
    if name == TOKEN_PRODUCT or name.endswith(ROUTER_NORM):
        return 1 / sqrt(shape.width)
    if name.endswith(BRANCHES):
        return shape.residual_scale * (shape.expert_scale if name.endswith(ROUTED) else 1.0)
    return 1.0


def _with_expert_scales(shape: ModelShape, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The factors of experts [1, experts] with the matrices that they are of."""
    factors = {tensor.name: _expert_scales(shape, tensor) for tensor in tensors if tensor.name.endswith(EXPERT_SCALES)}
    return [_scaled_by(tensor, factors) for tensor in tensors if tensor.name not in factors]


def _expert_scales(shape: ModelShape, tensor: Tensor) -> Floats:
    if (tensor.type, tensor.rows, tensor.columns) != ("F32", 1, shape.experts):
        raise ValueError(
            f"the tensor {tensor.name!r} is {tensor.type} [{tensor.rows}, {tensor.columns}], expected F32 "
            f"[1, {shape.experts}]"
        )
    factors: Floats = floats(tensor)[0]
    if not np.isfinite(factors).all():
        raise ValueError(f"the tensor {tensor.name!r} holds a factor that is no finite number")
    return factors


def _scaled_by(tensor: Tensor, factors: Mapping[str, Floats]) -> Tensor:
    own = factors.get(f"{tensor.name.removesuffix('.weight')}.scale")
    if own is None:
        return tensor
    scales = own * np.array(tensor.scales or (1.0,), np.float32)  # its own: one, or one of each expert
    return Tensor(tensor.name, tensor.type, tensor.rows, tensor.columns, tensor.source, tuple(scales.tolist()))


def _with_gates(shape: ModelShape, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Where a file has a layer's gates apart from its queries: both in one, of each head first its queries."""
    queries = {tensor.name: tensor for tensor in tensors if tensor.name.endswith(QUERIES)}
    gates = {tensor.name.removesuffix(GATES) + QUERIES: tensor for tensor in tensors if tensor.name.endswith(GATES)}
    joined = {name: _gated(shape, queries[name], gate) for name, gate in gates.items() if name in queries}
    apart = {id(gates[name]) for name in joined}  # one that is there twice stays, and is refused
    return [joined.get(tensor.name, tensor) for tensor in tensors if id(tensor) not in apart]


def _gated(shape: ModelShape, queries: Tensor, gates: Tensor) -> Tensor:
    heads, size = shape.heads, shape.head_size
    [rows] = _taken_apart(queries, heads, [size])
    both = np.concatenate([rows, rows + heads * size], axis=1)  # [heads, 2 * size]
    if queries.scales != gates.scales:
        raise ValueError(f"the tensor {gates.name!r} has another scale than {queries.name!r}, expected the same")
    matrices = [replace(each, scales=()) for each in (queries, gates)]
    return replace(_joined(stacked(queries.name, matrices), queries.name, [both]), scales=queries.scales)


def _unused(shape: ModelShape) -> set[str]:
    """Keys and values of layers that borrow others': files may have them."""
    borrowing = range(max(0, len(shape.kinds) - shape.borrowing_layers), len(shape.kinds))
    parts = ("attn_k.weight", "attn_v.weight", "attn_k_norm.weight")
    return {f"blk.{layer}.{part}" for layer in borrowing for part in parts}


def _plain_norms(shape: ModelShape, found: Collection[str]) -> Iterator[Tensor]:
    """Norms of embeddings and values have no weights: they are all one."""
    if shape.embedding_norm and EMBEDDING_NORM not in found:
        yield Tensor(EMBEDDING_NORM, "F32", 1, shape.width, partial(_ones, shape.width))
    for layer, kind in enumerate(shape.kinds if shape.value_norm else ()):
        name, size = f"blk.{layer}.attn_v_norm.weight", shape.heads_of(kind).head_size
        if name not in found and shape.keeper_of(layer) == layer:
            yield Tensor(name, "F32", 1, size, partial(_ones, size))


def _curves(shape: ModelShape, found: Sequence[Tensor]) -> Iterator[Tensor]:
    """The constants of activations, which files have as keys."""
    if any(tensor.name.endswith(CURVE) for tensor in found):
        return
    for layer, curve in enumerate(shape.curves):
        yield Tensor(f"blk.{layer}{CURVE}", "F32", 1, 3, np.array([curve], np.float32).view(np.uint8))


def _ones(size: int) -> Bytes:
    return np.ones((1, size), np.float32).view(np.uint8)


def _parts(shape: ModelShape, tensor: Tensor) -> Iterator[Tensor]:
    *before, name = tensor.name.split(".", 2)
    block = ".".join(before)
    ratio = shape.value_heads // shape.key_heads if shape.key_heads else 0
    layer = _layer(shape, before)
    match name:
        case "ffn_gate_inp.scale":
            yield renamed(tensor, f"{block}{ROUTER_NORM}")
        case "ffn_gate.weight" | "ffn_up.weight" | "ffn_down.weight" if shape.expert_norms:
            yield renamed(tensor, f"{block}.{name.removesuffix('.weight')}_shexp.weight")
        case "ffn_gate_inp.weight" if tensor.type in ("F16", "BF16"):
            yield as_float32(tensor)
        case "attn_qkv.weight" if not ratio:
            heads, kv_heads, head_size, *_ = shape.heads_of(shape.kinds[layer])
            sizes = [heads * head_size, kv_heads * head_size, kv_heads * head_size]
            for part, rows in zip("qkv", _taken_apart(tensor, 1, sizes), strict=True):
                yield _joined(tensor, f"{block}.attn_{part}.weight", [rows])
        case "ffn_up.weight" if tensor.rows == 2 * (ffn := shape.ffn_of(layer)):
            for part, rows in zip(("gate", "up"), _taken_apart(tensor, 1, [ffn] * 2), strict=True):
                yield _joined(tensor, f"{block}.ffn_{part}.weight", [rows])
        case "ffn_up_shexp.weight" if tensor.rows == 2 * shape.shared_ffn:
            for part, rows in zip(("gate", "up"), _taken_apart(tensor, 1, [shape.shared_ffn] * 2), strict=True):
                yield _joined(tensor, f"{block}.ffn_{part}_shexp.weight", [rows])
        case "ssm_a.weight":
            yield renamed(tensor, f"{block}.ssm_a")
        case "ffn_gate_up_exps.weight":
            gate, up = _taken_apart(tensor, shape.experts, [shape.expert_ffn] * 2)
            yield _joined(tensor, f"{block}.ffn_gate_exps.weight", [gate])
            yield _joined(tensor, f"{block}.ffn_up_exps.weight", [up])
        case "ssm_a" | "ssm_d" | "ssm_norm.weight" if shape.state_space:  # whichever way the numbers lie
            yield shaped(tensor, 1, tensor.rows * tensor.columns)
        case "ssm_in.weight" if shape.state_space:
            inner, of_keys = shape.value_heads * shape.value_size, shape.key_heads * shape.key_size
            gate, mixed, steps = _taken_apart(tensor, 1, [inner, inner + 2 * of_keys, shape.value_heads])
            yield _joined(tensor, f"{block}.attn_gate.weight", [gate])
            yield _joined(tensor, f"{block}.attn_qkv.weight", [mixed])
            yield _joined(tensor, f"{block}.ssm_alpha.weight", [steps])
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


def _layer(shape: ModelShape, before: Sequence[str]) -> int:
    """Of a name's parts before the last; 0 where there is no such layer, whose tensor will be refused."""
    number = before[1] if len(before) == 2 else ""
    known = number.isascii() and number.isdecimal() and len(number) < MOST_DIGITS and int(number) < len(shape.kinds)
    return int(number) if known else 0


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
