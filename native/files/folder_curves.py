"""The constants of xIELU, which a Hugging Face folder of Apertus has as tensors and GGUF as keys."""

import re
from collections.abc import Mapping
from typing import Any

from .model_file import Tensor
from .rearrange import floats

CONSTANT = re.compile(r"model\.layers\.(\d+)\.mlp\.act_fn\.(alpha_p|alpha_n|beta|eps)")
USUAL = {"beta": 0.5, "eps": -1e-6}  # where a folder does not store them
NAMES = ("alpha_p", "alpha_n", "beta", "eps")


def split_curves(found: Mapping[str, Tensor], layers: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The other tensors, and each layer's constants under GGUF's keys. Raises ValueError naming what is wrong."""
    others: dict[str, Tensor] = {}
    constants: dict[tuple[str, int], float] = {}
    for name, tensor in found.items():
        if not (match := CONSTANT.fullmatch(name)):
            others[name] = tensor
            continue
        if (tensor.rows, tensor.columns) != (1, 1):
            raise ValueError(f"the tensor {name!r} is [{tensor.rows}, {tensor.columns}], expected one number")
        constants[match[2], int(match[1])] = float(floats(tensor)[0, 0])
    return others, {f"xielu.{name}": [_constant(constants, name, layer) for layer in range(layers)] for name in NAMES}


def _constant(constants: Mapping[tuple[str, int], float], name: str, layer: int) -> float:
    if (value := constants.get((name, layer), USUAL.get(name))) is None:
        raise ValueError(f"the tensor 'model.layers.{layer}.mlp.act_fn.{name}' is missing")
    return value
