"""What GGUF files say of hybrids with state spaces, and how their tensors lie there."""

from typing import Any

import gguf
import numpy as np

CLASSES = {
    "granitehybrid": ("GraniteMoeHybridConfig", "GraniteMoeHybridForCausalLM"),
    "nemotron_h": ("NemotronHConfig", "NemotronHForCausalLM"),
    "nemotron_h_moe": ("NemotronHConfig", "NemotronHForCausalLM"),
}
ONE_BRANCH = ("nemotron_h", "nemotron_h_moe")
OUTER = {"model.embeddings": "token_embd", "model.norm_f": "output_norm"}
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
MIXERS = {  # Nemotron's, beside those
    "q_proj": "attn_q.weight",
    "k_proj": "attn_k.weight",
    "v_proj": "attn_v.weight",
    "o_proj": "attn_output.weight",
    "up_proj": "ffn_up.weight",
    "down_proj": "ffn_down.weight",
    "gate": "ffn_gate_inp.weight",
    "gate.e_score_correction_bias": "exp_probs_b.bias",
    "experts.up_proj": "ffn_up_exps.weight",
    "experts.down_proj": "ffn_down_exps.weight",
    "shared_experts.up_proj": "ffn_up_shexp.weight",
    "shared_experts.down_proj": "ffn_down_shexp.weight",
}


def add_keys(writer: gguf.GGUFWriter, family: str, config: Any) -> None:
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    heads = config.num_key_value_heads
    writer.add_head_count_kv([heads * (kind == "full_attention") for kind in config.layer_types])
    writer.add_vocab_size(config.vocab_size)
    (add_nemotrons if family in ONE_BRANCH else add_granites)(writer, config)


def add_granites(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_embedding_scale(config.embedding_multiplier)
    writer.add_residual_scale(config.residual_multiplier)
    writer.add_logit_scale(config.logits_scaling)
    writer.add_attention_scale(config.attention_multiplier)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_scaling_finetuned(config.position_embedding_type == "rope")
    inner = config.mamba_n_heads * config.mamba_d_head
    add_state_space(
        writer, config.mamba_d_conv, config.mamba_d_state, config.mamba_n_groups, config.mamba_n_heads, inner
    )
    routes = config.num_local_experts > 0
    writer.add_feed_forward_length(config.intermediate_size if routes else config.shared_intermediate_size)
    if routes:
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_shared_feed_forward_length(config.shared_intermediate_size)


def add_nemotrons(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_layer_norm_rms_eps(config.layer_norm_epsilon)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    inner = config.mamba_num_heads * config.mamba_head_dim
    add_state_space(writer, config.conv_kernel, config.ssm_state_size, config.n_groups, config.mamba_num_heads, inner)
    routes = "moe" in config.layer_types
    width = config.moe_intermediate_size if routes else config.intermediate_size
    writer.add_feed_forward_length([width * (kind in ("mlp", "moe")) for kind in config.layer_types])
    if routes:
        writer.add_expert_count(config.n_routed_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
        writer.add_expert_shared_feed_forward_length(config.moe_shared_expert_intermediate_size)
        writer.add_expert_shared_count(config.n_shared_experts)
        writer.add_expert_weights_norm(config.norm_topk_prob)
        writer.add_expert_weights_scale(config.routed_scaling_factor)
        writer.add_expert_group_count(config.n_group)
        if config.topk_group > 1:
            writer.add_expert_group_used_count(config.topk_group)


def add_state_space(writer: gguf.GGUFWriter, taps: int, state: int, groups: int, heads: int, inner: int) -> None:
    writer.add_ssm_conv_kernel(taps)
    writer.add_ssm_state_size(state)
    writer.add_ssm_group_count(groups)
    writer.add_ssm_time_step_rank(heads)
    writer.add_ssm_inner_size(inner)


def tensor_of(part: str, weights: np.ndarray, config: Any) -> tuple[str, np.ndarray]:
    """The name and the values of a layer's own part; numbers of heads lie below each other."""
    if part == "norm":
        return "attn_norm.weight", weights
    own = part.split(".", 1)[1]
    match own:
        case "A_log":
            weights = -np.exp(weights).reshape(-1, 1)
        case "D":
            weights = weights.reshape(-1, 1)
        case "conv1d":
            weights = weights[:, 0]
        case "norm":
            weights = weights.reshape(getattr(config, "mamba_n_groups", None) or config.n_groups, -1)
    return (PARTS | MIXERS)[own], np.ascontiguousarray(weights)
