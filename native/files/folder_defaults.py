"""What transformers fills in where config.json is silent."""

from collections.abc import Mapping
from typing import Any

from .folder_defaults_routed import MISTRALS_YARN, ROUTED
from .folder_families import QWEN_2_VL

NEMOTRON: Mapping[str, Any] = {
    "intermediate_size": 21504,
    "num_key_value_heads": 8,
    "mamba_num_heads": 128,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "ssm_state_size": 128,
    "conv_kernel": 4,
}
# By architecture and by model type.
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    **ROUTED,
    "apertus": {
        "rms_norm_eps": 1e-5,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 1.2e7,
            "factor": 8.0,
            "original_max_position_embeddings": 8192,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
        },
    },
    "arcee": {"rms_norm_eps": 1e-5},
    "muse-glimmer": {
        "head_dim": 128,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "sliding_window": 2048,
        "final_logit_softcapping": 20.0,
        "qk_scale_factor": 3.87,
        "logit_scale": 0.19611613513818404,
    },
    "granite_swa": {"rms_norm_eps": 1e-5, "num_key_value_heads": 4, "sliding_window": 128, "tie_word_embeddings": True},
    "command-r": {"layer_norm_eps": 1e-5, "logit_scale": 0.0625, "rope_theta": 5e5},
    "cohere2": {"layer_norm_eps": 1e-5, "logit_scale": 0.0625, "sliding_window": 4096, "sliding_window_pattern": 4},
    "hunyuan-dense": {"rms_norm_eps": 1e-5},
    "granitehybrid": {
        "shared_intermediate_size": 1024,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "mamba_n_groups": 1,
        "mamba_n_heads": 128,
        "mamba_d_state": 256,
        "mamba_d_head": "auto",
        "mamba_d_conv": 4,
        "mamba_expand": 2,
    },
    "nemotron_h": NEMOTRON,
    "nemotron_h_moe": {
        **NEMOTRON,
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 7688,
        "moe_shared_expert_intermediate_size": 7688,
    },
    "seed_oss": {"head_dim": 128},
    "phi3": {"rms_norm_eps": 1e-5, "original_max_position_embeddings": 4096},
    "smollm3": {"rope_theta": 2e6},
    "glm4": {"head_dim": 128, "num_key_value_heads": 2, "rms_norm_eps": 1.5625e-7, "partial_rotary_factor": 0.5},
    "dots1": {
        "num_key_value_heads": 32,
        "norm_topk_prob": False,
        "sliding_window": 4096,
        "max_window_layers": 62,
    },
    "ernie4_5": {"head_dim": 128, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 5e5},
    "qwen2": {"max_window_layers": 28, "sliding_window": 4096},
    **{kind: {"rope_theta": 1e6, "rms_norm_eps": 1e-5, "max_window_layers": 80} for kind in QWEN_2_VL},
    "qwen3": {"head_dim": 128, "max_window_layers": 28, "sliding_window": 4096},
    "qwen3_vl": {"rope_theta": 5e5},
    "qwen3_vl_text": {"rope_theta": 5e5},
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
    "lfm2": {
        "rope_theta": 1e6,
        "norm_eps": 1e-5,
        "conv_L_cache": 3,
        "block_ffn_dim_multiplier": 1.0,
        "block_multiple_of": 256,
        "tie_word_embeddings": True,
        "num_key_value_heads": 8,
    },
    "minimax_m2": {"num_key_value_heads": 8, "head_dim": 128, "rope_theta": 5e6},
    "olmo2": {"rms_norm_eps": 1e-5},
    "olmo3": {"rope_theta": 5e5, "sliding_window": 4096},
    "exaone4": {"rms_norm_eps": 1e-5, "num_key_value_heads": 32, "sliding_window": 4096},
    "gemma": {"head_dim": 256},
    "gemma2": {
        "head_dim": 256,
        "query_pre_attn_scalar": 256,
        "sliding_window": 4096,
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
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
