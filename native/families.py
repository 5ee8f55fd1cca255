"""The supported architectures, by the names that GGUF has for them."""

from collections.abc import Mapping
from dataclasses import replace

from .drafting import DRAFTING
from .family import Family

EXPERT_KEYS = ("expert_count",)
GEMMA_KEYS = (
    "attention.scale",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attn_logit_softcapping",
    "final_logit_softcapping",
)
ROUTING_KEYS = (
    *EXPERT_KEYS,
    "expert_gating_func",
    "expert_group_count",
    "expert_group_used_count",
    "expert_weights_scale",
    "leading_dense_block_count",
)
MULTIPLIERS = ("attention.scale", "embedding_scale", "logit_scale", "residual_scale")
TEMPERATURE_KEYS = ("attention.temperature_length", "attention.temperature_scale")
LLAMA = Family("pairs", may_slide=True, may_route=True, own_keys=("attention.sliding_window", *EXPERT_KEYS))
LFM2 = Family("halves", qk_norm=True, rope_base=1e6, layer_kind="recurrent", gated_convolution=True, headless=True)
QWEN2 = Family("halves", qkv_bias=True)
QWEN3 = Family("halves", qk_norm=True)
QWEN3_EXPERTS = replace(QWEN3, experts=True, own_keys=EXPERT_KEYS)
DEEPSEEK2 = Family(
    "pairs",
    latent=True,
    tempered=True,
    yarn_weight="scores",
    experts=True,
    normalize_experts=False,
    may_bias_choice=True,
    shared_expert=True,
    own_keys=(DRAFTING, *ROUTING_KEYS, *TEMPERATURE_KEYS),
)
DOTS = Family(
    "halves",
    qk_norm=True,
    experts=True,
    sigmoid_routing=True,
    may_bias_choice=True,
    shared_expert=True,
    own_keys=ROUTING_KEYS,
)
GEMMA = Family("halves", activation="gelu", scaled_embedding=True)
SLIDING_GEMMA = replace(
    GEMMA,
    interval_key="attention.sliding_window_pattern",
    layer_kind="sliding",
    post_norms=True,
    own_keys=GEMMA_KEYS,
)
HYBRID = Family(
    "halves",
    qk_norm=True,
    interval=4,
    interval_key="full_attention_interval",
    layer_kind="recurrent",
    gated_attention=True,
    ffn_norm="post_attention_norm",
    own_keys=(DRAFTING,),
)
HYBRID_EXPERTS = replace(HYBRID, experts=True, shared_expert=True, shared_gated=True, own_keys=(DRAFTING, *EXPERT_KEYS))
HUNYUAN = Family("halves", qk_norm=True, rotates_first=True)
NEMOTRON_H = Family(
    "halves",
    layer_kind="recurrent",
    state_space=True,
    headless=True,
    one_branch=True,
    never_rotated=True,
    grouped_heads=True,
    ffn_norm="attn_norm",
    activation="relu2",
)
FAMILIES: Mapping[str, Family] = {
    "llama": LLAMA,
    "arcee": Family("pairs", activation="relu2"),
    "mistral3": replace(LLAMA, tempered=True, yarn_weight="turns", own_keys=(*LLAMA.own_keys, *TEMPERATURE_KEYS)),
    "mistral4": DEEPSEEK2,
    "qwen2": QWEN2,
    "qwen2moe": replace(
        QWEN2, experts=True, shared_expert=True, shared_gated=True, normalize_experts=False, own_keys=EXPERT_KEYS
    ),
    "qwen2vl": QWEN2,  # of models that can also see: what decodes text
    "qwen3": QWEN3,
    "qwen3vl": QWEN3,
    "qwen3moe": QWEN3_EXPERTS,
    "qwen3vlmoe": QWEN3_EXPERTS,
    "seed_oss": replace(QWEN2, ffn_norm="post_attention_norm"),
    "phi3": Family("halves", may_slide=True, own_keys=("attention.sliding_window",)),
    "glm4": Family("pairs", may_bias=True, post_norms=True),
    "glm4moe": Family(
        "halves",
        may_bias=True,
        may_qk_norm=True,
        ffn_norm="post_attention_norm",
        experts=True,
        sigmoid_routing=True,
        may_bias_choice=True,
        shared_expert=True,
        own_keys=(DRAFTING, *ROUTING_KEYS),
    ),
    "dots1": DOTS,
    "bailingmoe2": replace(DOTS, own_keys=(DRAFTING, *ROUTING_KEYS)),
    "deepseek2": DEEPSEEK2,
    "ernie4_5": Family("pairs"),
    "ernie4_5-moe": Family("pairs", experts=True, may_bias_choice=True, shared_expert=True, own_keys=ROUTING_KEYS),
    "internlm2": Family("pairs"),
    "minicpm": Family("pairs", must_scale=True, own_keys=MULTIPLIERS),
    "granite": Family("pairs", switched_rope=True, own_keys=MULTIPLIERS),
    "granitemoe": Family(
        "pairs",
        switched_rope=True,
        experts=True,
        may_route=True,
        shared_expert=True,
        own_keys=(*MULTIPLIERS, *EXPERT_KEYS),
    ),
    "hunyuan-dense": HUNYUAN,
    "hunyuan-moe": replace(HUNYUAN, experts=True, shared_expert=True, own_keys=EXPERT_KEYS),
    "granitehybrid": Family(
        "pairs",
        switched_rope=True,
        layer_kind="recurrent",
        state_space=True,
        headless=True,
        grouped_heads=True,
        may_route=True,
        shared_expert=True,
        own_keys=(*MULTIPLIERS, *EXPERT_KEYS),
    ),
    "nemotron_h": NEMOTRON_H,
    "nemotron_h_moe": replace(
        NEMOTRON_H,
        experts=True,
        sigmoid_routing=True,
        may_bias_choice=True,
        shared_expert=True,
        own_keys=(DRAFTING, *ROUTING_KEYS),
    ),
    "smollm3": Family("pairs", unrotated=4),
    "lfm2": LFM2,
    "lfm2moe": replace(LFM2, experts=True, sigmoid_routing=True, may_bias_choice=True, own_keys=ROUTING_KEYS),
    "minimax-m2": Family(
        "halves",
        qk_norm=True,
        whole_qk_norm=True,
        experts=True,
        sigmoid_routing=True,
        may_bias_choice=True,
        own_keys=(DRAFTING, *ROUTING_KEYS),
    ),
    "olmo2": Family(
        "halves",
        qk_norm=True,
        whole_qk_norm=True,
        pre_norms=False,
        post_norms=True,
        interval=4,
        interval_key="attention.sliding_window_pattern",
        layer_kind="sliding",
        unscaled_windows=True,
        own_keys=("attention.sliding_window", "attention.sliding_window_pattern", "rope.freq_base_swa"),
    ),
    "olmoe": Family(
        "halves",
        qk_norm=True,
        whole_qk_norm=True,
        experts=True,
        may_route=True,
        normalize_experts=False,
        own_keys=EXPERT_KEYS,
    ),
    "exaone": Family("halves"),
    "exaone4": Family(
        "halves",
        qk_norm=True,
        pre_norms=False,
        post_norms=True,
        interval=4,
        interval_key="attention.sliding_window_pattern",
        layer_kind="sliding",
        unrotated_full=True,
        own_keys=(DRAFTING, "attention.sliding_window", "attention.sliding_window_pattern"),
    ),
    "gemma": GEMMA,
    "gemma2": replace(
        SLIDING_GEMMA, interval=2, window_size=4096, attention_softcap=50.0, final_softcap=30.0, scaled_by_width=46
    ),
    "gemma3": replace(
        SLIDING_GEMMA,
        qk_norm=True,
        interval=6,
        rope_base=None,
        local_rope_base=10000.0,
        scaled_by_width=62,
        own_keys=(*GEMMA_KEYS, "rope.freq_base_swa"),
    ),
    "gemma4": replace(
        SLIDING_GEMMA,
        qk_norm=True,
        interval=6,
        rope_base=None,
        local_rope_base=10000.0,
        scaled_queries=False,
        varied=True,
        rope_factors=True,
        must_slide=True,
        may_route=True,
        dense_beside=True,
        own_keys=(
            *GEMMA_KEYS,
            *EXPERT_KEYS,
            "attention.shared_kv_layers",
            "embedding_length_per_layer_input",
            "rope.freq_base_swa",
        ),
    ),
    "gpt-oss": Family(
        "halves",
        qkv_bias=True,
        output_bias=True,
        expert_bias=True,
        sinks=True,
        interval=2,
        interval_key="attention.sliding_window_pattern",
        layer_kind="sliding",
        must_slide=True,
        ffn_norm="post_attention_norm",
        activation="clamped",
        experts=True,
        yarn_rounded=False,
        own_keys=("attention.sliding_window", "attention.sliding_window_pattern", *EXPERT_KEYS),
    ),
    "qwen35": HYBRID,
    "qwen35moe": HYBRID_EXPERTS,
    "qwen3next": replace(HYBRID_EXPERTS, grouped_heads=True),
}
