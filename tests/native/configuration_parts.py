"""What configurations of random tiny models are made of."""

from typing import Any

LINEAR = {"rope_type": "linear", "factor": 4.0}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
LONG = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.1, 1.3, 1.2, 1.5, 2.0],
    "long_factor": [1.0, 1.5, 3.0, 7.5, 20.0, 45.0],
}
IRREGULAR = [f"{kind}_attention" for kind in ("full", "sliding", "sliding", "full")]


def rope(base: float = 1e4, **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": "default", "rope_theta": base, **more}}


def attention(width: int, heads: int, kv_heads: int, head_size: int, layers: int, tied: bool = False) -> dict[str, Any]:
    return {
        "hidden_size": width,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_size,
        "num_hidden_layers": layers,
        "tie_word_embeddings": tied,
    }


def plain(width: int, heads: int, kv_heads: int, layers: int, tied: bool = False) -> dict[str, Any]:
    sizes = attention(width, heads, kv_heads, 0, layers, tied)
    return {key: value for key, value in sizes.items() if key != "head_dim"}


def routing(experts: int, used: int, ffn: int, shared: int = 0) -> dict[str, Any]:
    sizes = {"num_experts": experts, "num_experts_per_tok": used, "moe_intermediate_size": ffn}
    return sizes | ({"shared_expert_intermediate_size": shared} if shared else {"intermediate_size": 3 * ffn})


def recurrence(kernel: int, key_heads: int, value_heads: int, key_size: int, value_size: int) -> dict[str, Any]:
    return {
        "linear_conv_kernel_dim": kernel,
        "linear_num_key_heads": key_heads,
        "linear_num_value_heads": value_heads,
        "linear_key_head_dim": key_size,
        "linear_value_head_dim": value_size,
    }


def period(interval: int, layers: int, between: str = "linear_attention") -> dict[str, Any]:
    return {"layer_types": [between if (layer + 1) % interval else "full_attention" for layer in range(layers)]}


def convolved(layers: int, *attending: int) -> dict[str, Any]:
    kinds = ["full_attention" if layer in attending else "conv" for layer in range(layers)]
    return {"layer_types": kinds, "intermediate_size": 100}


def by_kind(base: float, window: int, **scaling: Any) -> dict[str, Any]:
    both = {"sliding_attention": rope(base)["rope_parameters"]}
    both["full_attention"] = {"rope_type": "default", "rope_theta": base, **scaling}
    return {"rope_parameters": both, "sliding_window": window}


def local(base: float, window: int, scalar: int, **scaling: Any) -> dict[str, Any]:
    full = {"rope_type": "default", "rope_theta": base, **scaling}
    both = {"full_attention": full, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
    return {"rope_parameters": both, "sliding_window": window, "query_pre_attn_scalar": scalar}


def gemma4(kv_heads: int, head_size: int, window: int, **more: Any) -> dict[str, Any]:
    """Of full attention, where layers differ."""
    full = {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25}
    both = {"full_attention": full, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
    sizes = {"num_global_key_value_heads": kv_heads, "global_head_dim": head_size, "sliding_window": window}
    return sizes | {"rope_parameters": both, "hidden_size_per_layer_input": 0, "pad_token_id": None} | more


def latent(width: int, heads: int, rank: int | None, kept: int, keys: int, turning: int, values: int) -> dict[str, Any]:
    return {
        "hidden_size": width,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "q_lora_rank": rank,
        "kv_lora_rank": kept,
        "qk_nope_head_dim": keys,
        "qk_rope_head_dim": turning,
        "v_head_dim": values,
        "n_group": 1,
        "topk_group": 1,
    }


def tempered(base: float, beta: float, **more: Any) -> dict[str, Any]:
    settings = {"original_max_position_embeddings": 20, "mscale": 1.0, "mscale_all_dim": 1.0}
    return rope(base, **YARN | settings | more, llama_4_scaling_beta=beta)


def state_space(
    layers: int, attending: tuple[int, ...], heads: int, groups: int, state: int, size: int
) -> dict[str, Any]:
    kinds = ["full_attention" if layer in attending else "linear_attention" for layer in range(layers)]
    sizes = {"mamba_n_heads": heads, "mamba_n_groups": groups, "mamba_d_state": state, "mamba_d_head": size}
    return {"layer_types": kinds, **sizes}


def nemotron(signs: str, heads: int, groups: int, state: int, size: int, **more: Any) -> dict[str, Any]:
    sizes = {"mamba_num_heads": heads, "n_groups": groups, "ssm_state_size": state, "mamba_head_dim": size}
    return {"hybrid_override_pattern": signs, "time_step_min": 1e-30, "intermediate_size": 100, **sizes, **more}


QUARTER = rope(1e6, partial_rotary_factor=0.25)
HALF = rope(1e4, partial_rotary_factor=0.5)
MIXTRAL = {"num_local_experts": 6, "num_experts_per_tok": 2, "intermediate_size": 36}
AFMOE = {
    "num_experts": 8,
    "num_experts_per_tok": 3,
    "num_shared_experts": 1,
    "num_dense_layers": 1,
    "moe_intermediate_size": 36,
    "intermediate_size": 100,
    "mup_enabled": True,
}
SINKS = {"num_local_experts": 6, "num_experts_per_tok": 2, "intermediate_size": 36, "sliding_window": 11}
FFN = {"intermediate_size": 100, "pad_token_id": None}
GRANITE = {
    "embedding_multiplier": 0.4,
    "residual_multiplier": 1.7,
    "logits_scaling": 0.7,
    "attention_multiplier": 0.1,
}
GLM = {
    "intermediate_size": 100,
    "n_routed_experts": 7,
    "num_experts_per_tok": 3,
    "n_shared_experts": 1,
    "moe_intermediate_size": 36,
    "first_k_dense_replace": 1,
}
ERNIE = {"moe_num_experts": 6, "moe_k": 2, "moe_intermediate_size": 36, "moe_num_shared_experts": 2}
ROUTED_GRANITE = GRANITE | {"num_local_experts": 6, "num_experts_per_tok": 2, "intermediate_size": 36}
TWO = {"query_pre_attn_scalar": 31, "intermediate_size": 100}
# The first of each family also decodes.
