"""Models of the newer families from transformers, written as GGUF the way their files are."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np

from . import gemma4_files, latent_files, lfm2_files, routed_families, state_space_files, windowed_files
from .families import CENTRED, GRANITES, SLIDING_GEMMAS, stored
from .family_keys import add_keys

ARCHITECTURES = {  # others by the same name
    "mixtral": "llama",
    "gpt_oss": "gpt-oss",
    "hunyuan_dense": "hunyuan-dense",
    "hunyuan_moe": "hunyuan-moe",
    **routed_families.ARCHITECTURES,
    **dict.fromkeys(latent_files.CLASSES, "deepseek2"),
    "ministral3": "mistral3",
    "mistral4": "mistral4",
    "minimax_m2": "minimax-m2",
    "olmo3": "olmo2",
    "cohere": "command-r",
    **windowed_files.ARCHITECTURES,
}
PAIRED = ("arcee", "mixtral", "ministral3", "smollm3", *GRANITES, "granitehybrid", *windowed_files.PAIRED)
PLAIN = (
    *latent_files.CLASSES,
    "gemma",
    "hunyuan_dense",
    "hunyuan_moe",
    "qwen2moe",
    "qwen3moe",
    "phi3",
    "bailingmoe2",
    "cohere",
    "cohere2",
    "exaone_moe",
    "laguna",
    "mellum",
    "dots1",
    "ernie4_5",
    "ernie4_5_moe",
    "minimax_m2",
    "olmoe",
    *PAIRED,
)
OUTER = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    **gemma4_files.OUTER,
    **lfm2_files.OUTER,
    **state_space_files.OUTER,
}
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
    "self_attn.query_layernorm": "attn_q_norm",
    "self_attn.key_layernorm": "attn_k_norm",
    "mlp.gate.wg": "ffn_gate_inp",
    **{f"mlp.shared_mlp.{part}_proj": f"ffn_{part}_shexp" for part in ("gate", "up", "down")},
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
    **gemma4_files.NAMES,
    **latent_files.NAMES,
    **lfm2_files.NAMES,
    **windowed_files.NAMES,
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
AFMOE_NORMS = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_mlp_layernorm": "ffn_norm",
    "post_mlp_layernorm": "post_ffw_norm",
}
HYBRID_NORMS = {"post_attention_layernorm": "post_attention_norm"}


def export_family(family: str, model: Any, path: Path, fused: bool = False) -> None:
    """`fused`: the older form of qwen3next, with one tensor for all projections of a recurrent layer."""
    config = model.config
    writer = gguf.GGUFWriter(path, ARCHITECTURES.get(family, family))
    if family in lfm2_files.CLASSES:
        lfm2_files.add_keys(writer, family, model)
    elif family in state_space_files.CLASSES:
        state_space_files.add_keys(writer, family, config)
    elif family in windowed_files.CLASSES:
        windowed_files.add_keys(writer, family, model)
        config = config.get_text_config()
    else:
        add_keys(writer, family, config)
    gemmas = dict.fromkeys((*SLIDING_GEMMAS, "gemma4", "olmo2", "olmo3", "exaone4"), GEMMA_NORMS)
    gemmas |= {"glm4": GLM_NORMS, "afmoe": AFMOE_NORMS, "muse_glimmer": GEMMA_NORMS}
    norms = (dict.fromkeys(PLAIN, PLAIN_NORMS) | gemmas).get(family, HYBRID_NORMS)
    heads_of: dict[str, list[np.ndarray]] = {}  # by layer: queries, keys and values, which Ling has as one matrix
    for name, parameter in stored(model):
        weights = parameter.detach().float().numpy()
        if windowed_files.is_left_out(name):
            continue
        stem = name.removesuffix(".weight").replace("model.language_model.", "model.")
        plain = family == "muse_glimmer" and stem == "model.norm"
        if family in CENTRED and not plain and stem.endswith("norm") and not stem.endswith("linear_attn.norm"):
            weights = weights + 1
        if stem in OUTER:
            writer.add_tensor(f"{OUTER[stem]}.weight", weights)
            continue
        _, _, layer, part = stem.split(".", 3)
        if family == "bailingmoe2" and part in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"):
            heads_of.setdefault(layer, []).append(weights)
            continue
        if part.startswith("mamba.") or family in state_space_files.ONE_BRANCH:
            own, values = state_space_files.tensor_of(part, weights, config)
            writer.add_tensor(f"blk.{layer}.{own}", values)
            continue
        if part in gemma4_files.PARTS:
            writer.add_tensor(f"blk.{layer}.{gemma4_files.PARTS[part]}", weights)
            continue
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
    for layer, matrices in heads_of.items():
        writer.add_tensor(f"blk.{layer}.attn_qkv.weight", np.concatenate(matrices))
    if heads_of:
        for ending in ("nextn.enorm", "layer_output_norm"):
            writer.add_tensor(f"blk.{config.num_hidden_layers}.{ending}.weight", np.ones(8, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def paired(weights: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a q or k matrix [heads * head_size, width] moved from halves to GGUF's pairs for the llama family."""
    rows, columns = weights.shape
    return weights.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


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
        case "kv_b_proj":
            return latent_files.head_parts(weights, config)
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
        case "conv":
            return [("shortconv.conv.weight", weights[:, 0])]
        case routed_families.CHOICE_BIAS | lfm2_files.CHOICE_BIAS:
            return [("exp_probs_b.bias", weights.reshape(-1))]
        case "input_linear":
            gate, up = np.split(weights, 2)
            ending = "" if config.num_local_experts == 0 else "_shexp"
            return [(f"ffn_gate{ending}.weight", gate), (f"ffn_up{ending}.weight", up)]
        case "output_linear" if config.num_local_experts == 0:
            return [("ffn_down.weight", weights)]
        case "gate_up_proj" if f".{part}".endswith(".experts.gate_up_proj"):
            gate, up = np.split(weights, 2, axis=1)  # [experts, expert_ffn, width] each
            if fused:
                return [("ffn_gate_up_exps.weight", weights)]
            return [("ffn_gate_exps.weight", gate), ("ffn_up_exps.weight", up)]
        case "down_proj" if f".{part}".endswith(".experts.down_proj"):
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
