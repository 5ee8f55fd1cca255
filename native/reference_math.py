"""The small functions of the reference, in float32."""

import numpy as np
import numpy.typing as npt

from .family import RopeLayout

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


def sigmoid(inputs: Floats) -> Floats:
    """1 / (1 + exp(-x)), written so that nothing overflows."""
    result: Floats = np.float32(0.5) * (1 + np.tanh(inputs * np.float32(0.5)))
    return result


def silu(inputs: Floats) -> Floats:
    """x / (1 + exp(-x)), written so that nothing overflows."""
    half = inputs * np.float32(0.5)
    result: Floats = half * (1 + np.tanh(half))
    return result


def gelu(inputs: Floats) -> Floats:
    """x / 2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))."""
    half = inputs * np.float32(0.5)
    result: Floats = half * (1 + np.tanh(np.float32(np.sqrt(2 / np.pi)) * (inputs + np.float32(0.044715) * inputs**3)))
    return result


def clamped(gate: Floats, up: Floats) -> Floats:
    """g / (1 + exp(-1.702 g)) · (u + 1) with g = min(gate, 7) and u = up within -7 … 7: the activation of gpt-oss."""
    bounded = np.minimum(gate, np.float32(7))
    result: Floats = bounded * sigmoid(np.float32(1.702) * bounded) * (np.clip(up, np.float32(-7), np.float32(7)) + 1)
    return result


def softplus(inputs: Floats) -> Floats:
    """log(1 + exp(x))."""
    return np.logaddexp(np.float32(0), inputs)


def xielu(inputs: Floats, curve: Floats) -> Floats:
    """p x² + l x above 0, n (exp(x) - 1 - x) + l x below, of a curve (p, n, l): https://arxiv.org/abs/2411.13010."""
    positive, negative, linear = curve
    below = np.minimum(inputs, 0)
    result: Floats = positive * np.maximum(inputs, 0) ** 2 + negative * (np.expm1(below) - below) + linear * inputs
    return result


def softcap(inputs: Floats, cap: float) -> Floats:
    """cap · tanh(x / cap), so that no input leaves -cap..cap; a cap of 0 leaves them unchanged."""
    return np.float32(cap) * np.tanh(inputs / np.float32(cap)) if cap else inputs


def likeliest(logits: Floats) -> Integers:
    """The id of each row's largest of logits [rows, vocab]: [rows]; ties to the lower id, -1 if all are NaN."""
    numbers = ~np.isnan(logits)
    largest = np.argmax(np.where(numbers, logits, -np.inf), axis=1)
    return np.where(numbers.any(axis=1), largest, -1)


def root_mean_square_norm(inputs: Floats, weights: Floats, epsilon: float) -> Floats:
    """RMSNorm over the last axis: inputs [..., size] over the root of their mean square, times weights [size]."""
    mean_square = np.mean(inputs * inputs, axis=-1, keepdims=True)  # [..., 1]
    scale: Floats = np.sqrt(mean_square + np.float32(epsilon))
    scale[~np.isfinite(scale)] = np.nan  # a numerical breakdown must not end in zeros
    return inputs / scale * weights


def centered(inputs: Floats) -> Floats:
    """inputs [..., size] minus their mean over the last axis: what LayerNorm does before it does as RMSNorm."""
    result: Floats = inputs - np.mean(inputs, axis=-1, keepdims=True)
    return result


def rotate(vectors: Floats, cosines: Floats, sines: Floats, layout: RopeLayout) -> Floats:
    """RoPE on the first rope_size values of each head: vectors [n, heads, head_size], tables [n, 1, rope_size / 2]."""
    half = cosines.shape[-1]
    if layout == "pairs":
        left, right = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
    else:
        left, right = slice(0, half), slice(half, 2 * half)
    turned = vectors.copy()
    turned[..., left] = vectors[..., left] * cosines - vectors[..., right] * sines
    turned[..., right] = vectors[..., left] * sines + vectors[..., right] * cosines
    return turned


def attend(
    queries: Floats,
    keys: Floats,
    values: Floats,
    position: int,
    scale: float | None = None,
    window: int = 0,
    cap: float = 0.0,
    sinks: Floats | None = None,
) -> Floats:
    """Causal grouped-query attention of queries [n, heads, head_size] at `position` and on.

    Keys are [kv_heads, length, head_size] and values [kv_heads, length, value_size], those of the queries included;
    query head h reads key/value head h // (heads / kv_heads). A query sees the last `window` positions, its own
    included, or with 0 all; queries are scaled by 1 / √head_size unless told otherwise. `sinks` [1, heads] are scores
    that take part in the softmax and have no value. The result is [n, heads * value_size].
    """
    count, heads, head_size = queries.shape
    kv_heads, length, _ = keys.shape
    factor = np.float32(1 / np.sqrt(head_size) if scale is None else scale)
    grouped = queries.transpose(1, 0, 2).reshape(kv_heads, -1, head_size)  # [kv_heads, heads / kv_heads * n, head_size]
    scores = grouped @ keys.transpose(0, 2, 1) * factor  # [kv_heads, …, length]
    scores = softcap(scores.reshape(heads, count, length), cap)
    own = position + np.arange(count)[:, None]  # [n, 1]
    visible = np.arange(length) <= own  # [n, length]
    if window:
        visible &= np.arange(length) > own - window
    scores = np.where(visible, scores, np.float32(-np.inf))
    if sinks is not None:
        column = np.broadcast_to(sinks.reshape(heads, 1, 1), (heads, count, 1))
        scores = np.concatenate([scores, column], axis=2)  # [heads, n, length + 1]
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    weights = weights[:, :, :length]  # [heads, n, length]
    mixed: Floats = weights.reshape(kv_heads, -1, length) @ values  # [kv_heads, heads / kv_heads * n, value_size]
    return mixed.reshape(heads, count, -1).transpose(1, 0, 2).reshape(count, -1)
