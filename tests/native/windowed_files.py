"""What GGUF files say of families that are made of parts of others, most with windows; and of Apertus."""

from typing import Any

import gguf
import numpy as np

CLASSES = {
    "apertus": ("ApertusConfig", "ApertusForCausalLM"),
    "exaone_moe": ("ExaoneMoeConfig", "ExaoneMoeForCausalLM"),
    "granite_swa": ("GraniteSWAConfig", "GraniteSWAForCausalLM"),
    "granitemoe_swa": ("GraniteMoeSWAConfig", "GraniteMoeSWAForCausalLM"),
    "laguna": ("LagunaConfig", "LagunaForCausalLM"),
    "mellum": ("MellumConfig", "MellumForCausalLM"),
    "muse_glimmer": ("MuseGlimmerConfig", "MuseGlimmerForConditionalGeneration"),
}
ARCHITECTURES = {
    "exaone_moe": "exaone-moe",
    "granitemoe_swa": "granite_swa",
    "muse_glimmer": "muse-glimmer",
}
ROUTED = ("exaone_moe", "granitemoe_swa", "laguna", "mellum")
GRANITES = ("granite_swa", "granitemoe_swa")
PAIRED = (*GRANITES, "muse_glimmer")
NAMES = {
    "attention_layernorm": "attn_norm",
    "feedforward_layernorm": "ffn_norm",
    "self_attn.g_proj": "attn_gate",
}
VISION = {  # of the part that sees, which is not run
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}
CONSTANTS = ("alpha_p", "alpha_n", "beta", "eps")


def config_of(family: str, options: dict[str, Any]) -> Any:
    import transformers

    config_class = getattr(transformers, CLASSES[family][0])
    if family == "muse_glimmer":
        tied = {"tie_word_embeddings": options["tie_word_embeddings"]}
        return config_class(text_config=options, vision_config=VISION, out_hidden_size=64, **tied)
    return config_class(**options)


def is_constant(name: str) -> bool:
    """Of an activation, which GGUF has among its keys."""
    return ".act_fn." in name


def is_left_out(name: str) -> bool:
    return is_constant(name) or name.startswith("model.vision")


def add_keys(writer: gguf.GGUFWriter, family: str, model: Any) -> None:
    config = model.config.get_text_config()
    rope = config.rope_parameters
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    varied = getattr(config, "num_attention_heads_per_layer", None)
    writer.add_head_count(varied or config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(size := getattr(config, "head_dim", 0) or config.hidden_size // config.num_attention_heads)
    writer.add_value_length(size)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_feed_forward_length(config.intermediate_size)
    by_kind = rope.get("full_attention")
    full = by_kind or rope
    thetas = [theta for theta in getattr(config, "layer_rope_theta", None) or () if theta]
    writer.add_rope_freq_base(thetas[0] if thetas else full["rope_theta"])
    writer.add_rope_dimension_count(int(size * full.get("partial_rotary_factor", 1.0)))
    if full["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(full["factor"])
        writer.add_rope_scaling_orig_ctx_len(full["original_max_position_embeddings"])
        if "attention_factor" in full:
            writer.add_rope_scaling_yarn_attn_factor(full["attention_factor"])
    if full["rope_type"] == "llama3":
        unscaled = full["rope_theta"] ** (-np.arange(0, size, 2) / size)
        divisors = unscaled / model.model.rotary_emb.inv_freq.double().numpy()
        writer.add_tensor("rope_freqs.weight", divisors.astype(np.float32))
    if by_kind:
        writer.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
    if family == "laguna":
        writer.add_rope_dimension_count_swa(int(size * rope["sliding_attention"]["partial_rotary_factor"]))
    if family == "apertus":
        _add_curves(writer, model)
        return
    if "sliding_attention" in config.layer_types:
        writer.add_sliding_window(config.sliding_window)
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config.layer_types])
    if family in GRANITES:
        writer.add_array("granite_swa.attention.rope_pattern", [theta > 0 for theta in config.layer_rope_theta])
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_logit_scale(config.logits_scaling)
        writer.add_attention_scale(config.attention_multiplier)
    if family == "muse_glimmer":
        writer.add_logit_scale(config.output_multiplier)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
        for layer in range(config.num_hidden_layers):  # what scales its queries is in weights of norms
            writer.add_tensor(f"blk.{layer}.attn_q_norm.weight", np.full(size, config.qk_scale_factor, np.float32))
            writer.add_tensor(f"blk.{layer}.attn_k_norm.weight", np.ones(size, np.float32))
    if family not in ("granite_swa", "muse_glimmer"):
        _add_routing(writer, family, config)


def _add_routing(writer: gguf.GGUFWriter, family: str, config: Any) -> None:
    writer.add_expert_count(config.num_local_experts if family in ("granitemoe_swa", "mellum") else config.num_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    if family == "granitemoe_swa":
        writer.add_expert_shared_feed_forward_length(config.shared_intermediate_size)
        return
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if family == "mellum":
        writer.add_expert_weights_norm(config.norm_topk_prob)
        return
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_leading_dense_block_count(config.mlp_layer_types.count("dense"))
    if family == "laguna":
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
        writer.add_expert_weights_scale(config.moe_routed_scaling_factor)
        writer.add_expert_weights_norm(True)
        return
    writer.add_expert_shared_count(config.num_shared_experts)
    writer.add_expert_group_count(config.n_group)
    writer.add_expert_group_used_count(config.topk_group)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_weights_norm(config.norm_topk_prob)


def _add_curves(writer: gguf.GGUFWriter, model: Any) -> None:
    for name in CONSTANTS:
        writer.add_array(f"xielu.{name}", [getattr(layer.mlp.act_fn, name).item() for layer in model.model.layers])
