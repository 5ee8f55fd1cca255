"""What the tiny models with state spaces (Mamba-2) have in their recurrent layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tiny_weights import Weights

STATE_SPACES = ("granitehybrid", "granitehybrid-moe")  # layers without kv heads are state spaces


def add_state_space(weights: Weights, block: str) -> None:
    """A layer whose state decays to about nine tenths from one position to the next."""
    chosen = weights.chosen
    heads, inner = chosen.value_heads, chosen.value_heads * chosen.value_size
    channels = inner + 2 * chosen.key_heads * chosen.key_size
    weights.matrix(f"{block}.ssm_in.weight", inner + channels + heads, chosen.width, 1.5)
    weights.matrix(f"{block}.ssm_conv1d.weight", channels, chosen.conv_kernel, 1.5, "F32")
    weights.bias(f"{block}.ssm_conv1d.bias", channels)
    weights.vector(f"{block}.ssm_a", -np.exp(weights.normal(f"{block}.ssm_a", heads, 1) - 2))
    weights.vector(f"{block}.ssm_d", 1 + weights.normal(f"{block}.ssm_d", heads, 1))
    weights.bias(f"{block}.ssm_dt.bias", heads)
    groups = weights.normal(f"{block}.ssm_norm.weight", chosen.key_heads, inner // chosen.key_heads)
    weights.vector(f"{block}.ssm_norm.weight", 1 + np.float32(0.1) * groups)
    weights.matrix(f"{block}.ssm_out.weight", chosen.width, inner, weights.outgoing)
