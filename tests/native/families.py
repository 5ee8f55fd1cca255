"""Random tiny models of the newer families from transformers, written as GGUF the way their files are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from . import routed_families
from .routed_families import CHOICE_BIAS, add_routing

VOCAB = 131
CLASSES = {
    "mixtral": ("MixtralConfig", "MixtralForCausalLM"),
    "qwen2moe": ("Qwen2MoeConfig", "Qwen2MoeForCausalLM"),
    "gemma": ("GemmaConfig", "GemmaForCausalLM"),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM"),
    "qwen3moe": ("Qwen3MoeConfig", "Qwen3MoeForCausalLM"),
    "gpt_oss": ("GptOssConfig", "GptOssForCausalLM"),
    "seed_oss": ("SeedOssConfig", "SeedOssForCausalLM"),
    "phi3": ("Phi3Config", "Phi3ForCausalLM"),
    "glm4": ("Glm4Config", "Glm4ForCausalLM"),
    "granite": ("GraniteConfig", "GraniteForCausalLM"),
    "smollm3": ("SmolLM3Config", "SmolLM3ForCausalLM"),
    "ernie4_5": ("Ernie4_5Config", "Ernie4_5ForCausalLM"),
    **routed_families.CLASSES,
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM"),
    "qwen35": ("Qwen3_5TextConfig", "Qwen3_5ForCausalLM"),
    "qwen35moe": ("Qwen3_5MoeTextConfig", "Qwen3_5MoeForCausalLM"),
    "qwen3next": ("Qwen3NextConfig", "Qwen3NextForCausalLM"),
}
SLIDING_GEMMAS = ("gemma2", "gemma3")
GRANITES = ("granite", "granitemoe", "granitemoeshared")
PAIRED = ("mixtral", "smollm3", *GRANITES)
PLAIN = ("gemma", "qwen2moe", "qwen3moe", "phi3", "dots1", "ernie4_5", "ernie4_5_moe", *PAIRED)
ARCHITECTURES = {"mixtral": "llama", "gpt_oss": "gpt-oss", **routed_families.ARCHITECTURES}  # others by the same name
EXPERTS = ("mixtral", "gpt_oss", "qwen2moe", "qwen3moe", "qwen35moe", "qwen3next")
CENTRED = ("gemma", *SLIDING_GEMMAS, "qwen35", "qwen35moe", "qwen3next")  # their norms' weights are stored minus one
OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "self_attn.qkv_proj": "attn_qkv",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.gate": "ffn_gate_inp",
    "mlp.router": "ffn_gate_inp",
    "self_attn.sinks": "attn_sinks",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "linear_attn.in_proj_qkv": "attn_qkv",
    "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.in_proj_a": "ssm_alpha",
    "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.in_proj_ba": "ssm_ba",
    "linear_attn.in_proj_qkvz": "ssm_in",
    "linear_attn.conv1d": "ssm_conv1d",
    "linear_attn.norm": "ssm_norm",
    "linear_attn.out_proj": "ssm_out",
    **routed_families.NAMES,
}
PLAIN_NORMS = {"post_attention_layernorm": "ffn_norm"}
GEMMA_NORMS = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
GLM_NORMS = {
    "post_self_attn_layernorm": "post_attention_norm",
    "post_attention_layernorm": "ffn_norm",
    "post_mlp_layernorm": "post_ffw_norm",
}
HYBRID_NORMS = {"post_attention_layernorm": "post_attention_norm"}


def random_family_model(family: str, options: dict[str, Any]) -> Any:
    import torch
    import transformers

    torch.manual_seed(7)
    config_class, model_class = (getattr(transformers, name) for name in CLASSES[family])
    sizes = {"vocab_size": VOCAB, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "initializer_range": 0.2}
    model = model_class(config_class(**sizes, **options)).eval()
    if family in (*EXPERTS, *routed_families.CLASSES):
        model.set_experts_implementation("eager")  # the others want rows of a multiple of 16 bytes
    for name, weights in stored(model):
        if name.endswith(CHOICE_BIAS):
            torch.nn.init.normal_(weights, 0.0, 0.1)
        elif name.endswith("linear_attn.norm.weight") or ("norm" in name and family not in CENTRED):
            torch.nn.init.uniform_(weights, 0.5, 1.5)
        elif family in SLIDING_GEMMAS and ".post_" in name:  # else a tied head would repeat the last token for ever
            torch.nn.init.uniform_(weights, 3.0, 6.0)
        elif family == "gemma" and name.endswith(("o_proj.weight", "down_proj.weight")):  # the same
            torch.nn.init.normal_(weights, 0.0, 2.0)
        elif family == "glm4" and ".post_" in name and "attention_layernorm" not in name:
            torch.nn.init.uniform_(weights, 0.5, 1.5)
        elif name.endswith("sinks"):
            torch.nn.init.normal_(weights, 1.0, 1.0)
        elif name.endswith(("_proj.bias", "router.bias")):
            torch.nn.init.normal_(weights, 0.0, 0.5)
        elif "norm" in name:  # centred at 0
            torch.nn.init.uniform_(weights, -0.5, 0.5)
        elif name.endswith("A_log"):
            torch.nn.init.normal_(weights, -1.0, 1.0)
        elif name.endswith("dt_bias"):
            torch.nn.init.normal_(weights, 0.0, 0.5)
        elif name.endswith("conv1d.weight"):
            torch.nn.init.normal_(weights, 0.0, 0.7)
        elif ".experts." in name or name.endswith(("mlp.gate.weight", "block_sparse_moe.router.weight")):
            torch.nn.init.normal_(weights, 0.0, 0.3)
    if model.config.to_dict().get("attn_logit_softcapping"):
        model.set_attn_implementation("eager")  # the others have no soft-cap
    return model


def stored(model: Any) -> Iterator[tuple[str, Any]]:
    """The parameters, and what is as good as one."""
    yield from model.named_parameters()
    yield from ((name, values) for name, values in model.named_buffers() if name.endswith(CHOICE_BIAS))


def expected_logits(model: Any, ids: list[int]) -> np.ndarray:
    """[positions, vocab], of one whole pass: no cache of transformers has a say.

    Gemma 3's attention knows the soft-cap of the scores, but its module does not hand it the config's.
    """
    import torch

    cap = model.config.to_dict().get("attn_logit_softcapping") if "gemma3" in model.config.model_type else None
    with torch.inference_mode():
        return model(torch.tensor([ids]), use_cache=False, **({"softcap": cap} if cap else {})).logits[0].numpy()


def export_family(family: str, model: Any, path: Path, fused: bool = False) -> None:
    """`fused`: the older form of qwen3next, with one tensor for all projections of a recurrent layer."""
    config = model.config
    writer = gguf.GGUFWriter(path, ARCHITECTURES.get(family, family))
    add_keys(writer, family, config)
    gemmas = dict.fromkeys(SLIDING_GEMMAS, GEMMA_NORMS) | {"glm4": GLM_NORMS}
    norms = (gemmas | dict.fromkeys(PLAIN, PLAIN_NORMS)).get(family, HYBRID_NORMS)
    for name, parameter in stored(model):
        weights = parameter.detach().float().numpy()
        stem = name.removesuffix(".weight")
        if family in CENTRED and stem.endswith("norm") and not stem.endswith("linear_attn.norm"):
            weights = weights + 1
        if stem in OUTER:
            writer.add_tensor(f"{OUTER[stem]}.weight", weights)
            continue
        _, _, layer, part = stem.split(".", 3)
        if part.endswith(".bias"):
            writer.add_tensor(f"blk.{layer}.{NAMES[part.removesuffix('.bias')]}.bias", weights)
            continue
        if family in PAIRED and part.endswith(("q_proj", "k_proj")):
            heads = config.num_attention_heads if "q_proj" in part else config.num_key_value_heads
            weights = paired(weights, heads)
        if family in ("qwen35", "qwen35moe") and part.startswith("linear_attn."):
            weights = tiled(part.removeprefix("linear_attn."), weights, config)
        for ending, values in parts(part, weights, config, norms, fused):
            writer.add_tensor(f"blk.{layer}.{ending}", np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def paired(weights: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a q or k matrix [heads * head_size, width] moved from halves to GGUF's pairs for the llama family."""
    rows, columns = weights.shape
    return weights.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def head_size(config: Any) -> int:
    own: int | None = getattr(config, "head_dim", None)
    return own or config.hidden_size // config.num_attention_heads


def add_keys(writer: gguf.GGUFWriter, family: str, config: Any) -> None:
    rope = config.rope_parameters
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head_size(config))
    writer.add_value_length(head_size(config))
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
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(int(head_size(config) * rope.get("partial_rotary_factor", 1.0)))
    if family in ("mixtral", "gpt_oss", "phi3") and config.sliding_window:
        writer.add_sliding_window(config.sliding_window)
    if family in GRANITES:
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_logit_scale(config.logits_scaling)
        writer.add_attention_scale(config.attention_multiplier)
    if rope["rope_type"] == "yarn":
        add_yarn(writer, rope)
    if rope["rope_type"] == "longrope":
        add_longrope(writer, config)
    if family in routed_families.CLASSES:
        add_routing(writer, family, config)
        return
    if family in EXPERTS:
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
    if family == "gpt_oss":
        sliding = [kind == "sliding_attention" for kind in config.layer_types]
        if sliding != [layer % 2 == 0 for layer in range(len(sliding))]:  # else the default
            writer.add_sliding_window_pattern(sliding)
        writer.add_expert_feed_forward_length(config.intermediate_size)
    elif family in EXPERTS and family != "mixtral":  # whose experts are as wide as a feed-forward part
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if family in ("qwen3moe", "qwen3next") or (family == "qwen2moe" and config.norm_topk_prob):  # else the default
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


def tiled(part: str, weights: np.ndarray, config: Any) -> np.ndarray:
    """The value heads of one key head moved from side by side to a stride of the key heads, wherever they lie."""
    key_heads, value_heads = config.linear_num_key_heads, config.linear_num_value_heads
    order = np.arange(value_heads).reshape(key_heads, -1).T.reshape(-1)
    size = config.linear_value_head_dim
    values = (order[:, None] * size + np.arange(size)).reshape(-1)
    before = 2 * key_heads * config.linear_key_head_dim
    match part:
        case "in_proj_qkv" | "conv1d":
            return weights[np.concatenate([np.arange(before), before + values])]
        case "in_proj_z":
            return weights[values]
        case "in_proj_a" | "in_proj_b" | "A_log" | "dt_bias":
            return weights[order]
        case "out_proj":
            return weights[:, values]
    return weights


def parts(
    part: str, weights: np.ndarray, config: Any, norms: dict[str, str], fused: bool
) -> list[tuple[str, np.ndarray]]:
    """The tensors that one parameter becomes."""
    match part.rsplit(".", 1)[-1]:
        case "A_log":
            return [("ssm_a", -np.exp(weights))]
        case "dt_bias":
            return [("ssm_dt.bias", weights)]
        case "conv1d":
            return [("ssm_conv1d.weight", weights[:, 0])]
        case "shared_expert_gate":
            return [("ffn_gate_inp_shexp.weight", weights[0])]
        case "gate_up_proj" if config.model_type == "gpt_oss":  # [experts, width, 2 * expert_ffn]
            gate, up = (weights[..., first::2].swapaxes(1, 2) for first in (0, 1))
            return [("ffn_gate_exps.weight", gate), ("ffn_up_exps.weight", up)]
        case "gate_up_proj_bias":
            return [("ffn_gate_exps.bias", weights[:, 0::2]), ("ffn_up_exps.bias", weights[:, 1::2])]
        case "down_proj" if config.model_type == "gpt_oss":
            return [("ffn_down_exps.weight", weights.swapaxes(1, 2))]
        case "down_proj_bias":
            return [("ffn_down_exps.bias", weights)]
        case routed_families.CHOICE_BIAS:
            return [("exp_probs_b.bias", weights.reshape(-1))]
        case "input_linear":
            gate, up = np.split(weights, 2)
            return [("ffn_gate_shexp.weight", gate), ("ffn_up_shexp.weight", up)]
        case "gate_up_proj" if part.endswith(".experts.gate_up_proj"):
            gate, up = np.split(weights, 2, axis=1)  # [experts, expert_ffn, width] each
            if fused:
                return [("ffn_gate_up_exps.weight", weights)]
            return [("ffn_gate_exps.weight", gate), ("ffn_up_exps.weight", up)]
        case "down_proj" if part.endswith(".experts.down_proj"):
            return [("ffn_down_exps.weight", weights)]
        case "in_proj_qkvz" if not fused:
            size, heads = config.linear_key_head_dim, config.linear_num_key_heads
            grouped = weights.reshape(heads, -1, weights.shape[1])
            values = (grouped.shape[1] - 2 * size) // 2
            query, key, value, gate = (
                piece.reshape(-1, weights.shape[1])
                for piece in np.split(grouped, [size, 2 * size, 2 * size + values], axis=1)
            )
            return [("attn_qkv.weight", np.concatenate([query, key, value])), ("attn_gate.weight", gate)]
    return [(f"{(NAMES | norms)[part]}.weight", weights)]
