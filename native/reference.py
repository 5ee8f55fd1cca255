"""The NumPy reference of the ragged step: the definition of the model maths, in float32: llama, qwen2, qwen3.

It keeps the contract of every engine. A row is (slot, tokens, position, outputs); rows may have any length, at most one
per slot and step, and `outputs` says for how many of its last tokens a prediction is wanted. Prefill, decode and the
check of drafted tokens differ only in the length of a row. A step writes keys and values behind the committed position
of its slot, which is scratch until `commit(slot, position)` moves that position: absolute, idempotent, up or down. So a
step can be tried again, and a row that begins anywhere but at the committed position is a mistake of the caller.

It is the measure for closeness, not for bits: BLAS may sum in another order for another number of rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize

from .model import ModelShape, RopeLayout
from .rope import rope_table
from .weights import Tensor, open_model

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

QUERY_BLOCK = 256  # queries whose scores are in memory together


class Row(Protocol):
    """What the reference reads of a row."""

    @property
    def slot(self) -> int: ...
    @property
    def tokens(self) -> Sequence[int]: ...
    @property
    def position(self) -> int: ...
    @property
    def outputs(self) -> int: ...


class RowLogits(NamedTuple):
    tokens: tuple[int, ...]  # the greedy choice of each output
    logits: Floats  # [outputs, vocab]


@dataclass(slots=True)
class SlotCache:
    """Keys and values of one slot; what lies at and beyond `committed` is scratch."""

    keys: Floats  # [layers, kv_heads, capacity, head_size]
    values: Floats  # [layers, kv_heads, capacity, head_size]
    committed: int = 0
    written: int = 0

    def reserve(self, length: int) -> None:
        capacity = self.keys.shape[2]
        if length > capacity:
            room = ((0, 0), (0, 0), (0, max(length, 2 * capacity) - capacity), (0, 0))
            self.keys, self.values = np.pad(self.keys, room), np.pad(self.values, room)


class Reference:
    """A model in float32 and the caches of its slots."""

    def __init__(self, shape: ModelShape, tensors: Sequence[Tensor]) -> None:
        self.shape = shape
        self.weights = {tensor.name: to_float32(tensor) for tensor in tensors}  # each [rows, columns]
        self.cosines, self.sines = rope_table(shape)  # each [context, rope_size / 2]
        self.slots: dict[int, SlotCache] = {}

    def commit(self, slot: int, position: int) -> None:
        cache = self._cache(slot)
        if not 0 <= position <= cache.written:
            raise ValueError(f"slot {slot}: commit to position {position}, written up to {cache.written}")
        cache.committed = position

    def step(self, rows: Sequence[Row]) -> list[RowLogits]:
        """Runs all rows in one pass over the weights and commits nothing."""
        self._check(rows)
        ids = np.concatenate([np.asarray(row.tokens, np.int64) for row in rows])  # [n], all rows in a line
        positions = np.concatenate([row.position + np.arange(len(row.tokens)) for row in rows])  # [n]
        hidden = self.weights["token_embd.weight"][ids]  # [n, width]
        for layer in range(self.shape.layers):
            hidden = hidden + self._attention(layer, hidden, positions, rows)
            hidden = hidden + self._feed_forward(layer, hidden)
        for row in rows:
            self._cache(row.slot).written = row.position + len(row.tokens)
        return [self._predict(hidden[span][len(row.tokens) - row.outputs :]) for row, span in spans(rows)]

    def _attention(self, layer: int, hidden: Floats, positions: Integers, rows: Sequence[Row]) -> Floats:
        shape = self.shape
        normed = self._norm(hidden, f"blk.{layer}.attn_norm.weight")  # [n, width]
        queries, keys, values = (self._heads(normed, f"blk.{layer}.attn_{part}") for part in "qkv")  # [n, …, head_size]
        if shape.qk_norm:
            queries = self._norm(queries, f"blk.{layer}.attn_q_norm.weight")
            keys = self._norm(keys, f"blk.{layer}.attn_k_norm.weight")
        cosines, sines = self.cosines[positions, None], self.sines[positions, None]  # each [n, 1, rope_size / 2]
        queries = rotate(queries, cosines, sines, shape.rope_layout)  # [n, heads, head_size]
        keys = rotate(keys, cosines, sines, shape.rope_layout)  # [n, kv_heads, head_size]
        mixed = np.empty((len(hidden), shape.heads * shape.head_size), np.float32)
        for row, span in spans(rows):
            cache, end = self._cache(row.slot), row.position + len(row.tokens)
            cache.keys[layer, :, row.position : end] = keys[span].transpose(1, 0, 2)
            cache.values[layer, :, row.position : end] = values[span].transpose(1, 0, 2)
            for begin in range(0, len(row.tokens), QUERY_BLOCK):
                block = queries[span][begin : begin + QUERY_BLOCK]  # [block, heads, head_size]
                first, last = row.position + begin, row.position + begin + len(block)
                mixed[span][begin : begin + QUERY_BLOCK] = attend(
                    block, cache.keys[layer, :, :last], cache.values[layer, :, :last], first
                )
        return self._product(mixed, f"blk.{layer}.attn_output.weight")  # [n, width]

    def _heads(self, normed: Floats, name: str) -> Floats:
        """Queries, keys or values of normed [n, width], by head: [n, heads, head_size]."""
        vectors = self._product(normed, f"{name}.weight")  # [n, heads * head_size]
        if self.shape.qkv_bias:
            vectors = vectors + self.weights[f"{name}.bias"]
        return vectors.reshape(len(vectors), -1, self.shape.head_size)

    def _feed_forward(self, layer: int, hidden: Floats) -> Floats:
        normed = self._norm(hidden, f"blk.{layer}.ffn_norm.weight")  # [n, width]
        gate = self._product(normed, f"blk.{layer}.ffn_gate.weight")  # [n, ffn]
        up = self._product(normed, f"blk.{layer}.ffn_up.weight")  # [n, ffn]
        return self._product(silu(gate) * up, f"blk.{layer}.ffn_down.weight")  # [n, width]

    def _predict(self, hidden: Floats) -> RowLogits:
        head = "token_embd.weight" if self.shape.tied else "output.weight"
        logits = self._product(self._norm(hidden, "output_norm.weight"), head)  # [outputs, vocab]
        return RowLogits(tuple(np.argmax(logits, axis=1).tolist()), logits)  # ties go to the lower id

    def _product(self, inputs: Floats, name: str) -> Floats:
        """inputs [n, columns] times the weights [rows, columns], transposed: [n, rows]."""
        product: Floats = inputs @ self.weights[name].T
        return product

    def _norm(self, inputs: Floats, name: str) -> Floats:
        """RMSNorm of the last axis: inputs [..., size] over the root of their mean square, times a weight each."""
        mean_square = np.mean(inputs * inputs, axis=-1, keepdims=True)  # [..., 1]
        scale: Floats = np.sqrt(mean_square + np.float32(self.shape.norm_epsilon))
        return inputs / scale * self.weights[name]

    def _check(self, rows: Sequence[Row]) -> None:
        if not rows:
            raise ValueError("a step needs at least one row")
        if len({row.slot for row in rows}) != len(rows):
            raise ValueError("a step takes at most one row per slot")
        for row in rows:
            end = row.position + len(row.tokens)
            cache = self._cache(row.slot)
            if row.position != cache.committed:
                raise ValueError(f"slot {row.slot}: row at position {row.position}, committed is {cache.committed}")
            if not row.tokens or end > self.shape.context:
                raise ValueError(f"slot {row.slot}: {len(row.tokens)} tokens end at {end} of {self.shape.context}")
            if not 0 <= row.outputs <= len(row.tokens):
                raise ValueError(f"slot {row.slot}: {row.outputs} outputs of {len(row.tokens)} tokens")
            if not all(0 <= token < self.shape.vocab for token in row.tokens):
                raise ValueError(f"slot {row.slot}: a token outside 0..{self.shape.vocab - 1}")
            cache.reserve(end)

    def _cache(self, slot: int) -> SlotCache:
        if slot not in self.slots:
            empty = np.zeros((self.shape.layers, self.shape.kv_heads, 0, self.shape.head_size), np.float32)
            self.slots[slot] = SlotCache(empty, empty)
        return self.slots[slot]


def open_reference(path: Path) -> Reference:
    metadata, tensors = open_model(path)
    return Reference(ModelShape.from_metadata(metadata, tensors), tensors)


def to_float32(tensor: Tensor) -> Floats:
    """The weights of a tensor: [rows, columns]."""
    floats = dequantize(tensor.data, GGMLQuantizationType[tensor.type])
    return np.ascontiguousarray(floats, np.float32).reshape(tensor.rows, tensor.columns)


def spans(rows: Sequence[Row]) -> Iterator[tuple[Row, slice]]:
    """Each row and where its tokens stand among those of all rows in a line."""
    begin = 0
    for row in rows:
        yield row, slice(begin, begin + len(row.tokens))
        begin += len(row.tokens)


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


def attend(queries: Floats, keys: Floats, values: Floats, position: int) -> Floats:
    """Causal grouped-query attention of queries [n, heads, head_size] at `position` and on.

    Keys and values are [kv_heads, length, head_size], those of the queries included; query head h reads key/value head
    h // (heads / kv_heads). The result is [n, heads * head_size].
    """
    count, heads, head_size = queries.shape
    kv_heads, length, _ = keys.shape
    grouped = queries.transpose(1, 0, 2).reshape(kv_heads, -1, head_size)  # [kv_heads, heads / kv_heads * n, head_size]
    scores = grouped @ keys.transpose(0, 2, 1) * np.float32(1 / np.sqrt(head_size))  # [kv_heads, …, length]
    scores = scores.reshape(heads, count, length)
    visible = np.arange(length) <= position + np.arange(count)[:, None]  # [n, length]
    scores = np.where(visible, scores, np.float32(-np.inf))
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))  # [heads, n, length]
    weights /= weights.sum(axis=2, keepdims=True)
    mixed: Floats = weights.reshape(kv_heads, -1, length) @ values  # [kv_heads, heads / kv_heads * n, head_size]
    return mixed.reshape(heads, count, head_size).transpose(1, 0, 2).reshape(count, heads * head_size)


def silu(inputs: Floats) -> Floats:
    """x / (1 + exp(-x)), written so that nothing overflows."""
    half = inputs * np.float32(0.5)
    result: Floats = half * (1 + np.tanh(half))
    return result
