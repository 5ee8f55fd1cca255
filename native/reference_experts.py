"""The feed-forward part of the reference: a dense network, or a mixture of experts with or without a shared one."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from .reference_math import Floats, centered, clamped, gelu, root_mean_square_norm, sigmoid, silu, xielu
from .shape import ModelShape

Weights = Mapping[str, Floats]


def feed_forward(shape: ModelShape, weights: Weights, layer: int, hidden: Floats) -> Floats:
    """The feed-forward output of hidden [n, width], which most models norm first: [n, width]."""
    block = f"blk.{layer}"

    def norm(vectors: Floats, name: str) -> Floats:
        return root_mean_square_norm(vectors, weights[f"{block}.{name}.weight"], shape.norm_epsilon)

    hidden = centered(hidden) if shape.layer_norm else hidden
    normed = norm(hidden, shape.ffn_norm) if shape.pre_norms else hidden
    if not shape.experts or layer < shape.dense_layers:
        return dense(shape, weights, block, ".weight", normed)
    if shape.expert_norms:
        mixed = routed(shape, weights, block, norm(hidden, "pre_ffw_norm_2"), norm(hidden, "ffn_gate_inp_norm"))
        mixed = norm(mixed, "post_ffw_norm_2")
    else:
        mixed = routed(shape, weights, block, normed, normed)
    if shape.shared_ffn:
        shared = dense(shape, weights, block, "_shexp.weight", normed)
        if shape.shared_gated:
            shared = sigmoid(normed @ weights[f"{block}.ffn_gate_inp_shexp.weight"].T) * shared
        mixed = mixed + (norm(shared, "post_ffw_norm_1") if shape.expert_norms else shared)
    return mixed


def dense(shape: ModelShape, weights: Weights, block: str, ending: str, normed: Floats) -> Floats:
    """Of normed [n, width]; `ending`: of the matrices' names."""
    up = normed @ weights[f"{block}.ffn_up{ending}"].T
    gate = normed @ weights[f"{block}.ffn_gate{ending}"].T if shape.gated else up
    curved = xielu(up, weights[f"{block}.ffn_xielu.weight"][0]) if shape.curves else activated(shape, gate, up)
    output: Floats = curved @ weights[f"{block}.ffn_down{ending}"].T
    return output


def activated(shape: ModelShape, gate: Floats, up: Floats) -> Floats:
    """Without a gate, up alone counts."""
    if shape.activation == "relu2":
        return np.maximum(up, 0) ** 2
    if shape.activation == "clamped":
        return clamped(gate, up)
    return (gelu if shape.activation == "gelu" else silu)(gate) * up


def routed(shape: ModelShape, weights: Weights, block: str, normed: Floats, asked: Floats) -> Floats:
    """The chosen experts of each position, weighted, added in the order of their ids: [n, width]. `asked` [n, width] is
    what the router reads, `normed` [n, width] what the experts read."""
    ups, downs = (
        weights[f"{block}.ffn_{part}_exps.weight"].reshape(shape.experts, -1, columns)
        for part, columns in (("up", shape.width), ("down", shape.expert_ffn))
    )
    gates = weights[f"{block}.ffn_gate_exps.weight"].reshape(ups.shape) if shape.gated else ups
    gate_bias, up_bias, down_bias = (
        weights.get(f"{block}.ffn_{part}_exps.bias", np.zeros((shape.experts, 1), np.float32))
        for part in ("gate", "up", "down")
    )
    router_bias = weights.get(f"{block}.ffn_gate_inp.bias", np.float32(0))
    scores = asked @ weights[f"{block}.ffn_gate_inp.weight"].T + router_bias
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
    if shape.expert_groups > 1:
        keys = np.where(_in_chosen_groups(shape, keys), keys, np.float32(-np.inf))
    chosen = np.argsort(-keys, axis=1, kind="stable")[:, : shape.experts_used]  # [n, experts_used]
    shares = np.take_along_axis(likely, chosen, axis=1)
    if shape.normalize_experts:
        shares /= shares.sum(axis=1, keepdims=True) + np.float32(1e-20)
    return chosen, shares


def _in_chosen_groups(shape: ModelShape, keys: Floats) -> npt.NDArray[np.bool_]:
    """Of keys [n, experts], by which experts are chosen: those of the groups with the largest sums of two keys, or, as
    DeepSeek V2's by a softmax, with the largest keys; ties to the lower group. [n, experts]."""
    grouped = np.sort(keys.reshape(len(keys), shape.expert_groups, -1), axis=2)
    scores = grouped[..., -2:].sum(axis=2) if shape.sigmoid_routing else grouped[..., -1]  # [n, groups]
    best = np.argsort(-scores, axis=1, kind="stable")[:, : shape.groups_used]
    chosen = np.zeros(scores.shape, bool)
    np.put_along_axis(chosen, best, True, axis=1)
    return np.repeat(chosen, shape.experts // shape.expert_groups, axis=1)
