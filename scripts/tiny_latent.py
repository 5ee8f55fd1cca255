"""What the tiny models of latent attention have in place of other models' attention."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import gguf
import numpy as np

if TYPE_CHECKING:
    from tiny_weights import Weights


def add_metadata(writer: gguf.GGUFWriter, chosen: argparse.Namespace) -> None:
    writer.add_feed_forward_length(chosen.ffn)
    writer.add_head_count_kv(1)
    writer.add_key_length(chosen.latent + chosen.rope_size)
    writer.add_value_length(chosen.latent)
    writer.add_key_length_mla(chosen.latent_keys + chosen.rope_size)
    writer.add_value_length_mla(chosen.latent_values)
    writer.add_kv_lora_rank(chosen.latent)
    writer.add_expert_shared_count(chosen.shared_ffn // chosen.expert_ffn)
    writer.add_expert_group_count(chosen.expert_groups)
    writer.add_expert_group_used_count(chosen.groups_used)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if chosen.query_rank:
        writer.add_q_lora_rank(chosen.query_rank)


def add_attention(weights: Weights, block: str) -> None:
    chosen = weights.chosen
    queries = chosen.heads * (chosen.latent_keys + chosen.rope_size)
    if chosen.query_rank:
        weights.matrix(f"{block}.attn_q_a.weight", chosen.query_rank, chosen.width, 1.0)
        weights.norm(f"{block}.attn_q_a_norm.weight", chosen.query_rank)
        weights.matrix(f"{block}.attn_q_b.weight", queries, chosen.query_rank, 1.5)
    else:
        weights.matrix(f"{block}.attn_q.weight", queries, chosen.width, 1.5)
    weights.matrix(f"{block}.attn_kv_a_mqa.weight", chosen.latent + chosen.rope_size, chosen.width, 1.5)
    weights.norm(f"{block}.attn_kv_a_norm.weight", chosen.latent)
    keys = np.sqrt(chosen.latent_keys / chosen.latent)  # of which each head's have as many as the latent values
    weights.matrix(f"{block}.attn_k_b.weight", chosen.latent, chosen.latent_keys, 1.5 * keys, experts=chosen.heads)
    weights.matrix(f"{block}.attn_v_b.weight", chosen.latent_values, chosen.latent, 1.0, experts=chosen.heads)
    outputs = chosen.heads * chosen.latent_values
    weights.matrix(f"{block}.attn_output.weight", chosen.width, outputs, weights.outgoing)
