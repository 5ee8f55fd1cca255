"""The keys that a GGUF file of each of the newer families has."""

from typing import Any

import gguf
import numpy as np

from . import gemma4_files, latent_files, routed_families
from .families import EXPERTS, GRANITES
from .routed_families import add_routing


def head_size(config: Any) -> int:
    own: int | None = getattr(config, "head_dim", None)
    return own or config.hidden_size // config.num_attention_heads


def add_keys(writer: gguf.GGUFWriter, family: str, config: Any) -> None:
    if family == "gemma4":
        gemma4_files.add_keys(writer, config)
        return
    if family in latent_files.CLASSES:
        latent_files.add_keys(writer, family, config)
        return
    rope = config.rope_parameters
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers + (family == "bailingmoe2"))  # whose last layer drafts
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head_size(config))
    writer.add_value_length(head_size(config))
    if family in ("cohere", "cohere2"):
        writer.add_layer_norm_eps(config.layer_norm_eps)
        writer.add_logit_scale(config.logit_scale)
        writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    else:
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    if family not in ("qwen35moe", "qwen3next"):
        writer.add_feed_forward_length(config.intermediate_size)
    if family == "gemma2":
        writer.add_sliding_window(config.sliding_window)
        writer.add_float32("gemma2.attention.scale", config.query_pre_attn_scalar**-0.5)
        if config.attn_logit_softcapping != 50:  # else the defaults
            writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
            writer.add_final_logit_softcapping(config.final_logit_softcapping)
        return
    if family == "gemma3":
        writer.add_sliding_window(config.sliding_window)
        writer.add_float32("gemma3.attention.scale", config.query_pre_attn_scalar**-0.5)
        writer.add_rope_freq_base(rope["full_attention"]["rope_theta"])
        if rope["full_attention"]["rope_type"] == "linear":
            writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(rope["full_attention"]["factor"])
        interval = config.layer_types.index("full_attention") + 1
        sliding = [kind == "sliding_attention" for kind in config.layer_types]
        if sliding != [(layer + 1) % interval != 0 for layer in range(len(sliding))]:
            writer.add_sliding_window_pattern(sliding)
        elif interval != 6:  # else the default
            writer.add_sliding_window_pattern(interval)
        if config.attn_logit_softcapping:
            writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        if config.final_logit_softcapping:
            writer.add_final_logit_softcapping(config.final_logit_softcapping)
        return
    if family in ("olmo3", "cohere2", "afmoe") or (family == "exaone4" and config.sliding_window):
        writer.add_sliding_window(config.sliding_window)
        sliding = [kind == "sliding_attention" for kind in config.layer_types]
        if sliding != [(layer + 1) % 4 != 0 for layer in range(len(sliding))]:  # else the default
            writer.add_sliding_window_pattern(sliding)
    if family == "olmo3":
        rope = rope["full_attention"]
    base = rope["rope_theta"]
    if family == "hunyuan_dense" and rope["rope_type"] == "dynamic":
        base *= rope["alpha"] ** (head_size(config) / (head_size(config) - 2))
        writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
        writer.add_rope_scaling_factor(1.0)
        writer.add_rope_scaling_orig_ctx_len(1 << 18)
    writer.add_rope_freq_base(base)
    writer.add_rope_dimension_count(int(head_size(config) * rope.get("partial_rotary_factor", 1.0)))
    if family in ("mixtral", "ministral3", "gpt_oss", "phi3") and config.sliding_window:
        writer.add_sliding_window(config.sliding_window)
    if family in GRANITES:
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_logit_scale(config.logits_scaling)
        writer.add_attention_scale(config.attention_multiplier)
    if rope["rope_type"] == "yarn":
        add_yarn(writer, rope)
    if family == "ministral3":
        writer.add_rope_scaling_yarn_log_mul(rope["mscale_all_dim"])
        writer.add_attn_temperature_scale(rope["llama_4_scaling_beta"])
    if rope["rope_type"] == "longrope":
        add_longrope(writer, config)
    if family in routed_families.CLASSES:
        add_routing(writer, family, config)
        return
    if family == "hunyuan_moe":
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.moe_topk)
        writer.add_expert_feed_forward_length(config.intermediate_size)
        writer.add_expert_shared_count(1)
    if family == "minimax_m2":
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if family in EXPERTS:
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
    if family == "gpt_oss":
        sliding = [kind == "sliding_attention" for kind in config.layer_types]
        if sliding != [layer % 2 == 0 for layer in range(len(sliding))]:  # else the default
            writer.add_sliding_window_pattern(sliding)
        writer.add_expert_feed_forward_length(config.intermediate_size)
    elif family == "minimax_m2":
        writer.add_expert_feed_forward_length(config.intermediate_size)
    elif family in EXPERTS and family not in ("mixtral", "olmoe"):  # whose experts are as wide as a feed-forward part
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if family in ("qwen3moe", "qwen3next") or (
        family in ("qwen2moe", "olmoe") and config.norm_topk_prob
    ):  # else the default
        writer.add_expert_weights_norm(config.norm_topk_prob)
    if family in ("qwen2moe", "qwen35moe", "qwen3next"):
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    if family not in ("qwen35", "qwen35moe", "qwen3next"):
        return
    if config.layer_types.index("full_attention") != 3:  # else the default
        writer.add_uint32(f"{family}.full_attention_interval", config.layer_types.index("full_attention") + 1)
    writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
    writer.add_ssm_state_size(config.linear_key_head_dim)
    writer.add_ssm_group_count(config.linear_num_key_heads)
    writer.add_ssm_time_step_rank(config.linear_num_value_heads)
    writer.add_ssm_inner_size(config.linear_num_value_heads * config.linear_value_head_dim)


def add_yarn(writer: gguf.GGUFWriter, rope: dict[str, Any]) -> None:
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(rope["factor"])
    writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if "beta_fast" in rope:
        writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])


def add_longrope(writer: gguf.GGUFWriter, config: Any) -> None:
    rope, trained = config.rope_parameters, config.original_max_position_embeddings
    longer = config.max_position_embeddings / trained
    writer.add_rope_scaling_orig_ctx_len(trained)
    writer.add_rope_scaling_attn_factors(float(np.sqrt(1 + np.log(longer) / np.log(trained))))
    for length in ("long", "short"):
        writer.add_tensor(f"rope_factors_{length}.weight", np.array(rope[f"{length}_factor"], np.float32))
