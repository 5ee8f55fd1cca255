"""The parts of a gpt-oss layer that no other family has: biases, and experts whose gate and up are every second
row of one matrix. Matrices that are not MXFP4 lie transposed in a folder."""

import numpy as np

from .folder_parts import Parts, float32
from .folder_sizes import Sizes
from .model_file import Tensor
from .mxfp4 import MXFP4, every_second
from .rearrange import as_float32, floats, take_rows, transposed


def gpt_oss_parts() -> Parts:
    return {
        "self_attn.o_proj.bias": (("attn_output.bias", float32),),
        "mlp.router.weight": (("ffn_gate_inp.weight", float32),),
        "mlp.router.bias": (("ffn_gate_inp.bias", float32),),
        "mlp.experts.gate_up_proj": (("ffn_gate_exps.weight", _gates), ("ffn_up_exps.weight", _ups)),
        "mlp.experts.gate_up_proj_bias": (("ffn_gate_exps.bias", _gate_biases), ("ffn_up_exps.bias", _up_biases)),
        "mlp.experts.down_proj": (("ffn_down_exps.weight", _upright),),
        "mlp.experts.down_proj_bias": (("ffn_down_exps.bias", float32),),
    }


def _upright(tensor: Tensor, sizes: Sizes) -> Tensor:
    """[experts * outputs, inputs]"""
    return tensor if tensor.type == MXFP4 else transposed(tensor, sizes.experts)


def _gates(tensor: Tensor, sizes: Sizes) -> Tensor:
    return _rows(tensor, sizes, 0)


def _ups(tensor: Tensor, sizes: Sizes) -> Tensor:
    return _rows(tensor, sizes, 1)


def _rows(tensor: Tensor, sizes: Sizes, first: int) -> Tensor:
    if tensor.type == MXFP4:
        return every_second(tensor, first)
    upright = _upright(tensor, sizes)
    return take_rows(upright, np.arange(first, upright.rows, 2))


def _gate_biases(tensor: Tensor, sizes: Sizes) -> Tensor:
    return _columns(as_float32(tensor), 0)


def _up_biases(tensor: Tensor, sizes: Sizes) -> Tensor:
    return _columns(as_float32(tensor), 1)


def _columns(tensor: Tensor, first: int) -> Tensor:
    columns = len(range(first, tensor.columns, 2))
    return Tensor(
        tensor.name,
        tensor.type,
        tensor.rows,
        columns,
        lambda: np.ascontiguousarray(floats(tensor)[:, first::2]).view(np.uint8),
    )
