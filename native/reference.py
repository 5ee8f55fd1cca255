"""The NumPy reference of the ragged step: the definition of the model maths, in float32.

It keeps the contract of every engine. A row is (slot, tokens, position, outputs); rows may have any length, at most one
per slot and step, and `outputs` says for how many of its last tokens a prediction is wanted. Prefill, decode and the
check of drafted tokens differ only in the length of a row. A step writes keys and values behind the committed position
of its slot, which is scratch until `commit(slot, position)` moves that position: absolute, idempotent, up or down. So a
step can be tried again, and a row that begins anywhere but at the committed position is a mistake of the caller. Models
with recurrent layers go down no further than where the last step began, or to 0.

It is the measure for numerical closeness, not for equal bits: BLAS may sum in another order for another number of rows.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .arrange import computed_with, embedding_scale
from .model import read_shape
from .reference_cache import SlotCache, empty_cache
from .reference_experts import feed_forward
from .reference_latent import expanded, read_latents, read_queries
from .reference_math import (
    Floats,
    Integers,
    attend,
    centered,
    likeliest,
    root_mean_square_norm,
    rotate,
    sigmoid,
    silu,
    softcap,
    softplus,
)
from .reference_recurrent import advance, empty_state, gated, read_inputs
from .reference_rows import Row, RowLogits, check_rows, spans
from .reference_tokens import taken_in, token_inputs
from .reference_weights import to_float32
from .rope import local_rope_table, rope_table, temperatures, unrotated_table
from .shape import ModelShape
from .weights import Tensor, open_model

__all__ = ["Floats", "Reference", "Row", "RowLogits", "attend", "open_reference", "rotate", "silu"]

QUERY_BLOCK = 256  # queries whose scores are in memory together


class Reference:
    """A model in float32 and the caches of its slots."""

    def __init__(self, shape: ModelShape, tensors: Sequence[Tensor]) -> None:
        self.shape = shape
        self.weights = {
            tensor.name: to_float32(tensor) for tensor in computed_with(shape, tensors)
        }  # each [rows, columns]
        self.tables = {"attention": rope_table(shape)}  # each [context, rope_size / 2]
        if "sliding" in shape.kinds:
            self.tables["sliding"] = local_rope_table(shape)
        if "unrotated" in shape.kinds:
            self.tables["unrotated"] = unrotated_table(shape)
        self.temperatures = temperatures(shape)  # [context], or empty
        self.recurrent = [layer for layer in range(shape.layers) if shape.kinds[layer] == "recurrent"]
        self.slots: dict[int, SlotCache] = {}

    def commit(self, slot: int, position: int) -> None:
        cache = self._cache(slot)
        if not 0 <= position <= cache.written:
            raise ValueError(f"slot {slot}: commit to position {position}, written up to {cache.written}")
        if self.recurrent and 0 < position < cache.began:
            raise ValueError(f"slot {slot}: commit to position {position}, the last step began at {cache.began}")
        cache.committed = position

    def step(self, rows: Sequence[Row]) -> list[RowLogits]:
        """Runs all rows in one pass over the weights and commits nothing."""
        check_rows(self.shape, rows, self._cache)
        hidden = self._run(rows)
        return [self._predict(hidden[span][len(row.tokens) - row.outputs :]) for row, span in spans(rows)]

    def _run(self, rows: Sequence[Row]) -> Floats:
        """What all layers make of the rows' tokens: [n, width]."""
        for row in rows:
            self._begin(self._cache(row.slot))
        ids = np.concatenate([np.asarray(row.tokens, np.int64) for row in rows])  # [n], all rows concatenated
        positions = np.concatenate([row.position + np.arange(len(row.tokens)) for row in rows])  # [n]
        hidden: Floats = self.weights["token_embd.weight"][ids] * np.float32(embedding_scale(self.shape))  # [n, width]
        if self.shape.embedding_norm:
            hidden = self._norm(hidden, "token_embd_norm.weight")
        inputs = token_inputs(self.shape, self.weights, ids, hidden)  # [n, layers, token_inputs]
        for layer in range(self.shape.layers):
            read = hidden
            if self.shape.kinds[layer] != "feed_forward":
                hidden = hidden + self._mix(layer, hidden, positions, rows)
            if self.shape.feeds_forward(layer):
                hidden = hidden + self._feed_forward(layer, read if self.shape.parallel else hidden)
            if self.shape.token_inputs:
                hidden = hidden + taken_in(self.shape, self.weights, layer, hidden, inputs[:, layer])
            if self.shape.layer_scale:
                hidden = hidden * self.weights[f"blk.{layer}.layer_output_scale.weight"]
        for row in rows:
            self._cache(row.slot).written = row.position + len(row.tokens)
        return hidden

    def _begin(self, cache: SlotCache) -> None:
        """Brings the states of recurrent layers to the committed position, where the next step begins."""
        for layer in self.recurrent:
            if cache.committed == 0:
                cache.states[layer] = empty_state(self.shape)
            elif cache.committed > cache.began:
                taken = cache.inputs[layer].first(cache.committed - cache.began)
                cache.states[layer], _ = advance(self.shape, self.weights, f"blk.{layer}", cache.states[layer], taken)
                cache.inputs[layer] = taken.first(0)
        cache.began = cache.committed

    def _mix(self, layer: int, hidden: Floats, positions: Integers, rows: Sequence[Row]) -> Floats:
        """What the layer's attention or recurrence adds to hidden [n, width]."""
        name = f"blk.{layer}.attn_norm.weight"
        normed = self._norm_stream(hidden, name) if self.shape.pre_norms else hidden  # [n, width]
        if self.shape.kinds[layer] == "recurrent":
            return self._recurrence(layer, normed, rows)
        mixed = self._attention(layer, normed, positions, rows)
        return self._norm_branch(mixed, f"blk.{layer}.post_attention_norm.weight")

    def _recurrence(self, layer: int, normed: Floats, rows: Sequence[Row]) -> Floats:
        shape = self.shape
        size = (shape.width,) if shape.gated_convolution else (shape.value_heads, shape.value_size)
        outputs = np.empty((len(normed), *size), np.float32)
        for row, span in spans(rows):
            cache, inputs = self._cache(row.slot), read_inputs(shape, self.weights, f"blk.{layer}", normed[span])
            _, outputs[span] = advance(shape, self.weights, f"blk.{layer}", cache.states[layer], inputs)
            cache.inputs[layer] = inputs
        return gated(shape, self.weights, f"blk.{layer}", normed, outputs)

    def _attention(self, layer: int, normed: Floats, positions: Integers, rows: Sequence[Row]) -> Floats:
        shape, kind, keeper = self.shape, self.shape.kinds[layer], self.shape.keeper_of(layer)
        if shape.latent:
            return self._latent_attention(layer, normed, positions, rows)
        heads, _, head_size, *_ = shape.heads_of(kind)
        queries = self._heads(normed, layer, "q")  # [n, heads, head_size]
        if shape.gated_attention:
            both = queries.reshape(len(normed), heads, 2, head_size)
            queries, gates = both[:, :, 0], both[:, :, 1].reshape(len(normed), -1)
        cosines, sines = (table[positions, None] for table in self.tables[kind])  # [n, 1, rope_size / 2]
        queries = self._turned(queries, layer, "q", (cosines, sines))
        queries = self._tempered(queries, positions)
        if keeper == layer:
            keys = self._heads(normed, layer, "k")  # [n, kv_heads, head_size]
            values = self._heads(normed, layer, "v") if shape.has_values(layer) else keys
            keys = self._turned(keys, layer, "k", (cosines, sines))
            values = self._head_norm(values, layer, "v")
            for row, span in spans(rows):
                cache, end = self._cache(row.slot), row.position + len(row.tokens)
                cache.keys[layer][:, row.position : end] = keys[span].transpose(1, 0, 2)
                cache.values[layer][:, row.position : end] = values[span].transpose(1, 0, 2)
        mixed = np.empty((len(normed), heads * head_size), np.float32)
        for row, span in spans(rows):
            cache = self._cache(row.slot)
            for begin in range(0, len(row.tokens), QUERY_BLOCK):
                block = queries[span][begin : begin + QUERY_BLOCK]  # [block, heads, head_size]
                first, last = row.position + begin, row.position + begin + len(block)
                mixed[span][begin : begin + QUERY_BLOCK] = attend(
                    block,
                    cache.keys[keeper][:, :last],
                    cache.values[keeper][:, :last],
                    first,
                    shape.query_scale,
                    shape.window if kind == "sliding" else 0,
                    shape.attention_softcap,
                    self.weights.get(f"blk.{layer}.attn_sinks.weight"),
                )
        if shape.gated_attention:
            mixed *= sigmoid(gates)
        if shape.head_gates:
            mixed *= np.repeat(softplus(self._product(normed, f"blk.{layer}.attn_gate")), head_size, axis=1)
        return self._product(mixed, f"blk.{layer}.attn_output")  # [n, width]

    def _latent_attention(self, layer: int, normed: Floats, positions: Integers, rows: Sequence[Row]) -> Floats:
        shape, block = self.shape, f"blk.{layer}"
        cosines, sines = (table[positions, None] for table in self.tables[shape.kinds[layer]])
        queries = self._tempered(read_queries(shape, self.weights, block, normed, (cosines, sines)), positions)
        latents = read_latents(shape, self.weights, block, normed, (cosines, sines))
        mixed = np.empty((len(normed), shape.heads * shape.latent_values), np.float32)
        for row, span in spans(rows):
            kept, end = self._cache(row.slot).keys[layer], row.position + len(row.tokens)
            kept[:, row.position : end] = latents[span].transpose(1, 0, 2)
            keys, values = expanded(shape, self.weights, block, kept[0, :end])
            mixed[span] = attend(queries[span], keys, values, row.position, 1.0)
        return self._product(mixed, f"{block}.attn_output")

    def _tempered(self, queries: Floats, positions: Integers) -> Floats:
        """queries [n, heads, ...], which grow with their positions [n] in some models."""
        return queries * self.temperatures[positions, None, None] if len(self.temperatures) else queries

    def _heads(self, normed: Floats, layer: int, part: str) -> Floats:
        """Queries, keys or values of normed [n, width], by head: [n, heads, head_size]."""
        vectors = self._product(normed, f"blk.{layer}.attn_{part}")  # [n, heads * head_size]
        return vectors.reshape(len(vectors), -1, self.shape.heads_of(self.shape.kinds[layer]).head_size)

    def _turned(self, vectors: Floats, layer: int, part: str, turns: tuple[Floats, Floats]) -> Floats:
        """Queries or keys [n, heads, head_size], normed where the model norms them, and rotated."""
        if self.shape.rotates_first:
            return self._head_norm(rotate(vectors, *turns, self.shape.rope_layout), layer, part)
        return rotate(self._head_norm(vectors, layer, part), *turns, self.shape.rope_layout)

    def _head_norm(self, vectors: Floats, layer: int, part: str) -> Floats:
        """Of vectors [n, heads, head_size]: each head's norm, or that of all as one."""
        name = f"blk.{layer}.attn_{part}_norm.weight"
        if name not in self.weights:
            return vectors
        if self.shape.whole_qk_norm and part != "v":
            return self._norm(vectors.reshape(len(vectors), -1), name).reshape(vectors.shape)
        return self._norm(vectors, name)

    def _feed_forward(self, layer: int, hidden: Floats) -> Floats:
        output = feed_forward(self.shape, self.weights, layer, hidden)  # [n, width]
        return self._norm_branch(output, f"blk.{layer}.post_ffw_norm.weight")

    def _predict(self, hidden: Floats, norm: str = "output_norm.weight") -> RowLogits:
        head = "token_embd" if self.shape.tied else "output"
        logits = self._product(self._norm_stream(hidden, norm), head)  # [outputs, vocab]
        logits = softcap(logits, self.shape.final_softcap)
        return RowLogits(tuple(likeliest(logits).tolist()), logits)

    def _product(self, inputs: Floats, name: str) -> Floats:
        """inputs [n, columns] times the weights [rows, columns], transposed, plus any bias: [n, rows]."""
        product: Floats = inputs @ self.weights[f"{name}.weight"].T
        return product + self.weights.get(f"{name}.bias", np.float32(0))

    def _norm_stream(self, hidden: Floats, name: str) -> Floats:
        return self._norm(centered(hidden) if self.shape.layer_norm else hidden, name)

    def _norm_branch(self, output: Floats, name: str) -> Floats:
        epsilon = self.shape.post_norm_epsilon or self.shape.norm_epsilon
        return root_mean_square_norm(output, self.weights[name], epsilon) if self.shape.post_norms else output

    def _norm(self, inputs: Floats, name: str) -> Floats:
        return root_mean_square_norm(inputs, self.weights[name], self.shape.norm_epsilon)

    def _cache(self, slot: int) -> SlotCache:
        if slot not in self.slots:
            self.slots[slot] = empty_cache(self.shape)
        return self.slots[slot]


def open_reference(path: Path, context: int | None = None) -> Reference:
    """context: positions per slot, for which RoPE is scaled; the model's by default."""
    metadata, tensors = open_model(path)
    shape = read_shape(metadata, tensors)
    return Reference(shape.within(context or shape.context), tensors)
