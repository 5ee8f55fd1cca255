"""What transformers fills in where config.json is silent."""

from collections.abc import Mapping
from typing import Any

from .folder_families import QWEN_2_VL

MISTRALS_YARN = {"rope_type": "yarn", "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}
# By architecture and by model type.
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "seed_oss": {"head_dim": 128},
    "phi3": {"rms_norm_eps": 1e-5, "original_max_position_embeddings": 4096},
    "smollm3": {"rope_theta": 2e6},
    "glm4": {"head_dim": 128, "num_key_value_heads": 2, "rms_norm_eps": 1.5625e-7, "partial_rotary_factor": 0.5},
    "glm4moe": {
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-5,
        "partial_rotary_factor": 0.5,
        "first_k_dense_replace": 1,
        "n_shared_experts": 1,
    },
    "dots1": {
        "num_key_value_heads": 32,
        "norm_topk_prob": False,
        "sliding_window": 4096,
        "max_window_layers": 62,
    },
    "deepseek2": {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128},
    "deepseek_v2": {"n_shared_experts": 2, "norm_topk_prob": False, "q_lora_rank": 1536},
    "deepseek_v3": {
        "n_shared_experts": 1,
        "first_k_dense_replace": 3,
        "n_group": 8,
        "topk_group": 4,
        "routed_scaling_factor": 2.5,
        "q_lora_rank": 1536,
    },
    "glm4_moe_lite": {
        "rms_norm_eps": 1e-5,
        "q_lora_rank": 768,
        "routed_scaling_factor": 1.8,
        "qk_nope_head_dim": 192,
        "v_head_dim": 256,
        "n_shared_experts": 1,
        "first_k_dense_replace": 1,
    },
    "ernie4_5": {"head_dim": 128, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 5e5},
    "ernie4_5-moe": {
        "num_key_value_heads": 4,
        "rms_norm_eps": 1e-5,
        "rope_theta": 5e5,
        "moe_layer_start_index": 1,
        "moe_num_shared_experts": 2,
    },
    "qwen2": {"max_window_layers": 28, "sliding_window": 4096},
    **{kind: {"rope_theta": 1e6, "rms_norm_eps": 1e-5, "max_window_layers": 80} for kind in QWEN_2_VL},
    "qwen2moe": {"norm_topk_prob": False, "sliding_window": 4096},
    "qwen3": {"head_dim": 128, "max_window_layers": 28, "sliding_window": 4096},
    "qwen3_vl": {"rope_theta": 5e5},
    "qwen3_vl_text": {"rope_theta": 5e5},
    **{kind: {"rope_theta": 5e5, "norm_topk_prob": True} for kind in ("qwen3_vl_moe", "qwen3_vl_moe_text")},
    "qwen3moe": {"norm_topk_prob": False, "sliding_window": 4096},
    "mistral": {"sliding_window": 4096},
    "ministral3": {
        "num_key_value_heads": 8,
        "head_dim": 128,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {
            **MISTRALS_YARN,
            "rope_theta": 1e6,
            "factor": 16.0,
            "original_max_position_embeddings": 16384,
        },
    },
    "mistral4": {
        "kv_lora_rank": 256,
        "q_lora_rank": 1024,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 64,
        "v_head_dim": 128,
        "n_shared_experts": 1,
        "rope_parameters": {
            **MISTRALS_YARN,
            "rope_theta": 1e4,
            "factor": 128.0,
            "original_max_position_embeddings": 8192,
        },
    },
    "minimax_m2": {"num_key_value_heads": 8, "head_dim": 128, "rope_theta": 5e6},
    "olmo2": {"rms_norm_eps": 1e-5},
    "olmo3": {"rope_theta": 5e5, "sliding_window": 4096},
    "mixtral": {"rope_theta": 1e6, "rms_norm_eps": 1e-5},
    "gemma": {"head_dim": 256},
    "gemma2": {
        "head_dim": 256,
        "query_pre_attn_scalar": 256,
        "sliding_window": 4096,
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
    },
    **{
        name: {"partial_rotary_factor": 0.25, "full_attention_interval": 4}
        for name in ("qwen3next", "qwen35", "qwen35moe")
    },
    "gpt-oss": {
        "num_local_experts": 128,
        "vocab_size": 201088,
        "hidden_size": 2880,
        "intermediate_size": 2880,
        "head_dim": 64,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "num_hidden_layers": 36,
        "num_experts_per_tok": 4,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1.5e5,
        "sliding_window": 128,
        "rope_parameters": {
            "rope_type": "yarn",
            "factor": 32.0,
            "truncate": False,
            "original_max_position_embeddings": 4096,
        },
    },
    "gemma3": {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "rope_local_base_freq": 1e4,
        "query_pre_attn_scalar": 256,
        "sliding_window": 4096,
    },
    "gemma4": {
        "vocab_size": 262144,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 30,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-6,
        "sliding_window": 512,
        "hidden_size_per_layer_input": 256,
        "rope_parameters": {
            "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    },
    **{
        kind: {"max_position_embeddings": 262144, "sliding_window": 1024, "hidden_size_per_layer_input": 0}
        for kind in ("gemma4_unified", "gemma4_unified_text")
    },
}
