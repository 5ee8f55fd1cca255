"""The GGUF names of Hugging Face's families, and values that config.json may have.

What a family is made of is in native/families.py and family_bases.py.
"""

from collections.abc import Mapping
from math import inf
from typing import Any

ARCHITECTURES: Mapping[str, str] = {
    "llama": "llama",
    "mistral": "llama",
    "mixtral": "llama",
    "ministral3": "mistral3",
    "mistral4": "mistral4",
    "seed_oss": "seed_oss",
    "phi3": "phi3",
    "glm4": "glm4",
    "glm4_moe": "glm4moe",
    "glm4_moe_lite": "deepseek2",
    "deepseek_v2": "deepseek2",
    "deepseek_v3": "deepseek2",
    "dots1": "dots1",
    "afmoe": "afmoe",
    "ernie4_5": "ernie4_5",
    "ernie4_5_moe": "ernie4_5-moe",
    "arcee": "arcee",
    "granite": "granite",
    "granitemoe": "granitemoe",
    "granitemoeshared": "granitemoe",
    "granitemoehybrid": "granitehybrid",
    "hunyuan_v1_dense": "hunyuan-dense",
    "hunyuan_v1_moe": "hunyuan-moe",
    "nemotron_h": "nemotron_h",
    "nemotron_h_moe": "nemotron_h_moe",  # no model_type of its own: it is called as GGUF calls it
    "smollm3": "smollm3",
    "lfm2": "lfm2",
    "lfm2_moe": "lfm2moe",
    "minimax_m2": "minimax-m2",
    "olmo2": "olmo2",
    "olmo3": "olmo2",
    "olmoe": "olmoe",
    "exaone4": "exaone4",
    "cohere": "command-r",
    "cohere2": "cohere2",
    "qwen2": "qwen2",
    "qwen2_vl": "qwen2",  # of models that can also see: what decodes text
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen2_moe": "qwen2moe",
    "qwen3": "qwen3",
    "qwen3_vl": "qwen3",
    "qwen3_vl_text": "qwen3",
    "qwen3_moe": "qwen3moe",
    "qwen3_vl_moe": "qwen3moe",
    "qwen3_vl_moe_text": "qwen3moe",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3": "gemma3",
    "gemma3_text": "gemma3",
    "gemma4": "gemma4",
    "gemma4_text": "gemma4",
    "gemma4_unified": "gemma4",
    "gemma4_unified_text": "gemma4",
    "gpt_oss": "gpt-oss",
    "qwen3_next": "qwen3next",
    "qwen3_5": "qwen35",
    "qwen3_5_text": "qwen35",
    "qwen3_5_moe": "qwen35moe",
    "qwen3_5_moe_text": "qwen35moe",
}
GEMMA_4 = tuple(kind for kind, architecture in ARCHITECTURES.items() if architecture == "gemma4")
# Model types whose experts are as wide as a feed-forward part.
WIDE_EXPERTS = ("mixtral", "minimax_m2", "olmoe", "gpt_oss", "granitemoe", "granitemoeshared", "granitemoehybrid")
# Families that may rotate a part of each head.
PARTIAL = ("phi3", "minimax-m2", "glm4", "glm4moe", "gemma4", "qwen35", "qwen35moe", "qwen3next")
# Model types whose window needs no use_sliding_window, and those whose first max_window_layers layers have none.
WINDOWED = (
    *(
        "mistral",
        "mixtral",
        "ministral3",
        "phi3",
        "olmo3",
        "exaone4",
        "cohere2",
        "afmoe",
        "gemma2",
        "gemma3",
        "gemma3_text",
        *GEMMA_4,
    ),
    *("gpt_oss", "dots1"),
)
QWEN_2_VL = ("qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text")  # tied if either part of config.json says so
NEVER_WINDOWED = ("llama", "olmo2")  # model types in which transformers reads no window
TEMPERED = ("ministral3", "mistral4")  # model types whose queries grow with their positions
FIRST_FULL = ("qwen2", "qwen3", "dots1", *QWEN_2_VL)
DRAFTING = "num_nextn_predict_layers"  # how many layers after the others draft tokens ahead
# Other names that transformers has for a key, by model type.
ALIASES: Mapping[str, Mapping[str, str]] = {
    "glm4_moe": {"num_local_experts": "n_routed_experts", "num_mtp_layers": DRAFTING},
    "glm4_moe_lite": {
        "num_local_experts": "n_routed_experts",
        "num_mtp_layers": DRAFTING,
        "head_dim": "qk_rope_head_dim",
    },
    "deepseek_v2": {"num_experts": "n_routed_experts"},
    "deepseek_v3": {"num_local_experts": "n_routed_experts", "num_mtp_layers": DRAFTING},
    "mistral4": {"num_local_experts": "n_routed_experts"},
    "dots1": {"num_local_experts": "n_routed_experts"},
    "olmoe": {"num_local_experts": "num_experts"},
    "afmoe": {"route_scale": "routed_scaling_factor", "global_attn_every_n_layers": "sliding_window_pattern"},
    "ernie4_5_moe": {"num_experts": "moe_num_experts", "num_experts_per_tok": "moe_k"},
    "hunyuan_v1_moe": {"num_local_experts": "num_experts", "num_experts_per_tok": "moe_topk"},
    "nemotron_h_moe": {"num_local_experts": "n_routed_experts"},
}

# The multipliers of Granite by GGUF key.
MULTIPLIERS = {
    "embedding_multiplier": "embedding_scale",
    "residual_multiplier": "residual_scale",
    "logits_scaling": "logit_scale",
    "attention_multiplier": "attention.scale",
}
SOFTCAPS = ("attn_logit_softcapping", "final_logit_softcapping")
# Keys that change the maths, with the values that do not; an absent or null key does not either.
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
    "olmo2": {"attention_bias": (False,), "clip_qkv": ()},
    "olmoe": {"attention_bias": (False,), "clip_qkv": ()},
    "gemma4": {"attention_bias": (False,), "use_bidirectional_attention": (False, "vision")},
    "granitemoe": {"attention_bias": (False,), "position_embedding_type": ("rope",)},
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
# Those that a family reads.
OWN: Mapping[str, tuple[str, ...]] = {
    "gemma2": SOFTCAPS,
    "gemma3": SOFTCAPS,
    "gemma4": ("final_logit_softcapping",),
    "granite": tuple(MULTIPLIERS),
    "granitemoe": tuple(MULTIPLIERS),
    "granitehybrid": tuple(MULTIPLIERS),
    "glm4moe": ("norm_topk_prob", "routed_scaling_factor", DRAFTING),
    "nemotron_h_moe": ("norm_topk_prob", "routed_scaling_factor", DRAFTING),
    "dots1": ("norm_topk_prob", "routed_scaling_factor"),
    "afmoe": ("routed_scaling_factor",),
    "deepseek2": ("norm_topk_prob", "routed_scaling_factor", DRAFTING),
    "mistral4": ("norm_topk_prob", "routed_scaling_factor"),
    "lfm2moe": ("norm_topk_prob", "routed_scaling_factor"),
    "olmoe": ("norm_topk_prob",),
    "qwen2moe": ("norm_topk_prob",),
    "qwen3moe": ("norm_topk_prob",),
    "qwen3next": ("norm_topk_prob",),
}
