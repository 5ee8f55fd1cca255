"""The configurations of random tiny models that the maths are held against transformers with."""

from typing import Any

from .configuration_parts import (
    AFMOE,
    ERNIE,
    FFN,
    GLM,
    GRANITE,
    HALF,
    LINEAR,
    LLAMA3,
    LONG,
    MIXTRAL,
    QUARTER,
    ROUTED_GRANITE,
    SINKS,
    TWO,
    YARN,
    attention,
    by_kind,
    convolved,
    gemma4,
    latent,
    local,
    nemotron,
    period,
    plain,
    recurrence,
    rope,
    routing,
    state_space,
    tempered,
)
from .windowed_configurations import WINDOWED

CONFIGS: dict[str, dict[str, Any]] = {
    "ratio1-untied": {"heads": 4, "kv_heads": 4, "width": 64, "ffn": 96, "tied": False},
    "ratio2-tied": {"heads": 4, "kv_heads": 2, "width": 64, "ffn": 100, "tied": True},
    "ratio4-odd": {"heads": 12, "kv_heads": 3, "width": 72, "ffn": 75, "tied": False},
    "ratio4-wide-heads": {"heads": 4, "kv_heads": 1, "width": 40, "ffn": 51, "head_size": 24, "tied": True},
    "ratio3-base": {"heads": 3, "kv_heads": 1, "width": 66, "ffn": 64, "tied": False, "rope_base": 5e5},
    "llama3-scaling": {
        "heads": 4,
        "kv_heads": 1,
        "width": 64,
        "ffn": 96,
        "tied": True,
        "rope_base": 5e5,
        "rope": LLAMA3,
    },
    "linear-scaling": {"heads": 4, "kv_heads": 2, "width": 64, "ffn": 96, "tied": False, "rope": LINEAR},
    "qwen2-ratio2": {"family": "qwen2", "heads": 4, "kv_heads": 2, "width": 64, "ffn": 100, "tied": True},
    "qwen2-ratio1-base": {
        "family": "qwen2",
        "heads": 3,
        "kv_heads": 3,
        "width": 66,
        "ffn": 75,
        "tied": False,
        "rope_base": 1e6,
    },
    "qwen2-ratio7": {"family": "qwen2", "heads": 7, "kv_heads": 1, "width": 84, "ffn": 51, "tied": True},
    "qwen3-ratio2": {
        "family": "qwen3",
        "heads": 4,
        "kv_heads": 2,
        "width": 64,
        "ffn": 96,
        "head_size": 24,
        "tied": False,
    },
    "qwen3-ratio4-base": {
        "family": "qwen3",
        "heads": 8,
        "kv_heads": 2,
        "width": 40,
        "ffn": 51,
        "head_size": 16,
        "tied": True,
        "rope_base": 1e6,
    },
    "yarn-scaling": {"heads": 4, "kv_heads": 2, "width": 64, "ffn": 96, "tied": False, "rope": YARN},
    "qwen3-yarn-beta": {
        "family": "qwen3",
        "heads": 4,
        "kv_heads": 2,
        "width": 64,
        "ffn": 96,
        "head_size": 24,
        "tied": True,
        "rope": YARN | {"beta_fast": 8.0, "beta_slow": 2.0},
    },
    "qwen3-ratio1": {
        "family": "qwen3",
        "heads": 3,
        "kv_heads": 3,
        "width": 72,
        "ffn": 100,
        "head_size": 12,
        "tied": True,
    },
}
PLAIN_DECODED = ["ratio2-tied", "llama3-scaling", "linear-scaling", "yarn-scaling", "qwen2-ratio7", "qwen3-ratio2"]


FAMILY_CONFIGS: dict[str, dict[str, Any]] = {
    "qwen3moe-ratio2": attention(64, 4, 2, 24, 3) | routing(8, 2, 36) | rope(1e6) | {"norm_topk_prob": True},
    "qwen3moe-odd-tied": attention(70, 3, 1, 12, 2, True) | routing(5, 3, 19) | rope() | {"norm_topk_prob": True},
    "qwen3moe-all-unnormalized": attention(40, 8, 2, 16, 3) | routing(4, 4, 51) | rope() | {"norm_topk_prob": False},
    "mixtral-ratio2": attention(64, 4, 2, 16, 3) | rope(1e6) | MIXTRAL,
    "mixtral-odd-tied-window": attention(72, 6, 1, 24, 2, True) | rope() | MIXTRAL | {"sliding_window": 9},
    "ministral3-ratio2": attention(64, 4, 2, 24, 3) | tempered(1e6, 0.3) | FFN,
    "ministral3-odd-tied-window": attention(72, 6, 1, 20, 2, True)
    | tempered(1e4, 0.5, mscale_all_dim=0.0)
    | FFN
    | {"sliding_window": 30},
    "qwen2moe-ratio2": attention(64, 4, 2, 16, 3) | routing(8, 2, 36, 40) | rope(1e6),
    "qwen2moe-odd-tied-normalized": attention(66, 3, 1, 22, 2, True)
    | routing(5, 3, 19, 27)
    | rope()
    | {"norm_topk_prob": True},
    "gemma-ratio4-tied": attention(64, 4, 1, 24, 3, True) | rope() | {"intermediate_size": 100},
    "gemma-ratio1": attention(69, 3, 3, 20, 2) | rope() | {"intermediate_size": 51},
    "gemma2-ratio2": attention(64, 4, 2, 24, 5, True) | rope() | TWO | {"sliding_window": 11},
    "gemma2-softcaps": attention(69, 3, 1, 20, 4)
    | rope()
    | TWO
    | {"sliding_window": 7, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 5.0},
    "gpt_oss-ratio2": attention(64, 4, 2, 24, 3) | SINKS | rope(1.5e5, **YARN, truncate=False),
    "gpt_oss-odd-tied": attention(70, 3, 1, 20, 4, True) | SINKS | rope() | {"num_experts_per_tok": 6},
    "gpt_oss-pattern": attention(48, 8, 2, 8, 3)
    | SINKS
    | rope(1.5e5, **YARN, truncate=False)
    | {"layer_types": [f"{kind}_attention" for kind in ("full", "sliding", "sliding")]},
    "seed_oss-ratio2": attention(64, 4, 2, 24, 3) | rope(1e6) | FFN,
    "phi3-ratio2": plain(64, 4, 2, 3) | rope() | FFN,
    "phi3-odd-tied-window": plain(72, 6, 1, 2, True)
    | rope(1e4, partial_rotary_factor=0.5)
    | FFN
    | {"sliding_window": 9},
    "phi3-longrope": plain(64, 4, 2, 3)
    | rope(1e4, partial_rotary_factor=0.75, **LONG)
    | FFN
    | {"original_max_position_embeddings": 40},
    "glm4-ratio2": attention(64, 4, 2, 16, 3) | rope(1e4, partial_rotary_factor=0.5) | FFN,
    "glm4-odd-plain": attention(66, 3, 1, 20, 2) | rope(partial_rotary_factor=1.0) | FFN | {"attention_bias": False},
    "minimax_m2-ratio2": attention(64, 4, 2, 24, 3) | rope(5e6, partial_rotary_factor=0.5) | MIXTRAL,
    "minimax_m2-odd-tied": attention(70, 3, 1, 20, 2, True) | rope() | MIXTRAL | {"num_experts_per_tok": 6},
    "olmo2-ratio2": attention(64, 4, 2, 24, 3) | rope(5e5) | FFN,
    "olmo2-odd-tied-yarn": attention(72, 6, 1, 12, 2, True) | rope(1e4, **YARN) | FFN,
    "olmo3-ratio2": attention(64, 4, 2, 24, 5) | by_kind(5e5, 11, **YARN) | FFN,
    "olmo3-irregular-tied": attention(69, 3, 1, 20, 4, True)
    | by_kind(1e4, 7)
    | FFN
    | {"layer_types": [f"{kind}_attention" for kind in ("full", "sliding", "sliding", "full")]},
    "olmoe-whole": plain(64, 4, 4, 3) | rope() | MIXTRAL,
    "olmoe-ratio2-odd-tied": plain(72, 6, 2, 2, True)
    | rope(1e6)
    | MIXTRAL
    | {"num_experts_per_tok": 6, "norm_topk_prob": True},
    "exaone4-ratio2": attention(64, 4, 2, 24, 5) | rope(1e6) | FFN | {"sliding_window": 11},
    "exaone4-irregular-tied": attention(72, 6, 1, 12, 4, True)
    | rope()
    | FFN
    | {"sliding_window": 7, "layer_types": [f"{kind}_attention" for kind in ("full", "sliding", "sliding", "full")]},
    "exaone4-nothing-rotates": attention(64, 4, 4, 16, 3)
    | rope(1e4)
    | FFN
    | {"sliding_window": 9, "layer_types": ["full_attention"] * 3},
    "exaone4-all-full": attention(64, 4, 4, 16, 3)
    | rope(1e4)
    | FFN
    | {"sliding_window": None, "layer_types": ["full_attention"] * 3},
    "cohere-ratio2-tied": plain(64, 4, 2, 3, True) | rope(8e6) | FFN | {"logit_scale": 0.5},
    "cohere-odd": plain(66, 3, 1, 2) | rope(1e4) | {"intermediate_size": 75, "logit_scale": 1.5},
    "cohere2-ratio2-tied": plain(64, 4, 2, 5, True) | rope(5e4) | FFN | {"sliding_window": 11, "logit_scale": 1.75},
    "cohere2-irregular": plain(72, 6, 1, 4)
    | rope(1e4)
    | FFN
    | {"sliding_window": 7, "layer_types": [f"{kind}_attention" for kind in ("full", "sliding", "sliding", "full")]}
    | {"logit_scale": 0.5},
    "lfm2-ratio2-tied": plain(64, 4, 2, 5, True) | rope(1e6) | convolved(5, 1, 3) | {"block_multiple_of": 20},
    "lfm2-odd": plain(72, 6, 1, 3) | rope() | convolved(3, 0) | {"conv_L_cache": 4, "block_auto_adjust_ff_dim": False},
    "lfm2moe-ratio2": plain(64, 4, 2, 4) | rope(1e6) | convolved(4, 2) | routing(6, 2, 36) | {"num_dense_layers": 1},
    "lfm2moe-odd-tied": plain(72, 3, 1, 3, True)
    | rope()
    | convolved(3, 1)
    | routing(5, 3, 19)
    | {"num_dense_layers": 0, "norm_topk_prob": False, "routed_scaling_factor": 1.7},
    "granite-ratio2-tied": plain(64, 4, 2, 3, True) | rope() | FFN | GRANITE,
    "glm4moe-ratio2": attention(64, 4, 2, 24, 4) | GLM | HALF | {"routed_scaling_factor": 1.7, "use_qk_norm": True},
    "glm4moe-odd-biased": attention(70, 3, 1, 20, 3)
    | GLM
    | HALF
    | {"first_k_dense_replace": 2, "n_shared_experts": 2, "norm_topk_prob": False, "attention_bias": True},
    "bailingmoe2-groups": attention(64, 4, 2, 24, 3)
    | GLM
    | rope(1e4, partial_rotary_factor=0.5)
    | {"use_qk_norm": True, "n_routed_experts": 12, "n_group": 3, "topk_group": 2, "num_experts_per_tok": 3}
    | {"routed_scaling_factor": 2.5},
    "afmoe-ratio2": attention(64, 4, 2, 24, 5) | AFMOE | rope() | {"route_scale": 1.7, "sliding_window": 11},
    "afmoe-irregular-tied": attention(70, 3, 1, 20, 4, True)
    | AFMOE
    | rope(1e6)
    | {"num_dense_layers": 2, "num_shared_experts": 2, "sliding_window": 7}
    | {"layer_types": [f"{kind}_attention" for kind in ("full", "sliding", "sliding", "full")]},
    "dots1-ratio2": attention(64, 4, 2, 24, 3) | GLM | rope() | {"routed_scaling_factor": 2.5, "sliding_window": None},
    "dots1-all-routed": attention(40, 8, 2, 16, 2, True)
    | GLM
    | rope(1e6)
    | {"first_k_dense_replace": 0, "n_shared_experts": 2, "num_experts_per_tok": 7, "norm_topk_prob": True},
    "deepseek_v2-lite": latent(64, 4, None, 64, 32, 16, 32)
    | GLM
    | rope()
    | {"num_hidden_layers": 3, "tie_word_embeddings": False, "n_shared_experts": 2},
    "deepseek_v2-yarn": latent(66, 3, 40, 32, 64, 8, 96)
    | GLM
    | rope(1e4, **YARN, mscale=0.7, mscale_all_dim=0.7)
    | {"num_hidden_layers": 2, "tie_word_embeddings": True, "routed_scaling_factor": 1.7, "first_k_dense_replace": 0},
    "deepseek_v3-odd": latent(72, 6, 48, 96, 32, 20, 64)
    | GLM
    | rope(1e5)
    | {"num_hidden_layers": 4, "tie_word_embeddings": False, "first_k_dense_replace": 2, "routed_scaling_factor": 2.5},
    "deepseek_v2-groups": latent(64, 4, 40, 64, 32, 16, 32)
    | GLM
    | rope()
    | {"num_hidden_layers": 3, "tie_word_embeddings": False, "topk_method": "group_limited_greedy"}
    | {"n_routed_experts": 12, "n_group": 4, "topk_group": 2},
    "deepseek_v3-groups": latent(64, 4, 40, 64, 32, 16, 32)
    | GLM
    | rope()
    | {"num_hidden_layers": 4, "tie_word_embeddings": True, "n_routed_experts": 16, "n_group": 8, "topk_group": 3},
    "mistral4-ratio": latent(64, 4, 40, 64, 32, 16, 32)
    | GLM
    | tempered(1e4, 0.3, partial_rotary_factor=1 / 3)
    | {"num_hidden_layers": 3, "tie_word_embeddings": False, "first_k_dense_replace": 0, "norm_topk_prob": True},
    "glm4_moe_lite-ratio": latent(64, 5, 56, 64, 96, 16, 64)
    | GLM
    | rope(1e6)
    | {"num_hidden_layers": 3, "tie_word_embeddings": False, "routed_scaling_factor": 1.8},
    "ernie4_5-ratio2-tied": attention(64, 4, 2, 24, 3, True) | rope(5e5) | FFN,
    "ernie4_5_moe-ratio2": attention(64, 4, 2, 24, 3) | rope(5e5) | FFN | ERNIE,
    "ernie4_5_moe-odd-tied": attention(70, 3, 1, 20, 4, True)
    | rope()
    | FFN
    | ERNIE
    | {"moe_layer_start_index": 2, "moe_num_shared_experts": 0},
    "granitemoe-ratio2-tied": plain(64, 4, 2, 3, True) | rope() | ROUTED_GRANITE,
    "granitemoeshared-odd": plain(72, 6, 2, 2) | rope(1e6) | ROUTED_GRANITE | {"shared_intermediate_size": 21},
    "granitehybrid-dense-tied": plain(64, 4, 2, 5, True)
    | rope()
    | GRANITE
    | state_space(5, (2,), 4, 1, 32, 32)
    | {"num_local_experts": 0, "shared_intermediate_size": 100},
    "granitehybrid-routed": plain(72, 6, 2, 3)
    | rope()
    | ROUTED_GRANITE
    | state_space(3, (1,), 6, 2, 20, 48)
    | {"shared_intermediate_size": 21, "mamba_expand": 4, "mamba_d_conv": 3},
    "granitehybrid-rotated": plain(64, 4, 1, 4)
    | rope(1e6)
    | ROUTED_GRANITE
    | state_space(4, (0, 3), 8, 4, 9, 16)
    | {"shared_intermediate_size": 40, "position_embedding_type": "rope"},
    "hunyuan_dense-ratio2": attention(64, 4, 2, 24, 3) | rope(1e4) | FFN,
    "hunyuan_dense-alpha-tied": attention(72, 6, 1, 20, 2, True)
    | {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "alpha": 50.0, "factor": 1.0}}
    | FFN,
    "hunyuan_moe-ratio2": attention(64, 4, 2, 24, 3)
    | rope(1e4)
    | {"num_experts": 6, "moe_topk": 2, "intermediate_size": 36, "pad_token_id": None},
    "arcee-ratio2": attention(64, 4, 2, 24, 3) | rope(1e4, **YARN) | FFN,
    "arcee-odd-tied": attention(69, 3, 1, 20, 2, True) | rope(1e6) | FFN,
    "nemotron_h-ratio2": attention(64, 4, 2, 24, 6) | nemotron("M-M-*-", 4, 2, 16, 12),
    "nemotron_h-odd": attention(70, 3, 1, 20, 5) | nemotron("MM*-M", 6, 1, 9, 8, conv_kernel=3),
    "nemotron_h_moe-ratio2": attention(64, 4, 2, 24, 6)
    | nemotron("MEM*ME", 4, 2, 16, 12)
    | {"n_routed_experts": 7, "num_experts_per_tok": 3, "moe_intermediate_size": 36}
    | {"moe_shared_expert_intermediate_size": 52, "routed_scaling_factor": 2.5},
    "nemotron_h_moe-groups": attention(72, 6, 2, 20, 4)
    | nemotron("ME*E", 8, 4, 12, 20)
    | {"n_routed_experts": 12, "num_experts_per_tok": 3, "moe_intermediate_size": 20, "n_group": 4, "topk_group": 2}
    | {"moe_shared_expert_intermediate_size": 28, "norm_topk_prob": False},
    "granite-odd": plain(72, 6, 2, 2)
    | rope(1e6)
    | FFN
    | GRANITE
    | {"logits_scaling": 0.3, "embedding_multiplier": 12.0},
    "smollm3-ratio2": plain(64, 4, 2, 5) | rope(2e6) | FFN,
    "smollm3-long-tied": plain(64, 2, 1, 9, True) | rope(1e4, **YARN) | FFN,
    "gemma3-ratio2": attention(64, 4, 2, 24, 7, True) | local(1e6, 11, 24) | {"intermediate_size": 100},
    "gemma3-period2-untied": attention(69, 3, 1, 20, 4)
    | local(1e5, 5, 31)
    | period(2, 4, "sliding_attention")
    | {"intermediate_size": 75, "final_logit_softcapping": 5.0},
    "gemma3-period3-linear": attention(72, 6, 6, 12, 5, True)
    | local(1e6, 17, 12, rope_type="linear", factor=8.0)
    | period(3, 5, "sliding_attention")
    | {"intermediate_size": 51},
    "gemma3-irregular-softcaps": attention(60, 4, 2, 16, 5)
    | local(1e6, 7, 16)
    | {"intermediate_size": 64, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 20.0}
    | {"layer_types": [f"{kind}_attention" for kind in ("sliding", "full", "full", "sliding", "sliding")]},
    "gemma4-borrowing": attention(64, 4, 1, 24, 7, True)
    | period(3, 7, "sliding_attention")
    | gemma4(1, 48, 11, hidden_size_per_layer_input=32, vocab_size_per_layer_input=131, num_kv_shared_layers=3)
    | {"intermediate_size": 50, "use_double_wide_mlp": True, "final_logit_softcapping": 20.0},
    "gemma4-keys-as-values": attention(69, 6, 3, 20, 4)
    | period(2, 4, "sliding_attention")
    | gemma4(2, 32, 7, attention_k_eq_v=True)
    | {"intermediate_size": 51},
    "gemma4-experts": attention(72, 4, 2, 12, 6, True)
    | gemma4(1, 24, 9, attention_k_eq_v=True, enable_moe_block=True)
    | {"intermediate_size": 40, "num_experts": 7, "top_k_experts": 3, "moe_intermediate_size": 36},
    "qwen35-ratio3": attention(64, 4, 2, 32, 5) | QUARTER | recurrence(4, 2, 6, 16, 12) | {"intermediate_size": 100},
    "qwen35-period2-tied": attention(69, 3, 1, 20, 4, True)
    | HALF
    | recurrence(3, 3, 3, 9, 20)
    | period(2, 4)
    | {"intermediate_size": 51},
    "qwen35-period3-ratio4": attention(40, 8, 2, 16, 6)
    | HALF
    | recurrence(5, 1, 4, 24, 7)
    | period(3, 6)
    | {"intermediate_size": 75},
    "qwen35moe-ratio2": attention(64, 4, 2, 32, 5) | QUARTER | recurrence(4, 2, 4, 16, 12) | routing(8, 3, 36, 40),
    "qwen35moe-odd-tied": attention(69, 3, 1, 20, 3, True)
    | HALF
    | recurrence(2, 2, 6, 11, 8)
    | period(3, 3)
    | routing(5, 2, 19, 27),
    "qwen35moe-period2": attention(40, 6, 3, 16, 4)
    | HALF
    | recurrence(4, 4, 4, 8, 8)
    | period(2, 4)
    | routing(6, 6, 20, 33),
    "qwen3next-ratio2": attention(64, 4, 2, 32, 5) | QUARTER | recurrence(4, 2, 4, 16, 12) | routing(8, 3, 36, 40),
    "qwen3next-odd-tied": attention(69, 3, 1, 20, 3, True)
    | HALF
    | recurrence(2, 2, 6, 11, 8)
    | period(3, 3)
    | routing(5, 2, 19, 27),
    "qwen3next-period2": attention(40, 6, 3, 16, 4)
    | HALF
    | recurrence(3, 3, 12, 8, 9)
    | period(2, 4)
    | routing(6, 1, 20, 33),
    "qwen3next-unnormalized": attention(48, 4, 2, 12, 4)
    | HALF
    | recurrence(4, 2, 4, 8, 12)
    | period(4, 4)
    | routing(6, 3, 24, 20)
    | {"norm_topk_prob": False},
    **WINDOWED,
}
DECODED = list({name.split("-")[0]: name for name in reversed(FAMILY_CONFIGS)}.values())
