"""The layers of some models that draft tokens ahead: they follow the others in a file, are counted with them, and are
not used.

The text is the same without them.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .files.model_file import Tensor

DRAFTING = "nextn_predict_layers"
LAYER = re.compile(r"blk\.(\d{1,9})\.")


def without_drafting(values: Mapping[str, Any], tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors of a file with the metadata `values`, without those of such layers. Impossible counts are left for
    read_shape to refuse."""
    architecture = values.get("general.architecture")
    layers, drafting = (values.get(f"{architecture}.{key}") for key in ("block_count", DRAFTING))
    if type(layers) is not int or type(drafting) is not int or not 0 < drafting < layers:
        return list(tensors)
    return [tensor for tensor in tensors if not layers - drafting <= _layer(tensor) < layers]


def _layer(tensor: Tensor) -> int:
    match = LAYER.match(tensor.name)
    return int(match[1]) if match else -1
