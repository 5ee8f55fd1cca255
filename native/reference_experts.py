"""The feed-forward part of the reference: a dense network, or a mixture of experts with or without a shared one."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from .reference_math import Floats, clamped, gelu, sigmoid, silu
from .shape import ModelShape

Weights = Mapping[str, Floats]


def feed_forward(shape: ModelShape, weights: Weights, layer: int, normed: Floats) -> Floats:
    """The feed-forward output of normed [n, width]: [n, width]."""
    block = f"blk.{layer}"
    if not shape.experts or layer < shape.dense_layers:
        gate, up, down = (weights[f"{block}.ffn_{part}.weight"] for part in ("gate", "up", "down"))
        return activated(shape, normed @ gate.T, normed @ up.T) @ down.T
    mixed = routed(shape, weights, block, normed)
    if shape.shared_ffn:
        gate, up, down = (weights[f"{block}.ffn_{part}_shexp.weight"] for part in ("gate", "up", "down"))
        shared = activated(shape, normed @ gate.T, normed @ up.T) @ down.T
        if shape.shared_gated:
            shared = sigmoid(normed @ weights[f"{block}.ffn_gate_inp_shexp.weight"].T) * shared
        mixed = mixed + shared
    return mixed


def activated(shape: ModelShape, gate: Floats, up: Floats) -> Floats:
    if shape.activation == "clamped":
        return clamped(gate, up)
    return (gelu if shape.activation == "gelu" else silu)(gate) * up


def routed(shape: ModelShape, weights: Weights, block: str, normed: Floats) -> Floats:
    """The chosen experts of each position, weighted, added in the order of their ids: [n, width]."""
    gates, ups, downs = (
        weights[f"{block}.ffn_{part}_exps.weight"].reshape(shape.experts, -1, columns)
        for part, columns in (("gate", shape.width), ("up", shape.width), ("down", shape.expert_ffn))
    )
    gate_bias, up_bias, down_bias = (
        weights.get(f"{block}.ffn_{part}_exps.bias", np.zeros((shape.experts, 1), np.float32))
        for part in ("gate", "up", "down")
    )
    router_bias = weights.get(f"{block}.ffn_gate_inp.bias", np.float32(0))
    scores = normed @ weights[f"{block}.ffn_gate_inp.weight"].T + router_bias
    chosen, shares = choose(shape, scores, weights.get(f"{block}.exp_probs_b.bias"))  # each [n, experts_used]
    mixed = np.zeros_like(normed)
    for expert in range(shape.experts):
        positions, places = np.nonzero(chosen == expert)
        if len(positions):
            inputs = normed[positions]
            gate, up = inputs @ gates[expert].T + gate_bias[expert], inputs @ ups[expert].T + up_bias[expert]
            output = activated(shape, gate, up) @ downs[expert].T + down_bias[expert]
            mixed[positions] += shares[positions, places, None] * output
    return mixed


def choose(shape: ModelShape, scores: Floats, bias: Floats | None) -> tuple[npt.NDArray[np.int64], Floats]:
    """The experts of each position and their weights, from the router's scores [n, experts]; ties to the lower id."""
    if shape.sigmoid_routing:
        likely = sigmoid(scores)  # [n, experts]
    else:
        likely = np.exp(scores - scores.max(axis=1, keepdims=True))
        likely /= likely.sum(axis=1, keepdims=True)
    keys = likely if bias is None else likely + bias
    chosen = np.argsort(-keys, axis=1, kind="stable")[:, : shape.experts_used]  # [n, experts_used]
    shares = np.take_along_axis(likely, chosen, axis=1)
    if shape.normalize_experts:
        shares /= shares.sum(axis=1, keepdims=True) + np.float32(1e-20)
    return chosen, shares
