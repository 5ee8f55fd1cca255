"""What the tiny models of Gemma 4 have beyond those of the earlier ones: layers that differ, keys and values that are
borrowed, inputs of the tokens themselves, and experts beside a feed-forward part."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import gguf
import numpy as np

if TYPE_CHECKING:
    from tiny_weights import Weights

GEMMA_4 = ("gemma4", "gemma4-moe")
TURNING = 0.25  # the share of a head of full attention that turns
STILL = 1e30  # what divides the frequency of the rest


def slides(chosen: argparse.Namespace, layer: int) -> bool:
    return (layer + 1) % chosen.interval != 0


def borrows(chosen: argparse.Namespace, layer: int) -> bool:
    return layer >= chosen.layers - chosen.borrowing


def ffn(chosen: argparse.Namespace, layer: int) -> int:
    """Layers that borrow are twice as wide."""
    return chosen.ffn * (2 if borrows(chosen, layer) else 1)


def heads(chosen: argparse.Namespace, layer: int) -> tuple[int, int]:
    """Key/value heads, and the size of each."""
    if slides(chosen, layer):
        return chosen.local_kv_heads or chosen.kv_heads, chosen.local_head_size or chosen.head_size
    return chosen.kv_heads, chosen.head_size


def add_metadata(writer: gguf.GGUFWriter, chosen: argparse.Namespace) -> None:
    layers, local_size = range(chosen.layers), chosen.local_head_size or chosen.head_size
    writer.add_key_length(chosen.head_size)
    writer.add_value_length(chosen.head_size)
    writer.add_uint32("gemma4.attention.key_length_swa", local_size)
    writer.add_uint32("gemma4.attention.value_length_swa", local_size)
    writer.add_uint32("gemma4.rope.dimension_count_swa", local_size)
    writer.add_uint32("gemma4.attention.shared_kv_layers", chosen.borrowing)
    writer.add_uint32("gemma4.embedding_length_per_layer_input", chosen.token_inputs)
    writer.add_head_count_kv([heads(chosen, layer)[0] for layer in layers])
    writer.add_feed_forward_length([ffn(chosen, layer) for layer in layers])
    writer.add_sliding_window(chosen.window)
    writer.add_sliding_window_pattern([slides(chosen, layer) for layer in layers])
    if chosen.final_softcap:
        writer.add_final_logit_softcapping(chosen.final_softcap)


def add_outer(weights: Weights) -> None:
    chosen = weights.chosen
    turning = int(chosen.head_size * TURNING / 2)
    still = chosen.head_size // 2 - turning
    weights.vector("rope_freqs.weight", np.array([1.0] * turning + [STILL] * still, np.float32))
    if all_inputs := chosen.layers * chosen.token_inputs:
        weights.matrix("per_layer_token_embd.weight", chosen.vocab, all_inputs, np.sqrt(chosen.layers))
        weights.matrix("per_layer_model_proj.weight", all_inputs, chosen.width, 1.0)
        weights.norm("per_layer_proj_norm.weight", chosen.token_inputs)


def add_attention(weights: Weights, layer: int) -> None:
    chosen, block = weights.chosen, f"blk.{layer}"
    kv_heads, size = heads(chosen, layer)
    weights.matrix(f"{block}.attn_q.weight", chosen.heads * size, chosen.width, 1.5)
    weights.norm(f"{block}.attn_q_norm.weight", size, 0.5)
    if not borrows(chosen, layer):
        weights.matrix(f"{block}.attn_k.weight", kv_heads * size, chosen.width, 1.5)
        weights.norm(f"{block}.attn_k_norm.weight", size, 0.5)
        if chosen.architecture == "gemma4" or slides(chosen, layer):
            weights.matrix(f"{block}.attn_v.weight", kv_heads * size, chosen.width, 1.0)
    weights.matrix(f"{block}.attn_output.weight", chosen.width, chosen.heads * size, weights.outgoing)


def add_rest(weights: Weights, layer: int) -> None:
    """All after attention."""
    chosen, block = weights.chosen, f"blk.{layer}"
    weights.feed_forward(block, ffn(chosen, layer))
    if chosen.architecture == "gemma4-moe":
        weights.experts(block)
        for name in ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"):
            weights.norm(f"{block}.{name}.weight", chosen.width)
        weights.norm(f"{block}.ffn_gate_inp.scale", chosen.width, np.sqrt(chosen.width))
        weights.norm(f"{block}.ffn_down_exps.scale", chosen.experts)
    if chosen.token_inputs:
        weights.matrix(f"{block}.inp_gate.weight", chosen.token_inputs, chosen.width, 0.1)
        weights.matrix(f"{block}.proj.weight", chosen.width, chosen.token_inputs, weights.outgoing)
        weights.norm(f"{block}.post_norm.weight", chosen.width, 2 * weights.outgoing)
    weights.vector(f"{block}.layer_output_scale.weight", np.array([0.75 + 0.1 * layer], np.float32))
