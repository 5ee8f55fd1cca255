"""The metadata of make_tiny_model.py, under the keys that each architecture's files have."""

import argparse

import gguf
import tiny_gemma4
import tiny_latent
from tiny_gemma4 import GEMMA_4
from tiny_state_space import ONE_BRANCH, STATE_SPACES, add_one_branch_keys
from tiny_weights import (
    CONVOLVED,
    DENSE_FIRST,
    EXPERTS,
    FULL_FIRST,
    GRANITES_SWA,
    HYBRIDS,
    PARALLEL,
    PLAIN_SHARED_EXPERT,
    SHARED_EXPERT,
    SLIDING_GEMMAS,
    heads_of,
)

FAMILIES = {
    "mixtral": "llama",
    "gemma4-moe": "gemma4",
    "granitehybrid-moe": "granitehybrid",
    "granite_swa-moe": "granite_swa",
}
HEADLESS = (*CONVOLVED, *STATE_SPACES)  # layers that do not attend have no kv heads
SLIDING = (
    *("afmoe", "cohere2", "exaone-moe", "exaone4", "gpt-oss", "laguna", "mellum", "muse-glimmer", "olmo2"),
    *(*GRANITES_SWA, *SLIDING_GEMMAS),
)
INTERVAL_KEYS = dict.fromkeys(HYBRIDS, "full_attention_interval") | dict.fromkeys(
    SLIDING, "attention.sliding_window_pattern"
)
MULTIPLIERS = {"embedding_scale": 0.5, "residual_scale": 1.5, "logit_scale": 1.25, "attention.scale": 0.3}
WIDE_EXPERTS = ("mixtral", "granite_swa-moe")  # as wide as a feed-forward part
SCALED = ("glm4moe", "afmoe", "exaone-moe", "laguna", "nemotron_h_moe")  # what their experts add


def add_metadata(writer: gguf.GGUFWriter, chosen: argparse.Namespace) -> None:
    writer.add_name(f"tiny {chosen.seed}")
    writer.add_context_length(chosen.context)
    writer.add_embedding_length(chosen.width)
    writer.add_block_count(chosen.layers + chosen.drafting)
    varied = chosen.architecture in FULL_FIRST
    writer.add_head_count([heads_of(chosen, layer) for layer in range(chosen.layers)] if varied else chosen.heads)
    if chosen.architecture in GEMMA_4:
        tiny_gemma4.add_metadata(writer, chosen)
    elif chosen.architecture == "deepseek2":
        tiny_latent.add_metadata(writer, chosen)
    elif chosen.architecture in ONE_BRANCH:
        add_one_branch_keys(writer, chosen)
    else:
        writer.add_feed_forward_length(chosen.expert_ffn if chosen.architecture in WIDE_EXPERTS else chosen.ffn)
        attends = [(layer + 1) % chosen.interval == 0 for layer in range(chosen.layers)]
        heads = [chosen.kv_heads * each for each in attends] if chosen.architecture in HEADLESS else chosen.kv_heads
        writer.add_head_count_kv(heads)
        if chosen.heads * chosen.head_size != chosen.width:
            writer.add_key_length(chosen.head_size)
            writer.add_value_length(chosen.head_size)
    if chosen.drafting:
        writer.add_nextn_predict_layers(chosen.drafting)
    writer.add_rope_dimension_count(chosen.rope_size)
    writer.add_rope_freq_base(chosen.rope_base)
    if chosen.architecture in PARALLEL:
        writer.add_layer_norm_eps(chosen.norm_epsilon)
    else:
        writer.add_layer_norm_rms_eps(chosen.norm_epsilon)
    if chosen.architecture in (*PARALLEL, "muse-glimmer"):
        writer.add_logit_scale(0.8)
    writer.add_vocab_size(chosen.vocab)
    if chosen.temperature:
        writer.add_attn_temperature_scale(0.3)
        writer.add_attn_temperature_length(chosen.temperature)
    if chosen.rope_layout:
        writer.add_string("paceline.rope_layout", chosen.rope_layout)
    if chosen.architecture in GRANITES_SWA:
        slides = [(layer + 1) % chosen.interval != 0 for layer in range(chosen.layers)]
        writer.add_sliding_window_pattern(slides)
        writer.add_array("granite_swa.attention.rope_pattern", slides)
    elif chosen.architecture in INTERVAL_KEYS:
        writer.add_uint32(f"{chosen.architecture}.{INTERVAL_KEYS[chosen.architecture]}", chosen.interval)
    if chosen.architecture == "laguna":
        writer.add_rope_dimension_count_swa(chosen.head_size)
        writer.add_rope_freq_base_swa(chosen.rope_base / 10)
    if chosen.architecture == "apertus":
        for name, about in {"alpha_n": 0.3, "alpha_p": 0.4, "beta": 0.5}.items():
            writer.add_array(f"xielu.{name}", [about + 0.1 * layer for layer in range(chosen.layers)])
        writer.add_array("xielu.eps", [-1e-6] * chosen.layers)
    if chosen.architecture in SLIDING:
        writer.add_sliding_window(chosen.window)
    if chosen.architecture in ("muse-glimmer", *SLIDING_GEMMAS) and chosen.final_softcap:
        writer.add_final_logit_softcapping(chosen.final_softcap)
    if chosen.architecture.startswith("granite"):
        for key, value in MULTIPLIERS.items():
            writer.add_float32(f"{FAMILIES.get(chosen.architecture, chosen.architecture)}.{key}", value)
    if chosen.architecture.startswith("granitehybrid"):
        writer.add_rope_scaling_finetuned(False)  # which says that nothing rotates
    if chosen.architecture in DENSE_FIRST:
        writer.add_leading_dense_block_count(1)
    if chosen.architecture in SCALED:
        writer.add_expert_weights_scale(1.5)
    if chosen.architecture in ("glm4moe", "afmoe", "exaone-moe", "laguna"):  # llama.cpp asks for these
        writer.add_expert_weights_norm(True)
        writer.add_expert_shared_count(chosen.shared_ffn // chosen.expert_ffn)
    if chosen.architecture in EXPERTS:
        writer.add_expert_count(chosen.experts)
        writer.add_expert_used_count(chosen.experts_used)
    if chosen.architecture in ("exaone-moe", "laguna"):
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if chosen.architecture in EXPERTS and chosen.architecture not in WIDE_EXPERTS:
        writer.add_expert_feed_forward_length(chosen.expert_ffn)
    if chosen.architecture in (*SHARED_EXPERT, *PLAIN_SHARED_EXPERT):
        writer.add_expert_shared_feed_forward_length(chosen.shared_ffn)
    if chosen.architecture in ("qwen35", "qwen35moe"):  # without effect on text, where all axes are equal
        third, rest = divmod(chosen.rope_size // 2, 3)
        writer.add_rope_dimension_sections([third + rest, third, third, 0])
    if chosen.architecture in CONVOLVED:
        writer.add_shortconv_l_cache(chosen.conv_kernel)
    if chosen.architecture in (*HYBRIDS, *STATE_SPACES):
        writer.add_ssm_conv_kernel(chosen.conv_kernel)
        writer.add_ssm_inner_size(chosen.value_heads * chosen.value_size)
        writer.add_ssm_state_size(chosen.key_size)
        writer.add_ssm_time_step_rank(chosen.value_heads)
        writer.add_ssm_group_count(chosen.key_heads)
