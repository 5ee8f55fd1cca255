"""The layer that drafts (multi-token prediction) of the tiny models whose families have one.

Its drafts are to be right often and not always. So the model's other layers add little to the stream, which makes the
next token mostly a matter of the last one, and the layer passes the embedding of that on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import tiny_latent

if TYPE_CHECKING:
    from tiny_weights import Weights

DRAFTING = ("qwen35", "qwen35moe", "qwen3next", "glm4moe", "deepseek2")
QUIET = 0.05  # of what layers add otherwise


def add_drafter(weights: Weights, routed: bool) -> None:
    chosen, block = weights.chosen, f"blk.{weights.chosen.layers}"
    weights.norm(f"{block}.attn_norm.weight", chosen.width)
    if chosen.architecture == "deepseek2":
        tiny_latent.add_attention(weights, block)
    else:
        weights.attention(block, weights.chosen.heads)
    after = "ffn" if chosen.architecture == "deepseek2" else "post_attention"
    weights.norm(f"{block}.{after}_norm.weight", chosen.width)
    if routed:
        weights.experts(block)
    else:
        weights.feed_forward(block, chosen.ffn)
    name = f"{block}.nextn.eh_proj.weight"
    noise = weights.normal(name, chosen.width, chosen.width) * np.float32(0.1 / np.sqrt(chosen.width))
    weights.values(name, np.concatenate([np.eye(chosen.width, dtype=np.float32), noise], axis=1))
    for norm in ("enorm", "hnorm", "shared_head_norm"):
        weights.norm(f"{block}.nextn.{norm}.weight", chosen.width)
