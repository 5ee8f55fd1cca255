"""Tiny folders of the families with leading dense layers, a bias of the choice or shared experts without a gate, with
the names that published ones have."""

from pathlib import Path
from typing import Any

import numpy as np

from .folders import LLAMA, llama_tensors, write_folder

WIDTH, FFN, EXPERTS, EXPERT_FFN = 64, 96, 5, 24
SHARED = {"glm4_moe": 1, "dots1": 2, "ernie4_5_moe": 2}  # experts
SHARED_FFN = 20  # of granitemoeshared
KINDS = (*SHARED, "granitemoe", "granitemoeshared")
DENSE = {"first_k_dense_replace": 1, "n_routed_experts": EXPERTS, "num_experts_per_tok": 2, "sliding_window": None}
ERNIE = {"moe_num_experts": EXPERTS, "moe_k": 2, "moe_layer_start_index": 1, "moe_layer_end_index": 1}
GRANITE = {"intermediate_size": EXPERT_FFN, "num_local_experts": EXPERTS, "num_experts_per_tok": 2}
OWN: dict[str, dict[str, Any]] = {
    "glm4_moe": DENSE | {"n_shared_experts": 1, "num_nextn_predict_layers": 1, "partial_rotary_factor": 0.5},
    "dots1": DENSE | {"n_shared_experts": 2},
    "ernie4_5_moe": ERNIE | {"moe_num_shared_experts": 2},
    "granitemoe": GRANITE,
    "granitemoeshared": GRANITE | {"shared_intermediate_size": SHARED_FFN},
}
NORMS = [f"model.layers.{layer}.self_attn.{part}_norm.weight" for layer in range(2) for part in "qk"]


def routed_folder(
    path: Path, kind: str, changes: dict[str, Any] | None = None, more: dict[str, Any] | None = None
) -> Path:
    """A folder of two layers whose config.json has `changes`, and whose file has `more` tensors."""
    config = LLAMA | {"model_type": kind, "moe_intermediate_size": EXPERT_FFN} | OWN[kind] | (changes or {})
    return write_folder(path, routed_tensors(kind) | (more or {}), config)


def routed_tensors(kind: str) -> dict[str, Any]:
    tensors = llama_tensors()
    layers = (0, 1) if kind.startswith("granitemoe") else (1,)  # the others begin with a dense one
    for layer in layers:
        start = f"model.layers.{layer}."
        for part in ("gate", "up", "down"):
            del tensors[f"{start}mlp.{part}_proj.weight"]
        parts = granite_parts(kind) if kind.startswith("granitemoe") else expert_parts(kind)
        tensors |= {f"{start}{part}": values for part, values in parts.items()}
    if kind == "dots1":
        tensors |= {name: np.ones(16, np.float32) for name in NORMS}
    return tensors


def expert_parts(kind: str) -> dict[str, Any]:
    parts = {"mlp.gate.weight": matrix(EXPERTS, WIDTH)}
    if kind == "ernie4_5_moe":
        parts["mlp.moe_statics.e_score_correction_bias"] = matrix(1, EXPERTS)
    else:
        parts["mlp.gate.e_score_correction_bias"] = matrix(1, EXPERTS)[0]
    widths = {f"experts.{number}": EXPERT_FFN for number in range(EXPERTS)}
    widths["shared_experts"] = SHARED[kind] * EXPERT_FFN
    for name, width in widths.items():
        parts |= {f"mlp.{name}.{part}_proj.weight": matrix(width, WIDTH) for part in ("gate", "up")}
        parts[f"mlp.{name}.down_proj.weight"] = matrix(WIDTH, width)
    return parts


def granite_parts(kind: str) -> dict[str, Any]:
    parts = {
        "block_sparse_moe.router.layer.weight": matrix(EXPERTS, WIDTH),
        "block_sparse_moe.input_linear.weight": matrix(EXPERTS, 2 * EXPERT_FFN, WIDTH),
        "block_sparse_moe.output_linear.weight": matrix(EXPERTS, WIDTH, EXPERT_FFN),
    }
    if kind == "granitemoeshared":
        parts["shared_mlp.input_linear.weight"] = matrix(2 * SHARED_FFN, WIDTH)
        parts["shared_mlp.output_linear.weight"] = matrix(WIDTH, SHARED_FFN)
    return parts


def matrix(*sizes: int) -> Any:
    return np.random.RandomState(sum(sizes)).standard_normal(sizes).astype(np.float32)
