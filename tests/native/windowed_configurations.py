"""The configurations of random tiny models of windowed_files.py."""

from typing import Any

from .configuration_parts import (
    FFN,
    GRANITE,
    IRREGULAR,
    LLAMA3,
    MIXTRAL,
    YARN,
    attention,
    by_kind,
    plain,
    rope,
    routing,
)

EXAONE = {
    "intermediate_size": 100,
    "num_experts": 7,
    "num_experts_per_tok": 3,
    "num_shared_experts": 1,
    "moe_intermediate_size": 36,
    "first_k_dense_replace": 1,
}
MUSE = {"output_multiplier": 1.5}
LAGUNA = routing(6, 2, 36, 48) | {"intermediate_size": 100}


def partly(full: dict[str, Any], turning: float) -> dict[str, Any]:
    """The share of a head that turns where attention is full; all of it turns where layers slide, by another base."""
    both = full["rope_parameters"]
    whole = both["full_attention"] | {"partial_rotary_factor": turning}
    local = {"rope_type": "default", "rope_theta": 2e4, "partial_rotary_factor": 1.0}
    return full | {"rope_parameters": {"full_attention": whole, "sliding_attention": local}}


WINDOWED: dict[str, dict[str, Any]] = {
    "apertus-ratio2": plain(64, 4, 2, 3) | rope(5e5, **LLAMA3) | FFN,
    "apertus-odd-tied": plain(66, 3, 1, 2, True) | rope(1e4) | {"intermediate_size": 75},
    "exaone_moe-ratio2": attention(64, 4, 2, 24, 5) | rope(1e6) | EXAONE | {"sliding_window": 11, "n_group": 1},
    "exaone_moe-irregular-groups": attention(72, 6, 1, 12, 4, True)
    | rope()
    | EXAONE
    | {"sliding_window": 7, "layer_types": IRREGULAR, "num_experts": 12, "n_group": 3, "topk_group": 2}
    | {"num_shared_experts": 2, "first_k_dense_replace": 2, "norm_topk_prob": False},
    "granite_swa-ratio2-tied": plain(64, 4, 2, 5, True) | rope(1e4) | FFN | GRANITE | {"sliding_window": 11},
    "granite_swa-still": plain(72, 6, 1, 4)
    | rope(5e5)
    | FFN
    | GRANITE
    | {"sliding_window": 7, "layer_types": IRREGULAR, "layer_rope_theta": [0, 1e5, 1e5, 0]},
    "granitemoe_swa-ratio2-tied": plain(64, 4, 2, 5, True)
    | rope(1e4)
    | GRANITE
    | MIXTRAL
    | {"sliding_window": 11, "shared_intermediate_size": 48},
    "granitemoe_swa-alone": plain(72, 6, 1, 3) | rope(1e4) | GRANITE | MIXTRAL | {"sliding_window": 7},
    "laguna-varied-heads": attention(64, 4, 2, 24, 5)
    | partly(by_kind(5e5, 11, **YARN), 0.5)
    | LAGUNA
    | {"layer_types": [f"{kind}_attention" for kind in ("full", *["sliding"] * 3, "full")]}
    | {"num_attention_heads_per_layer": [4, 6, 6, 6, 4], "moe_routed_scaling_factor": 1.7},
    "laguna-odd-tied": attention(70, 3, 1, 20, 3, True)
    | partly(by_kind(1e4, 7), 0.4)
    | LAGUNA
    | {"layer_types": IRREGULAR[:3], "mlp_layer_types": ["dense", "dense", "sparse"]},
    "laguna-amplitude": attention(64, 4, 2, 24, 4)
    | partly(by_kind(5e5, 11, **YARN, attention_factor=1.0), 0.5)
    | LAGUNA
    | {"layer_types": IRREGULAR},
    "mellum-ratio2": attention(64, 4, 2, 24, 5)
    | by_kind(5e5, 11, **YARN, attention_factor=0.8)
    | routing(6, 2, 36)
    | {"layer_types": [f"{kind}_attention" for kind in (*["sliding"] * 3, "full", "sliding")]},
    "mellum-all-full-tied": attention(70, 3, 1, 20, 2, True)
    | by_kind(1e4, 7)
    | routing(5, 3, 19)
    | {"norm_topk_prob": False},
    "muse_glimmer-ratio2": attention(64, 4, 2, 24, 5) | rope(1e6) | FFN | MUSE | {"sliding_window": 11},
    "muse_glimmer-ratio8": attention(72, 8, 1, 12, 4)
    | rope()
    | FFN
    | {"sliding_window": 7, "final_logit_softcapping": 3.0, "qk_scale_factor": 1.7, "output_multiplier": 0.8},
}
