"""The weights of a tensor in float32, whatever its type."""

import numpy as np
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize

from .reference_math import Floats
from .weights import Tensor


def to_float32(tensor: Tensor) -> Floats:
    """The weights of a tensor, times its scales: [rows, columns]."""
    floats = np.ascontiguousarray(dequantize(tensor.data, GGMLQuantizationType[tensor.type]), np.float32)
    if tensor.scales:
        floats = floats.reshape(len(tensor.scales), -1) * np.array(tensor.scales, np.float32)[:, None]
    return floats.reshape(tensor.rows, tensor.columns)
