"""What GGUF files say of Gemma 4."""

from typing import Any

import gguf
import numpy as np

NAMES = {
    "pre_feedforward_layernorm_2": "pre_ffw_norm_2",
    "post_feedforward_layernorm_1": "post_ffw_norm_1",
    "post_feedforward_layernorm_2": "post_ffw_norm_2",
    "router.proj": "ffn_gate_inp",
    "per_layer_input_gate": "inp_gate",
    "per_layer_projection": "proj",
    "post_per_layer_input_norm": "post_norm",
}
OUTER = {
    "model.embed_tokens_per_layer": "per_layer_token_embd",
    "model.per_layer_model_projection": "per_layer_model_proj",
    "model.per_layer_projection_norm": "per_layer_proj_norm",
}
PARTS = {
    "layer_scalar": "layer_output_scale.weight",
    "router.scale": "ffn_gate_inp.scale",
    "router.per_expert_scale": "ffn_down_exps.scale",
}


def add_keys(writer: gguf.GGUFWriter, config: Any) -> None:
    sliding = [kind == "sliding_attention" for kind in config.layer_types]
    full, local = (config.per_layer_config[f"{kind}_attention"] for kind in ("full", "sliding"))
    rope = config.rope_parameters
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv([(local if each else full).num_key_value_heads for each in sliding])
    writer.add_key_length(full.head_dim)
    writer.add_value_length(full.head_dim)
    writer.add_uint32("gemma4.attention.key_length_swa", local.head_dim)
    writer.add_uint32("gemma4.attention.value_length_swa", local.head_dim)
    writer.add_uint32("gemma4.rope.dimension_count_swa", local.head_dim)
    writer.add_uint32("gemma4.attention.shared_kv_layers", config.num_kv_shared_layers)
    writer.add_uint32("gemma4.embedding_length_per_layer_input", config.hidden_size_per_layer_input or 0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_sliding_window(config.sliding_window)
    writer.add_sliding_window_pattern(sliding)
    writer.add_rope_freq_base(rope["full_attention"]["rope_theta"])
    writer.add_float32("gemma4.rope.freq_base_swa", rope["sliding_attention"]["rope_theta"])
    writer.add_rope_dimension_count(full.head_dim)
    turning = int(full.head_dim * rope["full_attention"]["partial_rotary_factor"] / 2)
    divisors = [1.0] * turning + [1e30] * (full.head_dim // 2 - turning)
    writer.add_tensor("rope_freqs.weight", np.array(divisors, np.float32))
    wide, first = config.use_double_wide_mlp, config.num_hidden_layers - config.num_kv_shared_layers
    widths = [config.intermediate_size * (2 if wide and layer >= first else 1) for layer in range(len(sliding))]
    if wide:
        writer.add_feed_forward_length(widths)
    else:
        writer.add_feed_forward_length(config.intermediate_size)
    if config.final_logit_softcapping:
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if config.enable_moe_block:
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.top_k_experts)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
