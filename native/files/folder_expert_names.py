"""The parts of a layer with experts, and which of them is one expert's matrix."""

import re

import numpy as np

from ..families import FAMILIES
from .folder_gemma4 import gemma4_expert_parts
from .folder_parts import Change, Parts, float32, same
from .folder_sizes import Sizes
from .model_file import Tensor
from .rearrange import take_rows, transposed

EXPERT = re.compile(r"(?:(?:mlp|mixer)\.)?experts\.(\d+)\.(gate_proj|up_proj|down_proj)\.weight")
MIXTRALS_EXPERT = re.compile(r"(?:block_sparse_moe|feed_forward)\.experts\.(\d+)\.(w1|w2|w3)\.weight")
KINDS = {"gate_proj": "gate", "up_proj": "up", "down_proj": "down", "w1": "gate", "w3": "up", "w2": "down"}
CHOICE_BIASES = (
    "mlp.gate.e_score_correction_bias",
    "mlp.moe_statics.e_score_correction_bias",  # of ERNIE
    "mlp.e_score_correction_bias",  # of MiniMax and EXAONE
    "mlp.experts.e_score_correction_bias",  # of Laguna
    "block_sparse_moe.e_score_correction_bias",
    "feed_forward.expert_bias",  # of LFM2
    "mlp.expert_bias",  # of AFMoE
)


def expert_matrix(part: str, sizes: Sizes) -> tuple[str, int] | None:
    """The kind of an expert's matrix, and the expert's number."""
    found = EXPERT.fullmatch(part) or MIXTRALS_EXPERT.fullmatch(part) if sizes.experts else None
    return (KINDS[found[2]], int(found[1])) if found else None


def expert_parts(architecture: str) -> Parts:
    if architecture in ("granitemoe", "granitehybrid", "granite_swa"):
        return _granite_parts()
    if architecture == "gemma4":
        return gemma4_expert_parts()
    family = FAMILIES[architecture]
    parts: dict[str, tuple[tuple[str, Change], ...]] = {
        "mlp.gate.weight": (("ffn_gate_inp.weight", float32),),
        "block_sparse_moe.gate.weight": (("ffn_gate_inp.weight", float32),),
        "mlp.gate.wg.weight": (("ffn_gate_inp.weight", float32),),  # Hunyuan's
        "mlp.router.gate.weight": (("ffn_gate_inp.weight", float32),),  # AFMoE's
        # all experts in one tensor: [experts, 2 * ffn, width] and [experts, width, ffn]; of Qwen 3 VL transposed
        "mlp.experts.gate_up_proj": (("ffn_gate_exps.weight", _first_halves), ("ffn_up_exps.weight", _second_halves)),
        "mlp.experts.down_proj": (("ffn_down_exps.weight", _downs),),
    }
    if family.gated_convolution:
        parts = {name.replace("mlp.", "feed_forward."): changes for name, changes in parts.items()}
    if family.shared_gated:
        parts["mlp.shared_expert_gate.weight"] = (("ffn_gate_inp_shexp.weight", float32),)
    if family.shared_expert:
        shared = "shared_expert" if family.shared_gated else "shared_experts"
        shared = "shared_mlp" if architecture == "hunyuan-moe" else shared
        for part in ("gate", "up", "down"):
            parts[f"mlp.{shared}.{part}_proj.weight"] = ((f"ffn_{part}_shexp.weight", same),)
            if architecture == "laguna":  # it has one, and folders call it either
                parts[f"mlp.shared_expert.{part}_proj.weight"] = ((f"ffn_{part}_shexp.weight", same),)
    if family.may_bias_choice:
        parts |= dict.fromkeys(CHOICE_BIASES, (("exp_probs_b.bias", float32),))
    return parts


def _granite_parts() -> Parts:
    """The matrices of all experts in one tensor, gates before ups, and those of the shared one alike."""
    return {
        "block_sparse_moe.router.layer.weight": (("ffn_gate_inp.weight", float32),),
        "block_sparse_moe.input_linear.weight": (
            ("ffn_gate_exps.weight", _first_halves),
            ("ffn_up_exps.weight", _second_halves),
        ),
        "block_sparse_moe.output_linear.weight": (("ffn_down_exps.weight", same),),
        # of those with windows
        "block_sparse_moe.router.weight": (("ffn_gate_inp.weight", float32),),
        "block_sparse_moe.experts.gate_up_proj": (
            ("ffn_gate_exps.weight", _first_halves),
            ("ffn_up_exps.weight", _second_halves),
        ),
        "block_sparse_moe.experts.down_proj": (("ffn_down_exps.weight", same),),
        **granite_shared_parts("_shexp"),
    }


def granite_shared_parts(ending: str) -> Parts:
    """Of the expert that all positions use, which without others is a plain feed-forward part; `ending`: of names."""
    return {
        "shared_mlp.input_linear.weight": ((f"ffn_gate{ending}.weight", _upper), (f"ffn_up{ending}.weight", _lower)),
        "shared_mlp.output_linear.weight": ((f"ffn_down{ending}.weight", same),),
    }


def _first_halves(tensor: Tensor, sizes: Sizes) -> Tensor:
    return _half(_upright_inputs(tensor, sizes), sizes.experts, 0)


def _second_halves(tensor: Tensor, sizes: Sizes) -> Tensor:
    return _half(_upright_inputs(tensor, sizes), sizes.experts, 1)


def _upper(tensor: Tensor, sizes: Sizes) -> Tensor:
    return _half(tensor, 1, 0)


def _lower(tensor: Tensor, sizes: Sizes) -> Tensor:
    return _half(tensor, 1, 1)


def _half(tensor: Tensor, experts: int, which: int) -> Tensor:
    """The first or the second half of each expert's rows."""
    if tensor.rows % (2 * experts):
        raise ValueError(f"the tensor {tensor.name!r} has {tensor.rows} rows, expected a multiple of {2 * experts}")
    return take_rows(tensor, np.arange(tensor.rows).reshape(experts, 2, -1)[:, which].ravel())


def _upright_inputs(tensor: Tensor, sizes: Sizes) -> Tensor:
    return _upright(tensor, sizes, tensor.columns == sizes.width)


def _downs(tensor: Tensor, sizes: Sizes) -> Tensor:
    return _upright(tensor, sizes, tensor.rows == sizes.experts * sizes.width)


def _upright(tensor: Tensor, sizes: Sizes, fits: bool) -> Tensor:
    """[experts * outputs, inputs]; square ones are taken as they lie, as in transformers."""
    return tensor if fits else transposed(tensor, sizes.experts)
