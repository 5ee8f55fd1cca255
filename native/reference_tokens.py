"""What each layer of the reference takes of a token itself: Gemma's "per-layer embeddings"."""

from collections.abc import Mapping

from .reference_experts import activated
from .reference_math import Floats, Integers, root_mean_square_norm
from .shape import ModelShape

Weights = Mapping[str, Floats]


def token_inputs(shape: ModelShape, weights: Weights, ids: Integers, embedded: Floats) -> Floats:
    """The inputs of all layers, of ids [n] whose scaled embeddings are [n, width]: [n, layers, token_inputs]. Constant
    factors are in the weights (arrange.py)."""
    if not shape.token_inputs:
        return embedded[:, :0]
    split = (len(ids), shape.layers, shape.token_inputs)
    projected = (embedded @ weights["per_layer_model_proj.weight"].T).reshape(split)
    normed = root_mean_square_norm(projected, weights["per_layer_proj_norm.weight"], shape.norm_epsilon)
    return normed + weights["per_layer_token_embd.weight"][ids].reshape(split)


def taken_in(shape: ModelShape, weights: Weights, layer: int, hidden: Floats, inputs: Floats) -> Floats:
    """What a layer adds at its end to hidden [n, width] for inputs [n, token_inputs]: [n, width]."""
    block = f"blk.{layer}"
    gated = activated(shape, hidden @ weights[f"{block}.inp_gate.weight"].T, inputs)  # [n, token_inputs]
    output = gated @ weights[f"{block}.proj.weight"].T
    return root_mean_square_norm(output, weights[f"{block}.post_norm.weight"], shape.norm_epsilon)
