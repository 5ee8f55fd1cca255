"""What GGUF files say of LFM2, whose layers attend or convolve."""

from typing import Any

import gguf

CLASSES = {
    "lfm2": ("Lfm2Config", "Lfm2ForCausalLM"),
    "lfm2moe": ("Lfm2MoeConfig", "Lfm2MoeForCausalLM"),
}
OUTER = {"model.embedding_norm": "token_embd_norm"}
NAMES = {
    "operator_norm": "attn_norm",
    "ffn_norm": "ffn_norm",
    "self_attn.q_layernorm": "attn_q_norm",
    "self_attn.k_layernorm": "attn_k_norm",
    "self_attn.out_proj": "attn_output",
    "conv.in_proj": "shortconv.in_proj",
    "conv.out_proj": "shortconv.out_proj",
    "feed_forward.w1": "ffn_gate",
    "feed_forward.w2": "ffn_down",
    "feed_forward.w3": "ffn_up",
    "feed_forward.gate": "ffn_gate_inp",
}
CHOICE_BIAS = "expert_bias"


def add_keys(writer: gguf.GGUFWriter, family: str, model: Any) -> None:
    config = model.config
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    heads = config.num_key_value_heads
    writer.add_head_count_kv([heads * (kind == "full_attention") for kind in config.layer_types])
    writer.add_layer_norm_rms_eps(config.norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_shortconv_l_cache(config.conv_L_cache)
    if family == "lfm2":
        writer.add_feed_forward_length(model.model.layers[0].feed_forward.w1.out_features)
        return
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_leading_dense_block_count(config.num_dense_layers)
    writer.add_expert_count(config.num_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_expert_weights_norm(config.norm_topk_prob)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
