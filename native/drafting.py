"""The layers of some models that draft tokens ahead (multi-token prediction): they follow the others in a file and are
counted with them. One that the cores can compute is used where drafts are wanted; the text is the same without it.

Such a layer predicts, from a token and what the model made of the token before it, the token after: its input is a
product of the norms of both, and the rest of it is a layer as others with full attention, a last norm, and the model's
own head (DeepSeek-V3's report, 2.2; llama.cpp's draft-mtp).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .files.model_file import Tensor

DRAFTING = "nextn_predict_layers"
REPEATING = ("glm4moe", "deepseek2")  # their files have the model's embedding and head again in that layer
ARCHITECTURES = ("qwen35", "qwen35moe", "qwen3next", *REPEATING)  # whose layers that draft are used
LAYER = re.compile(r"blk\.(\d{1,9})\.")
JOIN = "nextn.eh_proj.weight"
FINAL_NORM = "nextn.shared_head_norm.weight"  # the model's own where it is missing
OWN_ENDS = ("nextn.embed_tokens.weight", "nextn.shared_head_head.weight")  # where it has an embedding and a head


def without_drafting(values: Mapping[str, Any], tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors of a file with the metadata `values`, without those of such layers. Impossible counts are left for
    read_shape to refuse."""
    return [tensor for tensor in tensors if not _drafts(values, tensor)]


def with_drafting(values: Mapping[str, Any], tensors: Sequence[Tensor]) -> list[Tensor]:
    """The same with the layer that drafts, if it is one that the cores can compute."""
    architecture = values.get("general.architecture")
    if architecture not in ARCHITECTURES or values.get(f"{architecture}.{DRAFTING}") != 1:
        return without_drafting(values, tensors)
    if architecture in REPEATING:
        tensors = [tensor for tensor in tensors if not tensor.name.endswith(OWN_ENDS)]
    own = [tensor.name for tensor in tensors if _drafts(values, tensor)]
    if not any(name.endswith(JOIN) for name in own) or any(name.endswith(OWN_ENDS) for name in own):
        return without_drafting(values, tensors)
    return list(tensors)


def _drafts(values: Mapping[str, Any], tensor: Tensor) -> bool:
    architecture = values.get("general.architecture")
    layers, drafting = (values.get(f"{architecture}.{key}") for key in ("block_count", DRAFTING))
    if type(layers) is not int or type(drafting) is not int or not 0 < drafting < layers:
        return False
    return layers - drafting <= _layer(tensor) < layers


def _layer(tensor: Tensor) -> int:
    match = LAYER.match(tensor.name)
    return int(match[1]) if match else -1
