"""What several of the supported architectures are made of."""

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
WINDOW_KEYS = ("attention.sliding_window", "attention.sliding_window_pattern")
MULTIPLIERS = ("attention.scale", "embedding_scale", "logit_scale", "residual_scale")
TEMPERATURE_KEYS = ("attention.temperature_length", "attention.temperature_scale")
LLAMA = Family("pairs", may_slide=True, may_route=True, own_keys=("attention.sliding_window", *EXPERT_KEYS))
COMMAND_R = Family(
    "pairs",
    layer_norm=True,
    parallel=True,
    ffn_norm="attn_norm",
    must_scale_logits=True,
    own_keys=("logit_scale",),
)
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
GRANITE = Family("pairs", switched_rope=True, own_keys=MULTIPLIERS)
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
