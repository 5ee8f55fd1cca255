"""What the tiny models with state spaces (Mamba-2) have in their recurrent layers."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import gguf
import numpy as np

if TYPE_CHECKING:
    from tiny_weights import Weights

UNGATED = ("apertus", "arcee", "nemotron_h", "nemotron_h_moe")  # feed-forward parts have no gate
ONE_BRANCH = ("nemotron_h", "nemotron_h_moe")  # layers are state spaces, feed forward or attend, in turn
STATE_SPACES = ("granitehybrid", "granitehybrid-moe", *ONE_BRANCH)  # layers without kv heads are state spaces


def add_one_branch_keys(writer: gguf.GGUFWriter, chosen: argparse.Namespace) -> None:
    layers = range(chosen.layers)
    writer.add_head_count_kv([chosen.kv_heads * (layer % 3 == 2) for layer in layers])
    width = chosen.expert_ffn if chosen.architecture == "nemotron_h_moe" else chosen.ffn
    writer.add_feed_forward_length([width * (layer % 3 == 1) for layer in layers])
    writer.add_key_length(chosen.head_size)
    writer.add_value_length(chosen.head_size)


def add_one_branch(weights: Weights, layer: int) -> None:
    block = f"blk.{layer}"
    weights.norm(f"{block}.attn_norm.weight", weights.chosen.width)
    if layer % 3 == 0:
        add_state_space(weights, block)
    elif layer % 3 == 2:
        weights.attention(block, weights.chosen.heads)
    elif weights.chosen.architecture == "nemotron_h_moe":
        weights.experts(block)
    else:
        weights.feed_forward(block, weights.chosen.ffn)


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
