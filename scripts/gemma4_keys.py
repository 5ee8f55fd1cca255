"""The keys of a GGUF file that only Gemma 4 has, or has in another form, for the scripts that make models."""

from collections.abc import Sequence
from dataclasses import dataclass

import gguf
import numpy as np

TURNING = 0.25  # the share of a head of full attention that turns
STILL = 1e30  # what divides the frequency of the rest


@dataclass(frozen=True, slots=True)
class Gemma4:
    sliding: Sequence[bool]  # of each layer
    kv_heads: Sequence[int]  # of each layer
    widths: Sequence[int]  # of the feed-forward part of each layer
    head_size: int
    local_head_size: int
    window: int
    borrowing: int
    token_inputs: int
    final_softcap: float | None


def add_gemma4_keys(writer: gguf.GGUFWriter, model: Gemma4) -> None:
    writer.add_key_length(model.head_size)
    writer.add_value_length(model.head_size)
    for key in ("attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"):
        writer.add_uint32(f"gemma4.{key}", model.local_head_size)
    writer.add_uint32("gemma4.attention.shared_kv_layers", model.borrowing)
    writer.add_uint32("gemma4.embedding_length_per_layer_input", model.token_inputs)
    writer.add_head_count_kv(list(model.kv_heads))
    writer.add_feed_forward_length(list(model.widths))
    writer.add_sliding_window(model.window)
    writer.add_sliding_window_pattern(list(model.sliding))
    if model.final_softcap:
        writer.add_final_logit_softcapping(model.final_softcap)


def divisors(head_size: int) -> np.ndarray:
    """Of the frequencies of full attention, [head_size / 2]."""
    turning = int(head_size * TURNING / 2)
    return np.array([1.0] * turning + [STILL] * (head_size // 2 - turning), np.float32)
