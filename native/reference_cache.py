"""What the reference keeps of a slot."""

from dataclasses import dataclass, field

import numpy as np

from .reference_math import Floats
from .reference_recurrent import Inputs, LayerState
from .shape import ModelShape


@dataclass(slots=True)
class SlotCache:
    """Keys and values of one slot; what lies at and beyond `committed` is scratch.

    Recurrent layers: their state where the last step `began`, and what that step fed them.
    """

    keys: dict[int, Floats]  # of each layer that keeps any: [kv_heads, capacity, head_size]
    values: dict[int, Floats]  # likewise; none where they are the latent part of the keys
    committed: int = 0
    written: int = 0
    began: int = 0
    states: dict[int, LayerState] = field(default_factory=dict)  # by layer
    inputs: dict[int, Inputs] = field(default_factory=dict)  # by layer

    def reserve(self, length: int) -> None:
        for kept in (self.keys, self.values):
            for layer, vectors in kept.items():
                capacity = vectors.shape[1]
                if length > capacity:
                    room = ((0, 0), (0, max(length, 2 * capacity) - capacity), (0, 0))
                    kept[layer] = np.pad(vectors, room)


def empty_cache(shape: ModelShape) -> SlotCache:
    layers = range(shape.layers + shape.drafting)
    keeps = [layer for layer in layers if shape.attends(layer) and shape.keeper_of(layer) == layer]
    sizes = {layer: shape.heads_of(shape.kinds[layer]) for layer in keeps}
    keys, values = (
        {layer: np.zeros((heads.kv_heads, 0, heads.head_size), np.float32) for layer, heads in kept.items()}
        for kept in (sizes, {} if shape.latent else sizes)
    )
    return SlotCache(keys, values)
