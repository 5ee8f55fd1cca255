"""What GGUF files say of hybrids with state spaces, and how their tensors lie there."""

from typing import Any

import gguf
import numpy as np

CLASSES = {"granitehybrid": ("GraniteMoeHybridConfig", "GraniteMoeHybridForCausalLM")}
PARTS = {
    "in_proj": "ssm_in.weight",
    "conv1d": "ssm_conv1d.weight",
    "conv1d.bias": "ssm_conv1d.bias",
    "A_log": "ssm_a",
    "D": "ssm_d",
    "dt_bias": "ssm_dt.bias",
    "norm": "ssm_norm.weight",
    "out_proj": "ssm_out.weight",
}


def add_keys(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    heads = config.num_key_value_heads
    writer.add_head_count_kv([heads * (kind == "full_attention") for kind in config.layer_types])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_embedding_scale(config.embedding_multiplier)
    writer.add_residual_scale(config.residual_multiplier)
    writer.add_logit_scale(config.logits_scaling)
    writer.add_attention_scale(config.attention_multiplier)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_scaling_finetuned(config.position_embedding_type == "rope")
    writer.add_ssm_conv_kernel(config.mamba_d_conv)
    writer.add_ssm_state_size(config.mamba_d_state)
    writer.add_ssm_group_count(config.mamba_n_groups)
    writer.add_ssm_time_step_rank(config.mamba_n_heads)
    writer.add_ssm_inner_size(config.mamba_n_heads * config.mamba_d_head)
    writer.add_feed_forward_length(
        config.intermediate_size if config.num_local_experts else config.shared_intermediate_size
    )
    if config.num_local_experts:
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_shared_feed_forward_length(config.shared_intermediate_size)


def tensor_of(part: str, weights: np.ndarray, groups: int) -> tuple[str, np.ndarray]:
    """The name and the values of a mixer's part; numbers of heads lie below each other."""
    match part:
        case "A_log":
            weights = -np.exp(weights).reshape(-1, 1)
        case "D":
            weights = weights.reshape(-1, 1)
        case "conv1d":
            weights = weights[:, 0]
        case "norm":
            weights = weights.reshape(groups, -1)
    return PARTS[part], np.ascontiguousarray(weights)
