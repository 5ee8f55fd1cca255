"""Latent attention in a Hugging Face folder: DeepSeek's, GLM 4.7 Flash's, Mistral Small 4's."""

from collections.abc import Mapping
from dataclasses import replace
from math import isclose
from typing import Any

import numpy as np

from .folder_keys import ConfigKeys
from .folder_parts import Parts, float32, same
from .folder_rope import Rope
from .folder_sizes import Sizes
from .model_file import Tensor
from .rearrange import Indexes, take_rows, transposed

SIGMOIDS = ("deepseek_v3", "glm4_moe_lite")  # model types whose experts are weighed by sigmoids
TURNING = "qk_rope_head_dim"
DENSE, SPARSE = "dense", "sparse"  # of mlp_layer_types


def latent_values(keys: ConfigKeys, kind: str, rope: Rope) -> dict[str, Any]:
    latent, turning = keys.size("kv_lora_rank"), keys.size(TURNING)
    values: dict[str, Any] = {
        "attention.head_count_kv": 1,
        "attention.kv_lora_rank": latent,
        "attention.q_lora_rank": keys.size("q_lora_rank") if "q_lora_rank" in keys.values else 0,
        "attention.key_length": latent + turning,
        "attention.value_length": latent,
        "attention.key_length_mla": keys.size("qk_nope_head_dim") + turning,
        "attention.value_length_mla": keys.size("v_head_dim"),
        "expert_gating_func": _gating(keys, kind),
    }
    if rope.kind == "yarn" and rope.growth:
        values["rope.scaling.yarn_log_multiplier"] = 0.1 * rope.growth
    return values


def _gating(keys: ConfigKeys, kind: str) -> int:
    """1: softmax, 2: sigmoid. A model type has one of them, and its ways to choose."""
    sigmoid = kind in SIGMOIDS
    for key, known in (
        ("scoring_func", ("sigmoid", "noaux_tc") if sigmoid else ("softmax",)),
        ("topk_method", ("noaux_tc",) if sigmoid else ("greedy", "group_limited_greedy")),
    ):
        if (given := keys.values.get(key)) is not None and given not in known:
            raise ValueError(f"the key {key!r} of config.json is {given!r}, expected {' or '.join(map(repr, known))}")
    return 2 if sigmoid else 1


def without_share(rope: Rope, keys: ConfigKeys) -> Rope:
    """Mistral 4 also says which share of a head turns; of the part that turns it is all of it."""
    turning = keys.size(TURNING)
    share = turning / (turning + keys.size("qk_nope_head_dim"))
    return replace(rope, partial=1.0) if isclose(rope.partial, share, rel_tol=1e-6) else rope


def rope_layout(keys: ConfigKeys, kind: str) -> str:
    """DeepSeek V2 always rotates pairs."""
    pairs = kind == "deepseek_v2" or keys.flag("rope_interleave", True)
    return "pairs" if pairs else "halves"


def dense_layers(kinds: Any, layers: int) -> int:
    """From mlp_layer_types [layers]: how many layers before all others have no experts."""
    if not isinstance(kinds, list) or len(kinds) != layers:
        raise ValueError(f"the key 'mlp_layer_types' of config.json is {kinds!r}, expected a list of {layers}")
    count = next((layer for layer, kind in enumerate(kinds) if kind != DENSE), layers)
    if any(kind != SPARSE for kind in kinds[count:]):
        raise ValueError(
            f"the key 'mlp_layer_types' of config.json is {kinds!r}, expected {DENSE!r} for the first layers and "
            f"{SPARSE!r} for all others"
        )
    return count


def latent_parts(keys: int, values: int) -> Parts:
    """`keys` and `values`: of each head, in kv_b_proj one below the other."""

    def head_keys(tensor: Tensor, sizes: Sizes) -> Tensor:
        return transposed(take_rows(tensor, _rows(sizes.heads, keys, values)[:, :keys].ravel()), sizes.heads)

    def head_values(tensor: Tensor, sizes: Sizes) -> Tensor:
        return take_rows(tensor, _rows(sizes.heads, keys, values)[:, keys:].ravel())

    return {
        "self_attn.q_a_proj.weight": (("attn_q_a.weight", same),),
        "self_attn.q_a_layernorm.weight": (("attn_q_a_norm.weight", float32),),
        "self_attn.q_b_proj.weight": (("attn_q_b.weight", same),),
        "self_attn.kv_a_proj_with_mqa.weight": (("attn_kv_a_mqa.weight", same),),
        "self_attn.kv_a_layernorm.weight": (("attn_kv_a_norm.weight", float32),),
        "self_attn.kv_b_proj.weight": (("attn_k_b.weight", head_keys), ("attn_v_b.weight", head_values)),
    }


def _rows(heads: int, keys: int, values: int) -> Indexes:
    return np.arange(heads * (keys + values)).reshape(heads, -1)


def with_dense_layers(values: Mapping[str, Any]) -> dict[str, Any]:
    """What transformers writes in place of first_k_dense_replace, as that."""
    kinds, layers = values.get("mlp_layer_types"), values.get("num_hidden_layers")
    if kinds is None or type(layers) is not int:
        return dict(values)
    return {**values, "first_k_dense_replace": dense_layers(kinds, layers)}
