"""Keys of config.json that change the maths in ways that no GGUF key can say, with the values that do not."""

from collections.abc import Mapping
from math import inf
from typing import Any

# An absent or null key does not either.
UNUSED: Mapping[str, tuple[Any, ...]] = {
    "attn_logit_softcapping": (),
    "final_logit_softcapping": (),
    "use_bidirectional_attention": (False,),
    "mlp_only_layers": ([],),
    "decoder_sparse_step": (1,),
    "norm_topk_prob": (True,),
    "qkv_bias": (True,),
    "swiglu_alpha": (1.702,),
    "swiglu_limit": (7.0,),
    "no_rope_layer_interval": (4,),
    "embedding_multiplier": (1,),
    "residual_multiplier": (1,),
    "logits_scaling": (1,),
    "attention_multiplier": (),
    "routed_scaling_factor": (1,),
}
# Those of routing in the manner of DeepSeek, which chooses experts by their sigmoids.
DEEP_SEEK_KEYS: Mapping[str, tuple[Any, ...]] = {
    "scoring_func": ("sigmoid", "noaux_tc"),
    "topk_method": ("noaux_tc",),
    "moe_layer_freq": (1,),
}
STATE_SPACE_KEYS: Mapping[str, tuple[Any, ...]] = {
    "attention_bias": (False,),
    "mamba_proj_bias": (False,),
    "time_step_limit": ([0, inf], [0, {"__float__": "Infinity"}]),  # the second is how transformers writes it
}
HUNYUAN_KEYS: Mapping[str, tuple[Any, ...]] = {
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "use_qk_norm": (True,),
    "use_cla": (False,),
    "norm_type": ("rms",),
}
NEMOTRON_KEYS: Mapping[str, tuple[Any, ...]] = {
    **STATE_SPACE_KEYS,
    "mlp_bias": (False,),
    "mlp_hidden_act": ("relu2",),
    "mamba_hidden_act": ("silu",),
    "moe_latent_size": (),
    "use_bias": (False,),
    "use_conv_bias": (True,),
}
COMMAND_R_KEYS: Mapping[str, tuple[Any, ...]] = {
    "attention_bias": (False,),
    "use_qk_norm": (False,),
    "use_parallel_block": (True,),
    "use_gated_activation": (True,),
    "rotary_pct": (1,),
    "position_embedding_type": ("rope_gptj",),
    "order_of_interleaved_layers": ("local_attn_first",),
}
# More such keys of single families: in others they are not read, or may have other values.
UNUSED_BY_FAMILY: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "arcee": {"attention_bias": (False,), "mlp_bias": (False,)},
    "command-r": COMMAND_R_KEYS,
    "cohere2": COMMAND_R_KEYS,
    "hunyuan-dense": HUNYUAN_KEYS,
    "hunyuan-moe": HUNYUAN_KEYS,
    "glm4moe": DEEP_SEEK_KEYS,
    "dots1": {**DEEP_SEEK_KEYS, "attention_bias": (False,)},
    "afmoe": {
        "attention_bias": (False,),
        "mup_enabled": (True,),
        "score_func": ("sigmoid",),
        "route_norm": (True,),
        **dict.fromkeys(("n_group", "topk_group", "num_expert_groups", "num_limited_groups"), (1,)),
    },
    "deepseek2": {"moe_layer_freq": (1,), "attention_bias": (False,)},
    "mistral4": {"n_group": (1,), "attention_bias": (False,)},
    "ernie4_5": {"use_bias": (False,)},
    "ernie4_5-moe": {"use_bias": (False,), "moe_layer_interval": (1,), "moe_norm_min": (1e-12,)},
    "lfm2": {"conv_bias": (False,)},
    "lfm2moe": {"conv_bias": (False,)},
    "minimax-m2": {
        "scoring_func": ("sigmoid",),
        "use_qk_norm": (True,),
        "qk_norm_type": ("per_layer",),
        "shared_intermediate_size": (0,),
    },
    "apertus": {"attention_bias": (False,)},
    "exaone-moe": DEEP_SEEK_KEYS,
    "mellum": {"attention_bias": (False,), "first_k_dense_replace": (0,)},
    "laguna": {
        "attention_bias": (False,),
        "gating": (True, "per-head"),
        "moe_apply_router_weight_on_input": (False,),
        "moe_router_logit_softcapping": (0,),
    },
    "muse-glimmer": {"attention_bias": (False,), "post_norm_eps": (1e-8,), "hidden_activation": ("silu",)},
    "olmo2": {"attention_bias": (False,), "clip_qkv": ()},
    "olmoe": {"attention_bias": (False,), "clip_qkv": ()},
    "gemma4": {"attention_bias": (False,), "use_bidirectional_attention": (False, "vision")},
    "granitemoe": {"attention_bias": (False,), "position_embedding_type": ("rope",)},
    "granite_swa": {"attention_bias": (False,), "position_embedding_type": ("rope",)},
    "granitehybrid": {
        **STATE_SPACE_KEYS,
        "mamba_conv_bias": (True,),
        "position_embedding_type": ("rope", "nope"),
    },
    "nemotron_h": NEMOTRON_KEYS,
    "nemotron_h_moe": NEMOTRON_KEYS,
}
# Keys that say whether tensors are there, with the GGUF part of one of them.
ANNOUNCED: Mapping[str, Mapping[str, str]] = {
    "glm4": {"attention_bias": "attn_q.bias"},
    "glm4moe": {"attention_bias": "attn_q.bias", "use_qk_norm": "attn_q_norm.weight"},
}
