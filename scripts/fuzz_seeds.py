"""The intact models that fuzz.py damages: tiny GGUF files by make_tiny_model.py, and tiny Hugging Face folders."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from mutate_folder import CONFIG, TENSORS, Folder
from safetensors.numpy import save
from tiny_state_space import STATE_SPACES

SIZES = ("--vocab=48", "--context=128", "--width=64", "--ffn=96")
FILES = {
    "llama": ("--type=Q8_0",),
    "llama-k": ("--width=256", "--ffn=256", "--heads=2", "--head-size=128", "--type=Q4_K", "--layers=1", "--tied"),
    "mixtral": ("--type=Q8_0",),
    "arcee": ("--type=Q4_0",),
    "mistral3": ("--type=Q8_0", "--temperature=16"),
    "gemma2": ("--type=BF16", "--tied"),
    "gemma3": ("--type=F16", "--tied"),
    "gemma4": ("--type=Q8_0", "--tied", "--layers=3", "--borrowing=1", "--token-inputs=32", "--local-head-size=32"),
    "gemma4_moe": ("--type=F16", "--tied", "--local-kv-heads=1"),
    "deepseek2": ("--type=Q8_0", "--query-rank=32", "--rope-size=8"),
    "gpt_oss": ("--type=MXFP4",),
    "granitehybrid": ("--type=Q8_0",),
    "nemotron_h_moe": ("--type=Q8_0", "--layers=3"),
    "lfm2": ("--type=Q8_0",),
    "lfm2moe": ("--type=F16", "--conv-kernel=3"),
    "minimax_m2": ("--type=Q4_0",),
    "olmo2": ("--type=Q8_0",),
    "olmoe": ("--type=Q4_0",),
    "afmoe": ("--type=Q8_0",),
    "exaone4": ("--type=Q8_0",),
    "cohere2": ("--type=Q4_0", "--tied"),
    "apertus": ("--type=Q8_0",),
    "granite_swa": ("--type=Q8_0", "--tied"),
    "laguna": ("--type=Q8_0", "--local-heads=6"),
    "muse_glimmer": ("--type=Q4_0",),
    "qwen2moe": ("--type=Q5_1",),
    "qwen3moe": ("--type=Q4_0",),
    "qwen35": ("--type=F32",),
    "qwen35moe": ("--type=MXFP4",),
}

COMMON = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 48,
    "vocab_size": 40,
    "max_position_embeddings": 64,
    "eos_token_id": [2, 3],
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 16}
RECURRENT = {
    "layer_types": ["linear_attention", "full_attention"],
    "full_attention_interval": 2,
    "linear_conv_kernel_dim": 4,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", "rope_theta": 1e4, "rope_scaling": LLAMA3},
    "gemma3": {"model_type": "gemma3_text", "sliding_window": 16, "query_pre_attn_scalar": 8},
    "gemma4": {
        "model_type": "gemma4_text",
        "sliding_window": 16,
        "layer_types": ["sliding_attention", "full_attention"],
        "per_layer_config": {"1": {"head_dim": 16, "num_key_value_heads": 1}},
        "attention_k_eq_v": True,
        "hidden_size_per_layer_input": 32,
        "enable_moe_block": True,
        "top_k_experts": 2,
        **EXPERTS,
    },
    "deepseek": {
        "model_type": "glm4_moe_lite",
        "rope_scaling": YARN | {"mscale": 0.7, "mscale_all_dim": 0.7},
        "kv_lora_rank": 32,
        "q_lora_rank": 16,
        "qk_nope_head_dim": 32,
        "qk_rope_head_dim": 8,
        "v_head_dim": 32,
        "mlp_layer_types": ["sparse", "sparse"],
        "n_shared_experts": 0,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 24,
    },
    "qwen3moe": {"model_type": "qwen3_moe", "norm_topk_prob": True, "rope_scaling": YARN, **EXPERTS},
    "qwen35": {"model_type": "qwen3_5_text", "rope_parameters": {"rope_theta": 1e4}, **RECURRENT},
    "gpt_oss": {
        "model_type": "gpt_oss",
        "rope_scaling": YARN | {"truncate": False},
        "sliding_window": 16,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "intermediate_size": 32,
        "layer_types": ["sliding_attention", "full_attention"],
    },
}


LATENT_LAYER: dict[str, tuple[int, ...]] = {
    "self_attn.q_a_proj.weight": (16, 32),
    "self_attn.q_a_layernorm.weight": (16,),
    "self_attn.q_b_proj.weight": (160, 16),
    "self_attn.kv_a_proj_with_mqa.weight": (40, 32),
    "self_attn.kv_a_layernorm.weight": (32,),
    "self_attn.kv_b_proj.weight": (256, 32),
    "self_attn.o_proj.weight": (32, 128),
}


def gguf_files(folder: Path) -> dict[str, bytes]:
    script = Path(__file__).with_name("make_tiny_model.py")
    files = {}
    for name, options in FILES.items():
        path = folder / name
        architecture = name if name in (*STATE_SPACES, "granite_swa") else name.split("-")[0].replace("_", "-")
        words = [f"--out={path}", "--seed=1", f"--architecture={architecture}", *SIZES, *options]
        subprocess.run([sys.executable, str(script), *words], check=True)
        files[name] = path.read_bytes()
    return files


def folders() -> dict[str, Folder]:
    return {
        name: {CONFIG: json.dumps(COMMON | config).encode(), TENSORS: save(tensors(name))}
        for name, config in CONFIGS.items()
    }


def tensors(family: str) -> dict[str, np.ndarray]:
    random = np.random.RandomState(1)
    shapes = {"model.embed_tokens.weight": (40, 32), "model.norm.weight": (32,), "lm_head.weight": (40, 32)}
    if family == "gemma4":
        shapes |= gemma4_outer()
    for layer in range(2):
        parts = attention(family) if family != "qwen35" or layer else recurrent()
        if family == "gemma4":
            parts = gemma4_layer(full=layer == 1)
        if family == "deepseek":
            parts = LATENT_LAYER
        shapes |= {f"model.layers.{layer}.{part}": shape for part, shape in (parts | feed_forward(family)).items()}
    return {name: drawn(random, name, shape) for name, shape in shapes.items()}


def drawn(random: np.random.RandomState, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """MXFP4's parts are bytes, all others floats."""
    if name.endswith(("_blocks", "_scales")):
        return random.randint(120, 126, shape).astype(np.uint8)
    return random.standard_normal(shape).astype(np.float32)


def attention(family: str) -> dict[str, tuple[int, ...]]:
    parts: dict[str, tuple[int, ...]] = {f"self_attn.{part}_proj.weight": (16, 32) for part in "kv"}
    parts |= {"self_attn.q_proj.weight": (64 if family == "qwen35" else 32, 32), "self_attn.o_proj.weight": (32, 32)}
    if family == "gpt_oss":
        rows = {"q": 32, "k": 16, "v": 16, "o": 32}
        parts |= {f"self_attn.{part}_proj.bias": (rows[part],) for part in rows} | {"self_attn.sinks": (4,)}
    elif family != "llama":
        parts |= {f"self_attn.{part}_norm.weight": (8,) for part in "qk"}
    return parts


def gemma4_outer() -> dict[str, tuple[int, ...]]:
    return {
        "model.embed_tokens_per_layer.weight": (40, 64),
        "model.per_layer_model_projection.weight": (64, 32),
        "model.per_layer_projection_norm.weight": (32,),
    }


def gemma4_layer(full: bool) -> dict[str, tuple[int, ...]]:
    """All but its feed-forward part."""
    size, kv_heads = (16, 1) if full else (8, 2)
    projections = {"q": (4 * size, 32), "k": (kv_heads * size, 32), "o": (32, 4 * size)}
    parts: dict[str, tuple[int, ...]] = {f"self_attn.{part}_proj.weight": of for part, of in projections.items()}
    if not full:
        parts["self_attn.v_proj.weight"] = (kv_heads * size, 32)
    parts |= {f"self_attn.{part}_norm.weight": (size,) for part in "qk"}
    norms = ["pre_feedforward_layernorm_2", "post_feedforward_layernorm_1", "post_feedforward_layernorm_2"]
    parts |= {f"{norm}.weight": (32,) for norm in (*norms, "post_per_layer_input_norm")}
    return parts | {
        "layer_scalar": (1,),
        "per_layer_input_gate.weight": (32, 32),
        "per_layer_projection.weight": (32, 32),
        "router.proj.weight": (4, 32),
        "router.scale": (32,),
        "router.per_expert_scale": (4,),
        "experts.gate_up_proj": (4, 48, 32),
        "experts.down_proj": (4, 32, 24),
    }


def recurrent() -> dict[str, tuple[int, ...]]:
    projections = {"qkv": 64, "z": 32, "a": 4, "b": 4}
    return {
        **{f"linear_attn.in_proj_{part}.weight": (rows, 32) for part, rows in projections.items()},
        "linear_attn.conv1d.weight": (64, 1, 4),
        "linear_attn.A_log": (4,),
        "linear_attn.dt_bias": (4,),
        "linear_attn.norm.weight": (8,),
        "linear_attn.out_proj.weight": (32, 32),
    }


def feed_forward(family: str) -> dict[str, tuple[int, ...]]:
    norms = ["input_layernorm", "post_attention_layernorm"]
    if family in ("gemma3", "gemma4"):
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    parts: dict[str, tuple[int, ...]] = {f"{norm}.weight": (32,) for norm in norms}
    if family == "gpt_oss":
        return parts | gpt_oss_experts()
    if family not in ("qwen3moe", "deepseek"):
        return (
            parts
            | {f"mlp.{part}_proj.weight": (48, 32) for part in ("gate", "up")}
            | {"mlp.down_proj.weight": (32, 48)}
        )
    for expert in range(4):
        parts |= {f"mlp.experts.{expert}.{part}_proj.weight": (24, 32) for part in ("gate", "up")}
        parts[f"mlp.experts.{expert}.down_proj.weight"] = (32, 24)
    return parts | {"mlp.gate.weight": (4, 32)}


def gpt_oss_experts() -> dict[str, tuple[int, ...]]:
    """Gate and up packed, down as floats, which then lie transposed."""
    return {
        "mlp.router.weight": (4, 32),
        "mlp.router.bias": (4,),
        "mlp.experts.gate_up_proj_blocks": (4, 64, 1, 16),
        "mlp.experts.gate_up_proj_scales": (4, 64, 1),
        "mlp.experts.gate_up_proj_bias": (4, 64),
        "mlp.experts.down_proj": (4, 32, 32),
        "mlp.experts.down_proj_bias": (4, 32),
    }
