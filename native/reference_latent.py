"""Latent attention of the reference, as it is defined: each head's keys and values are computed of the latent ones."""

from collections.abc import Mapping

import numpy as np

from .reference_math import Floats, root_mean_square_norm, rotate
from .shape import ModelShape

Weights = Mapping[str, Floats]


def read_queries(
    shape: ModelShape, weights: Weights, block: str, normed: Floats, turn: tuple[Floats, Floats]
) -> Floats:
    """Of normed [n, width], what turns of them last: [n, heads, latent_keys + rope_size]. turn: cosines and sines, each
    [n, 1, rope_size / 2]."""
    if shape.query_rank:
        ranked = normed @ weights[f"{block}.attn_q_a.weight"].T
        ranked = root_mean_square_norm(ranked, weights[f"{block}.attn_q_a_norm.weight"], shape.norm_epsilon)
        queries = ranked @ weights[f"{block}.attn_q_b.weight"].T
    else:
        queries = normed @ weights[f"{block}.attn_q.weight"].T
    queries = queries.reshape(len(normed), shape.heads, -1)
    still, turning = queries[..., : shape.latent_keys], queries[..., shape.latent_keys :]
    turned = rotate(turning, *turn, shape.rope_layout) * np.float32(shape.query_scale)  # the rest: by attn_k_b
    return np.concatenate([still, turned], axis=2)


def read_latents(
    shape: ModelShape, weights: Weights, block: str, normed: Floats, turn: tuple[Floats, Floats]
) -> Floats:
    """What is kept of normed [n, width]: the latent values, normed, and what turns: [n, 1, latent + rope_size]."""
    both = normed @ weights[f"{block}.attn_kv_a_mqa.weight"].T
    latent = root_mean_square_norm(
        both[:, : shape.latent], weights[f"{block}.attn_kv_a_norm.weight"], shape.norm_epsilon
    )
    turned = rotate(both[:, None, shape.latent :], *turn, shape.rope_layout)
    return np.concatenate([latent[:, None], turned], axis=2)


def expanded(shape: ModelShape, weights: Weights, block: str, kept: Floats) -> tuple[Floats, Floats]:
    """Of kept [length, latent + rope_size] each head's keys [heads, length, latent_keys + rope_size] and values [heads,
    length, latent_values]."""
    latent, turned = kept[:, : shape.latent], kept[:, shape.latent :]
    key_weights = weights[f"{block}.attn_k_b.weight"].reshape(shape.heads, shape.latent, -1)
    value_weights = weights[f"{block}.attn_v_b.weight"].reshape(shape.heads, -1, shape.latent)
    turning = np.broadcast_to(turned, (shape.heads, *turned.shape))
    keys = np.concatenate([latent @ key_weights, turning], axis=2)
    return keys, latent @ value_weights.swapaxes(1, 2)
