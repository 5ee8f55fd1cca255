"""The parts of a recurrent layer (gated DeltaNet) by their GGUF names, and the order of their value heads.

Value heads share key heads. A folder has them grouped: value head h reads key head h // (value heads / key heads).
Qwen 3.5's GGUF files have them tiled: value head h reads key head h modulo the number of key heads. Qwen3-Next's stay
grouped, but the folder has its projections fused key head by key head, and they are taken apart.
"""

from collections.abc import Callable

import numpy as np

from .folder_parts import Change, Parts, float32
from .folder_sizes import Sizes
from .model_file import Tensor
from .rearrange import Indexes, as_float32, move_columns, shaped, take_rows


def recurrent_parts(tiled: bool) -> Parts:
    """`tiled`: Qwen 3.5; otherwise Qwen3-Next."""

    def heads(size: Callable[[Sizes], int]) -> Change:
        return lambda tensor, sizes: take_rows(tensor, _spread(_order(sizes, tiled), size(sizes)))

    def vector(tensor: Tensor, sizes: Sizes) -> Tensor:
        return as_float32(
            shaped(heads(lambda sizes: 1)(shaped(tensor, sizes.value_heads, 1), sizes), 1, sizes.value_heads)
        )

    def decay(tensor: Tensor, sizes: Sizes) -> Tensor:
        return as_float32(vector(tensor, sizes), lambda values: -np.exp(values))

    def with_keys(tensor: Tensor, sizes: Sizes) -> Tensor:
        """Rows of queries, keys and values, of which only the values move."""
        before = 2 * sizes.key_heads * sizes.key_size
        return take_rows(
            tensor, np.concatenate([np.arange(before), before + _spread(_order(sizes, tiled), sizes.value_size)])
        )

    def channels(tensor: Tensor, sizes: Sizes) -> Tensor:
        return as_float32(with_keys(tensor, sizes))

    def columns(tensor: Tensor, sizes: Sizes) -> Tensor:
        return move_columns(tensor, _order(sizes, tiled), sizes.value_size) if tiled else tensor

    parts: dict[str, tuple[tuple[str, Change], ...]] = {
        "linear_attn.A_log": (("ssm_a", decay),),
        "linear_attn.dt_bias": (("ssm_dt.bias", vector),),
        "linear_attn.conv1d.weight": (("ssm_conv1d.weight", channels),),
        "linear_attn.norm.weight": (("ssm_norm.weight", float32),),
        "linear_attn.out_proj.weight": (("ssm_out.weight", columns),),
    }
    if tiled:
        parts |= {
            "linear_attn.in_proj_qkv.weight": (("attn_qkv.weight", with_keys),),
            "linear_attn.in_proj_z.weight": (("attn_gate.weight", heads(lambda sizes: sizes.value_size)),),
            "linear_attn.in_proj_b.weight": (("ssm_beta.weight", heads(lambda sizes: 1)),),
            "linear_attn.in_proj_a.weight": (("ssm_alpha.weight", heads(lambda sizes: 1)),),
        }
    else:
        parts |= {
            "linear_attn.in_proj_qkvz.weight": (("attn_qkv.weight", _fused_qkv), ("attn_gate.weight", _fused_gate)),
            "linear_attn.in_proj_ba.weight": (("ssm_beta.weight", _fused_beta), ("ssm_alpha.weight", _fused_alpha)),
        }
    return parts


def _order(sizes: Sizes, tiled: bool) -> Indexes:
    """The value heads in the order wanted: [value heads]."""
    order = np.arange(sizes.value_heads)
    return order.reshape(sizes.key_heads, -1).T.ravel() if tiled else order


def _spread(order: Indexes, size: int) -> Indexes:
    """Each head's `size` rows, heads in the given order."""
    return (order[:, None] * size + np.arange(size)).ravel()


def _fused_qkv(tensor: Tensor, sizes: Sizes) -> Tensor:
    return take_rows(tensor, np.concatenate(_fused(sizes)[:3]))


def _fused_gate(tensor: Tensor, sizes: Sizes) -> Tensor:
    return take_rows(tensor, _fused(sizes)[3])


def _fused(sizes: Sizes) -> list[Indexes]:
    """Rows of queries, keys, values and gates in a projection that goes key head by key head, all four in each."""
    values = sizes.value_heads // sizes.key_heads * sizes.value_size
    ends = np.cumsum([sizes.key_size, sizes.key_size, values, values])
    rows = np.arange(sizes.key_heads * int(ends[-1])).reshape(sizes.key_heads, -1)
    return [part.ravel() for part in np.split(rows, ends[:-1], axis=1)]


def _fused_beta(tensor: Tensor, sizes: Sizes) -> Tensor:
    return take_rows(tensor, _fused_scalars(sizes)[:, 0].ravel())


def _fused_alpha(tensor: Tensor, sizes: Sizes) -> Tensor:
    return take_rows(tensor, _fused_scalars(sizes)[:, 1].ravel())


def _fused_scalars(sizes: Sizes) -> Indexes:
    return np.arange(2 * sizes.value_heads).reshape(sizes.key_heads, 2, -1)
