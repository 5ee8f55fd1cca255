"""The feed-forward part of the reference: a dense network, or a mixture of experts with or without a shared one."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from .reference_math import Floats, gelu, sigmoid, silu
from .shape import ModelShape

Weights = Mapping[str, Floats]


def feed_forward(shape: ModelShape, weights: Weights, block: str, normed: Floats) -> Floats:
    """The feed-forward output of normed [n, width]: [n, width]."""
    if not shape.experts:
        gate, up, down = (weights[f"{block}.ffn_{part}.weight"] for part in ("gate", "up", "down"))
        return network(shape, normed, gate, up, down)
    mixed = routed(shape, weights, block, normed)
    if shape.shared_ffn:
        gate, up, down = (weights[f"{block}.ffn_{part}_shexp.weight"] for part in ("gate", "up", "down"))
        share = sigmoid(normed @ weights[f"{block}.ffn_gate_inp_shexp.weight"].T)  # [n, 1]
        mixed = mixed + share * network(shape, normed, gate, up, down)
    return mixed


def network(shape: ModelShape, normed: Floats, gate: Floats, up: Floats, down: Floats) -> Floats:
    activation = gelu if shape.activation == "gelu" else silu
    product: Floats = (activation(normed @ gate.T) * (normed @ up.T)) @ down.T  # [n, width]
    return product


def routed(shape: ModelShape, weights: Weights, block: str, normed: Floats) -> Floats:
    """The chosen experts of each position, weighted, added in the order of their ids: [n, width]."""
    gates, ups, downs = (
        weights[f"{block}.ffn_{part}_exps.weight"].reshape(shape.experts, -1, columns)
        for part, columns in (("gate", shape.width), ("up", shape.width), ("down", shape.expert_ffn))
    )
    chosen, shares = choose(shape, normed @ weights[f"{block}.ffn_gate_inp.weight"].T)  # each [n, experts_used]
    mixed = np.zeros_like(normed)
    for expert in range(shape.experts):
        positions, places = np.nonzero(chosen == expert)
        if len(positions):
            output = network(shape, normed[positions], gates[expert], ups[expert], downs[expert])
            mixed[positions] += shares[positions, places, None] * output
    return mixed


def choose(shape: ModelShape, scores: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    """The experts of each position and their weights, from the router's scores [n, experts]; ties to the lower id."""
    likely = np.exp(scores - scores.max(axis=1, keepdims=True))  # [n, experts]
    likely /= likely.sum(axis=1, keepdims=True)
    chosen = np.argsort(-likely, axis=1, kind="stable")[:, : shape.experts_used]  # [n, experts_used]
    shares = np.take_along_axis(likely, chosen, axis=1)
    if shape.normalize_experts:
        shares /= shares.sum(axis=1, keepdims=True)
    return chosen, shares
