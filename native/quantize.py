"""Float matrices made smaller as they are loaded: blocks of 32 along a row, by the gguf package's own arithmetic."""

import re
from collections.abc import Sequence

import numpy as np
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize, quantize

from .files.model_file import Bytes, Tensor, row_bytes
from .files.rearrange import FLOAT_TYPES

TYPES = ("q8_0", "q4_0")
# Never below 8 bits: embeddings, the head, and the small matrices between latent values and heads.
FINE = re.compile(r"(token_embd|per_layer_token_embd|output|blk\.\d+\.attn_(k_b|v_b))\.weight")
MATRICES = re.compile(
    r"blk\.\d+\.(attn_(q|k|v|qkv|gate|output|q_a|q_b|kv_a_mqa)|ffn_(gate|up|down|gate_up)(_exps|_shexp)?"
    r"|ssm_(in|out)|shortconv\.(in|out)_proj|inp_gate|proj|nextn\.eh_proj)\.weight"
)
TOGETHER = 1 << 22  # weights converted at once: the gguf package makes several copies of them


def quantized(tensors: Sequence[Tensor], kind: str) -> list[Tensor]:
    """The float matrices among `tensors` as `kind`, one of TYPES, each converted when it is asked for.

    Norms, biases, routers, the small tensors of recurrent layers, the one product of all inputs that layers take of a
    token, what is quantized already, and rows that are no whole number of blocks stay as they are.
    """
    if kind not in TYPES:
        raise ValueError(f"cannot quantize to {kind!r}, expected {' or '.join(TYPES)}")
    return [_quantized(tensor, kind.upper()) for tensor in tensors]


def _quantized(tensor: Tensor, kind: str) -> Tensor:
    if FINE.fullmatch(tensor.name):
        kind = "Q8_0"
    elif not MATRICES.fullmatch(tensor.name):
        return tensor
    if tensor.type not in FLOAT_TYPES or tensor.columns % 32:
        return tensor

    def read() -> Bytes:
        data = tensor.data
        result = np.empty((tensor.rows, row_bytes(kind, tensor.columns)), np.uint8)
        step = max(1, TOGETHER // tensor.columns)
        for begin in range(0, tensor.rows, step):
            values = dequantize(data[begin : begin + step], GGMLQuantizationType[tensor.type])
            result[begin : begin + step] = quantize(values, GGMLQuantizationType[kind])
        return result

    return Tensor(tensor.name, kind, tensor.rows, tensor.columns, read, tensor.scales)
