"""Later architectures whose layers slide, made of parts of others."""

from dataclasses import replace

from .drafting import DRAFTING
from .family import Family
from .family_bases import DOTS, EXPERT_KEYS, GRANITE, MULTIPLIERS, QWEN3_EXPERTS, ROUTING_KEYS, WINDOW_KEYS

LAGUNA = replace(
    DOTS,
    head_gates=True,
    varied_heads=True,
    interval=4,
    interval_key="attention.sliding_window_pattern",
    full_first=True,
    layer_kind="sliding",
    unscaled_windows=True,
    yarn_amplitude=True,
    own_keys=(*WINDOW_KEYS, "rope.freq_base_swa", *ROUTING_KEYS),
)
GRANITE_SWA = replace(
    GRANITE,
    switched_rope=False,
    sinks=True,
    rope_pattern=True,
    interval_key="attention.sliding_window_pattern",
    layer_kind="sliding",
    must_slide=True,
    may_route=True,
    shared_expert=True,
    own_keys=(*MULTIPLIERS, *EXPERT_KEYS, *WINDOW_KEYS),
)
MELLUM = replace(
    QWEN3_EXPERTS,
    interval=4,
    interval_key="attention.sliding_window_pattern",
    layer_kind="sliding",
    unscaled_windows=True,
    yarn_amplitude=True,
    own_keys=(*EXPERT_KEYS, *WINDOW_KEYS, "rope.freq_base_swa"),
)
EXAONE_MOE = replace(
    DOTS,
    interval=4,
    interval_key="attention.sliding_window_pattern",
    layer_kind="sliding",
    unrotated_full=True,
    must_slide=True,
    own_keys=(DRAFTING, *WINDOW_KEYS, *ROUTING_KEYS),
)
MUSE_GLIMMER = Family(
    "pairs",
    qk_norm=True,
    gated_attention=True,
    post_norms=True,
    post_norm_epsilon=1e-8,
    embedding_norm=True,
    interval=4,
    interval_key="attention.sliding_window_pattern",
    layer_kind="sliding",
    unrotated_full=True,
    must_slide=True,
    must_scale_logits=True,
    final_softcap=30.0,
    own_keys=("final_logit_softcapping", "logit_scale", *WINDOW_KEYS),
)
