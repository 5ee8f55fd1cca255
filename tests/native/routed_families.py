"""What GGUF files say of the families whose experts have leading dense layers, a bias of their choice or shared ones
without a gate."""

from typing import Any

import gguf

CLASSES = {
    "glm4moe": ("Glm4MoeConfig", "Glm4MoeForCausalLM"),
    "bailingmoe2": ("Glm4MoeConfig", "Glm4MoeForCausalLM"),  # transformers has no Ling 2, which computes the same
    "afmoe": ("AfmoeConfig", "AfmoeForCausalLM"),
    "dots1": ("Dots1Config", "Dots1ForCausalLM"),
    "ernie4_5_moe": ("Ernie4_5_MoeConfig", "Ernie4_5_MoeForCausalLM"),
    "granitemoe": ("GraniteMoeConfig", "GraniteMoeForCausalLM"),
    "granitemoeshared": ("GraniteMoeSharedConfig", "GraniteMoeSharedForCausalLM"),
}
ARCHITECTURES = {"ernie4_5_moe": "ernie4_5-moe", "granitemoeshared": "granitemoe"}
NAMES = {
    "block_sparse_moe.router": "ffn_gate_inp",
    "shared_mlp.output_linear": "ffn_down_shexp",
    "self_attn.gate_proj": "attn_gate",
    "mlp.router.gate": "ffn_gate_inp",
    **{f"mlp.shared_experts.{part}_proj": f"ffn_{part}_shexp" for part in ("gate", "up", "down")},
}
CHOICE_BIAS = "e_score_correction_bias"


def add_routing(writer: gguf.GGUFWriter, family: str, config: Any) -> None:
    if family.startswith("granitemoe"):
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        if family == "granitemoeshared":
            writer.add_expert_shared_feed_forward_length(config.shared_intermediate_size)
        return
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if family == "ernie4_5_moe":
        writer.add_expert_count(config.moe_num_experts)
        writer.add_expert_used_count(config.moe_k)
        writer.add_leading_dense_block_count(config.moe_layer_start_index)
        writer.add_interleave_moe_layer_step(config.moe_layer_interval)
        if shared := config.moe_num_shared_experts:
            writer.add_expert_shared_count(shared)
            writer.add_expert_shared_feed_forward_length(config.moe_intermediate_size * shared)
        return
    if family == "afmoe":
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        writer.add_expert_shared_count(config.num_shared_experts)
        writer.add_expert_weights_scale(config.route_scale)
        writer.add_expert_weights_norm(True)
        writer.add_leading_dense_block_count(config.num_dense_layers)
        return
    writer.add_expert_count(config.n_routed_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_group_count(config.n_group)
    writer.add_expert_group_used_count(config.topk_group)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_weights_norm(config.norm_topk_prob)
    writer.add_leading_dense_block_count(config.first_k_dense_replace)
    if family == "bailingmoe2":
        writer.add_expert_shared_feed_forward_length(config.moe_intermediate_size * config.n_shared_experts)
        writer.add_nextn_predict_layers(1)
