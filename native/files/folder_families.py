"""The GGUF names of Hugging Face's families, and which keys of config.json they read.

What a family is made of is in native/families.py and family_bases.py.
"""

from collections.abc import Mapping

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
    "apertus": "apertus",
    "arcee": "arcee",
    "granite": "granite",
    "granitemoe": "granitemoe",
    "granitemoeshared": "granitemoe",
    "granitemoehybrid": "granitehybrid",
    "granite_swa": "granite_swa",
    "granitemoe_swa": "granite_swa",
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
    "exaone_moe": "exaone-moe",
    "laguna": "laguna",
    "mellum": "mellum",
    "muse_glimmer": "muse-glimmer",  # of a model that can also see: what decodes text
    "muse_glimmer_text": "muse-glimmer",
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
WIDE_EXPERTS = (
    *("mixtral", "minimax_m2", "olmoe", "gpt_oss"),
    *("granitemoe", "granitemoeshared", "granitemoehybrid", "granitemoe_swa"),
)
# Families that may rotate a part of each head.
PARTIAL = ("phi3", "laguna", "minimax-m2", "glm4", "glm4moe", "gemma4", "qwen35", "qwen35moe", "qwen3next")
# Model types whose window needs no use_sliding_window, and those whose first max_window_layers layers have none.
WINDOWED = (
    *(
        "mistral",
        "mixtral",
        "ministral3",
        "phi3",
        "olmo3",
        "exaone4",
        "exaone_moe",
        "granite_swa",
        "granitemoe_swa",
        "laguna",
        "mellum",
        "muse_glimmer",
        "muse_glimmer_text",
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
ALL_FULL = ("laguna", "mellum")  # model types whose window counts for no layer if all are full
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
    "mellum": {"num_local_experts": "num_experts"},
    "laguna": {"moe_routed_scaling_factor": "routed_scaling_factor"},
    "muse_glimmer": {"output_multiplier": "logit_scale"},
    "muse_glimmer_text": {"output_multiplier": "logit_scale"},
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
# Keys that change the maths (folder_unused.py) and that a family reads.
OWN: Mapping[str, tuple[str, ...]] = {
    "gemma2": SOFTCAPS,
    "gemma3": SOFTCAPS,
    "gemma4": ("final_logit_softcapping",),
    "granite": tuple(MULTIPLIERS),
    "granitemoe": tuple(MULTIPLIERS),
    "granitehybrid": tuple(MULTIPLIERS),
    "granite_swa": tuple(MULTIPLIERS),
    "glm4moe": ("norm_topk_prob", "routed_scaling_factor", DRAFTING),
    "nemotron_h_moe": ("norm_topk_prob", "routed_scaling_factor", DRAFTING),
    "dots1": ("norm_topk_prob", "routed_scaling_factor"),
    "afmoe": ("routed_scaling_factor",),
    "exaone-moe": ("norm_topk_prob", "routed_scaling_factor"),
    "laguna": ("routed_scaling_factor",),
    "mellum": ("norm_topk_prob",),
    "muse-glimmer": ("final_logit_softcapping",),
    "deepseek2": ("norm_topk_prob", "routed_scaling_factor", DRAFTING),
    "mistral4": ("norm_topk_prob", "routed_scaling_factor"),
    "lfm2moe": ("norm_topk_prob", "routed_scaling_factor"),
    "olmoe": ("norm_topk_prob",),
    "qwen2moe": ("norm_topk_prob",),
    "qwen3moe": ("norm_topk_prob",),
    "qwen3next": ("norm_topk_prob",),
}
