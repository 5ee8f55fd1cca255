"""LFM2 in a Hugging Face folder: layers that attend, and gated short convolutions."""

from collections.abc import Mapping
from typing import Any

from .folder_keys import ConfigKeys
from .folder_layers import FULL
from .folder_parts import Parts, float32, same

CONVOLUTION = "conv"  # of layer_types
RENAMED = {"norm_eps": "rms_norm_eps", "block_ff_dim": "intermediate_size", "tie_embedding": "tie_word_embeddings"}


def with_usual_names(values: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Under the keys that other families have; of two that mean the same, LFM2's own counts, as in transformers."""
    renamed = dict(values)
    for own, usual in RENAMED.items():
        if own in renamed:
            renamed[usual] = renamed.pop(own)
    if kind == "lfm2":
        renamed["intermediate_size"] = _ffn_width(ConfigKeys(renamed))
    full = renamed.get("full_attn_idxs")
    if renamed.get("layer_types") is None and isinstance(full, list):
        layers, attending = ConfigKeys(renamed).layers(), {layer for layer in full if type(layer) is int}
        renamed["layer_types"] = [FULL if layer in attending else CONVOLUTION for layer in range(layers)]
    return renamed


def _ffn_width(keys: ConfigKeys) -> int:
    """Two thirds of the width given, times a factor, rounded up to whole blocks, unless it is to be taken as it is."""
    width = keys.size("intermediate_size")
    if not keys.flag("block_auto_adjust_ff_dim", True):
        return width
    width = int(2 * width / 3)
    if "block_ffn_dim_multiplier" not in keys.values:
        return width
    block = keys.size("block_multiple_of")
    return -(-int(keys.number("block_ffn_dim_multiplier") * width) // block) * block


def lfm2_values(keys: ConfigKeys, layers: int, kv_heads: int) -> dict[str, Any]:
    kinds = keys.values.get("layer_types", [FULL] * layers)
    if not isinstance(kinds, list) or len(kinds) != layers or any(kind not in (FULL, CONVOLUTION) for kind in kinds):
        raise ValueError(
            f"the key 'layer_types' of config.json is {kinds!r}, expected {FULL!r} or {CONVOLUTION!r} for each of "
            f"{layers} layers"
        )
    return {
        "attention.head_count_kv": [kv_heads * (kind == FULL) for kind in kinds],
        "shortconv.l_cache": keys.size("conv_L_cache"),
    }


def lfm2_parts() -> Parts:
    return {
        "operator_norm.weight": (("attn_norm.weight", float32),),
        "ffn_norm.weight": (("ffn_norm.weight", float32),),
        "self_attn.q_proj.weight": (("attn_q.weight", same),),
        "self_attn.k_proj.weight": (("attn_k.weight", same),),
        "self_attn.v_proj.weight": (("attn_v.weight", same),),
        "self_attn.out_proj.weight": (("attn_output.weight", same),),
        "self_attn.q_layernorm.weight": (("attn_q_norm.weight", float32),),
        "self_attn.k_layernorm.weight": (("attn_k_norm.weight", float32),),
        "conv.in_proj.weight": (("shortconv.in_proj.weight", same),),
        "conv.conv.weight": (("shortconv.conv.weight", float32),),
        "conv.out_proj.weight": (("shortconv.out_proj.weight", same),),
        "feed_forward.w1.weight": (("ffn_gate.weight", same),),
        "feed_forward.w3.weight": (("ffn_up.weight", same),),
        "feed_forward.w2.weight": (("ffn_down.weight", same),),
    }
