"""The sizes of a model against one another and against what the cores can hold."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from .shape import ModelShape

if TYPE_CHECKING:
    from ._cpu import Shape

MOST = 2**31 - 1  # sizes and their products are 32 bits wide in the C++ core
MOST_WINDOW = MOST - 64  # a page beyond it is counted too
MOST_KEYS = 256  # of a recurrent head, and the taps of its convolution; both in native/cpu/bounds.h
MOST_TAPS = 16
MOST_GROUPS = 32  # of experts: one for each lane of a GPU's warp
SPLIT, MOST_APART = 512, 64  # positions of a split of attention; with more columns a device does not keep splits apart
BLOCK = 32  # inputs of a product to a scale
ID_BYTES = FLOAT_BYTES = 4


def held_bytes(shape: Shape, slots: int, states: int, replay: int) -> int:
    """What a core holds beside weights and pages: the tables of rotation; for each slot its ids, two recurrent states
    and the updates of `replay` tokens; the kept states."""
    turning = shape.rope_size
    if not {"sliding", "unrotated"}.isdisjoint(shape.kinds):
        turning += shape.local_rope_size or shape.rope_size
    tables = shape.context * turning * FLOAT_BYTES
    recurrent = (2 * slots + states) * shape.state_bytes + slots * replay * shape.update_bytes
    return tables + slots * shape.context * ID_BYTES + recurrent


def latent_room(shape: Shape, columns: int) -> int:
    """What latent attention takes on a device for steps of `columns` tokens, approximate: its heads read and give far
    more than others, and some are kept apart until they are merged."""
    if not shape.latent:
        return 0
    of_token = 2 * (shape.head_size + shape.latent) + shape.latent_keys + shape.rope_size + shape.latent_values
    splits = 1 << (max(1, shape.context // SPLIT) - 1).bit_length()
    apart = min(columns, MOST_APART) * splits * (shape.latent + 2)
    return shape.heads * (columns * of_token + apart) * FLOAT_BYTES


def check_sizes(shape: ModelShape) -> None:
    """Raises ValueError naming what is wrong."""
    if shape.vocab < 1:
        raise ValueError("it has no vocabulary (neither a vocab_size nor tokenizer.ggml.tokens)")
    for field in fields(shape):
        size = getattr(shape, field.name)
        if isinstance(size, int) and size > MOST and field.name != "layers":  # those are counted by their tensors
            raise ValueError(f"its {field.name.replace('_', ' ')} is {size}, expected at most {MOST}")
    if shape.window > MOST_WINDOW:
        raise ValueError(f"its window is {shape.window}, expected at most {MOST_WINDOW}")
    for heads, kv_heads, head_size, rope_size, _ in (shape.heads_of("attention"), shape.heads_of("sliding")):
        if heads % kv_heads:
            raise ValueError(f"its {heads} heads are no multiple of its {kv_heads} key/value heads")
        if rope_size % 2 or rope_size > head_size:
            raise ValueError(f"its rope size {rope_size} is odd or above its head size {head_size}")
    if shape.borrowing_layers >= shape.layers:
        raise ValueError(
            f"{shape.borrowing_layers} of its layers borrow keys and values, expected less than its {shape.layers}"
        )
    for name in ("latent", "latent_keys", "latent_values"):
        if (size := getattr(shape, name)) % BLOCK:
            raise ValueError(f"its {name.replace('_', ' ')} are {size}, expected a multiple of {BLOCK}")
    if shape.token_inputs % BLOCK:
        raise ValueError(f"its layers take {shape.token_inputs} values of a token, expected a multiple of {BLOCK}")
    if shape.experts_used > shape.experts:
        raise ValueError(f"it uses {shape.experts_used} of its {shape.experts} experts")
    if shape.experts % shape.expert_groups or not 1 <= shape.groups_used <= shape.expert_groups <= MOST_GROUPS:
        raise ValueError(
            f"it chooses {shape.groups_used} of {shape.expert_groups} groups of its {shape.experts} experts, expected "
            f"at most {MOST_GROUPS} of one size"
        )
    if shape.experts_used * shape.expert_groups > shape.experts * shape.groups_used:
        raise ValueError(f"it uses {shape.experts_used} experts of {shape.groups_used} groups, which have fewer")
    if shape.dense_layers and shape.dense_layers >= shape.layers:
        raise ValueError(f"it has {shape.dense_layers} layers without experts, expected less than its {shape.layers}")
    if shape.key_heads and shape.value_heads % shape.key_heads:
        raise ValueError(f"its {shape.value_heads} value heads are no multiple of its {shape.key_heads} key heads")
    if shape.key_size > MOST_KEYS:
        raise ValueError(f"its recurrent heads have {shape.key_size} keys, expected at most {MOST_KEYS}")
    if shape.conv_kernel > MOST_TAPS:
        raise ValueError(f"its convolution has {shape.conv_kernel} taps, expected at most {MOST_TAPS}")
    rows = {
        "heads": 2 * max(shape.heads, shape.local_heads) * max(shape.head_size, shape.local_head_size),
        "heads of latent attention": shape.heads
        * max(shape.latent, shape.latent_keys + shape.rope_size, shape.latent_values),
        "token inputs": shape.layers * shape.token_inputs,
        "experts": shape.experts * max(shape.expert_ffn, shape.width),
        "gated convolutions": 3 * shape.width if shape.gated_convolution else 0,
        "recurrent heads": 2 * shape.key_heads * shape.key_size + shape.value_heads * shape.value_size,
    }
    for name, count in rows.items():
        if count > MOST:
            raise ValueError(f"its {name} have {count} rows, expected at most {MOST}")
