"""The recurrent layers of the reference: a gated delta rule or a selective state space (Mamba-2,
https://arxiv.org/abs/2405.21060) behind a short convolution, position by position, or a gated convolution alone
(LFM2's).

A state is never changed in place. What a step fed a layer is kept beside the state that the step began with, so the
state at any position that the step reached can be computed again; the last step may be committed part-way.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .reference_experts import Weights
from .reference_math import Floats, root_mean_square_norm, sigmoid, silu, softplus
from .shape import ModelShape

L2_EPSILON = 1e-6


class Inputs(NamedTuple):
    """What positions feed a layer. A gated convolution has no heads."""

    channels: Floats  # [n, channels], before the convolution: queries, keys, values, or gated inputs
    decays: Floats  # [n, value_heads]
    betas: Floats  # [n, value_heads], of a state space its steps

    def first(self, count: int) -> "Inputs":
        return Inputs(self.channels[:count], self.decays[:count], self.betas[:count])


@dataclass(frozen=True, slots=True)
class LayerState:
    """One layer of one slot."""

    memory: Floats  # [value_heads, key_size, value_size]
    tail: Floats  # [conv_kernel - 1, channels], the last inputs of the convolution


def empty_state(shape: ModelShape) -> LayerState:
    channels = 2 * shape.key_heads * shape.key_size + shape.value_heads * shape.value_size
    if shape.gated_convolution:
        channels = shape.width
    return LayerState(
        np.zeros((shape.value_heads, shape.key_size, shape.value_size), np.float32),
        np.zeros((shape.conv_kernel - 1, channels), np.float32),
    )


def read_inputs(shape: ModelShape, weights: Weights, block: str, normed: Floats) -> Inputs:
    """What normed [n, width] feeds the layer."""
    if shape.gated_convolution:
        gates, _, inputs = np.split(normed @ weights[f"{block}.shortconv.in_proj.weight"].T, 3, axis=1)
        return Inputs(gates * inputs, *np.zeros((2, len(normed), 0), np.float32))
    steps = softplus(normed @ weights[f"{block}.ssm_alpha.weight"].T + weights[f"{block}.ssm_dt.bias"])
    betas = steps if shape.state_space else sigmoid(normed @ weights[f"{block}.ssm_beta.weight"].T)
    return Inputs(normed @ weights[f"{block}.attn_qkv.weight"].T, np.exp(weights[f"{block}.ssm_a"] * steps), betas)


def advance(
    shape: ModelShape, weights: Weights, block: str, state: LayerState, inputs: Inputs
) -> tuple[LayerState, Floats]:
    """The state after the inputs, and what each position reads: [n, value_heads, value_size], of a gated convolution
    [n, width]."""
    count, taps = len(inputs.channels), convolution(shape, weights, block)
    line = np.concatenate([state.tail, inputs.channels])  # [conv_kernel - 1 + n, channels]
    mixed = np.zeros_like(inputs.channels)
    for tap in range(shape.conv_kernel):  # tap 0 is for the oldest input
        mixed += taps[:, tap] * line[tap : tap + count]
    if shape.gated_convolution:
        return LayerState(state.memory, line[count:]), mixed
    mixed = silu(mixed + weights.get(f"{block}.ssm_conv1d.bias", np.float32(0)))
    queries, keys, values = _vectors(shape, mixed)
    memory = state.memory
    outputs = np.empty_like(values)
    for at in range(count):
        memory = memory * inputs.decays[at, :, None, None]
        known = np.float32(0)
        if not shape.state_space:
            known = np.einsum("hkv,hk->hv", memory, keys[at])  # [value_heads, value_size]
        change = inputs.betas[at, :, None] * (values[at] - known)
        memory = memory + keys[at, :, :, None] * change[:, None]
        outputs[at] = np.einsum("hkv,hk->hv", memory, queries[at])
    if shape.state_space:
        outputs += weights[f"{block}.ssm_d"].reshape(-1, 1) * values
    return LayerState(memory, line[count:]), outputs


def convolution(shape: ModelShape, weights: Weights, block: str) -> Floats:
    """Its taps: [channels, conv_kernel]."""
    return weights[f"{block}.{'shortconv.conv' if shape.gated_convolution else 'ssm_conv1d'}.weight"]


def _vectors(shape: ModelShape, mixed: Floats) -> tuple[Floats, Floats, Floats]:
    """Of mixed [n, channels]: queries and keys [n, value_heads, key_size], values [n, value_heads, value_size]."""
    count, of_keys = len(mixed), shape.key_heads * shape.key_size
    if shape.state_space:
        values, keys, queries = np.split(mixed, [mixed.shape[1] - 2 * of_keys, mixed.shape[1] - of_keys], axis=1)
    else:
        queries, keys, values = np.split(mixed, [of_keys, 2 * of_keys], axis=1)
    heads = np.arange(shape.value_heads)
    read = heads // (shape.value_heads // shape.key_heads) if shape.grouped_heads else heads % shape.key_heads
    queries, keys = (each.reshape(count, shape.key_heads, shape.key_size) for each in (queries, keys))
    if not shape.state_space:
        queries, keys = _unit(queries) * np.float32(1 / np.sqrt(shape.key_size)), _unit(keys)
    return queries[:, read], keys[:, read], values.reshape(count, shape.value_heads, shape.value_size)


def _unit(vectors: Floats) -> Floats:
    """[..., key_size], of length one."""
    unit: Floats = vectors / np.sqrt(np.sum(vectors * vectors, axis=-1, keepdims=True) + np.float32(L2_EPSILON))
    return unit


def gated(shape: ModelShape, weights: Weights, block: str, normed: Floats, outputs: Floats) -> Floats:
    """What the layer gives for normed [n, width] and the outputs of `advance`: [n, width]."""
    if shape.gated_convolution:
        _, gates, _ = np.split(normed @ weights[f"{block}.shortconv.in_proj.weight"].T, 3, axis=1)
        convolved: Floats = (outputs * gates) @ weights[f"{block}.shortconv.out_proj.weight"].T
        return convolved
    gates = silu((normed @ weights[f"{block}.attn_gate.weight"].T).reshape(outputs.shape))
    norm = weights[f"{block}.ssm_norm.weight"]
    if shape.state_space:  # of all heads of a group, with weights for each
        groups = (outputs * gates).reshape(len(normed), shape.key_heads, -1)
        kept = root_mean_square_norm(groups, norm.reshape(shape.key_heads, -1), shape.norm_epsilon)
    else:
        kept = root_mean_square_norm(outputs, norm, shape.norm_epsilon) * gates
    product: Floats = kept.reshape(len(normed), -1) @ weights[f"{block}.ssm_out.weight"].T
    return product
