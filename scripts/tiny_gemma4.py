"""What the tiny models of Gemma 4 have beyond those of the earlier ones: layers that differ, keys and values that are
borrowed, inputs of the tokens themselves, and experts beside a feed-forward part."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import gguf
import numpy as np
from gemma4_keys import Gemma4, add_gemma4_keys, divisors

if TYPE_CHECKING:
    from tiny_weights import Weights

GEMMA_4 = ("gemma4", "gemma4-moe")


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
    layers = range(chosen.layers)
    model = Gemma4(
        sliding=[slides(chosen, layer) for layer in layers],
        kv_heads=[heads(chosen, layer)[0] for layer in layers],
        widths=[ffn(chosen, layer) for layer in layers],
        head_size=chosen.head_size,
        local_head_size=chosen.local_head_size or chosen.head_size,
        window=chosen.window,
        borrowing=chosen.borrowing,
        token_inputs=chosen.token_inputs,
        final_softcap=chosen.final_softcap,
    )
    add_gemma4_keys(writer, model)


def add_outer(weights: Weights) -> None:
    chosen = weights.chosen
    weights.vector("rope_freqs.weight", divisors(chosen.head_size))
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
    weights.vector(f"{block}.layer_output_scale.weight", np.array([(0.8, 1.25)[layer % 2]], np.float32))
