"""What a supported model is, and the check that a file holds one.

Everything here is strict: a key that would change the maths and a tensor that no formula uses are refused by name,
because a model run with a bias left out or an unscaled rotation still produces fluent, wrong text.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import isfinite
from typing import Any, Literal, Self

import numpy as np

from .weights import Metadata, ModelUnreadable, Tensor

RopeLayout = Literal["pairs", "halves"]


@dataclass(frozen=True, slots=True)
class Family:
    """What the files of an architecture have in common and do not say.

    `rope_layout` "pairs" turns the values 2i and 2i + 1 of a head together, "halves" turns i and i + rope_size / 2.
    """

    rope_layout: RopeLayout
    qkv_bias: bool = False  # queries, keys and values have a bias
    qk_norm: bool = False  # each head of queries and keys is normed before it turns


FAMILIES: Mapping[str, Family] = {
    "llama": Family("pairs"),
    "qwen2": Family("halves", qkv_bias=True),
    "qwen3": Family("halves", qk_norm=True),
}
MATRIX_TYPES = ("F32", "F16", "BF16", "Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "IQ4_NL", "MXFP4")
VECTOR_TYPES = ("F32",)

# Keys that change the maths, with the value that leaves it alone.
UNUSED_KEYS: Mapping[str, Any] = {
    "attention.causal": True,
    "attention.clamp_kqv": 0.0,
    "attention.max_alibi_bias": 0.0,
    "attention.scale": 0.0,
    "attention.sliding_window": 0,
    "attention.temperature_length": 0,
    "embedding_scale": 1.0,
    "expert_count": 0,
    "logit_scale": 1.0,
    "residual_scale": 1.0,
    "rope.scale_linear": 1.0,
}
ROPE_FREQUENCIES = "rope_freqs.weight"


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes and constants of one model; `rope_layout` may also come from the key paceline.rope_layout."""

    architecture: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    ffn: int
    vocab: int
    context: int
    rope_base: float
    rope_size: int
    rope_layout: RopeLayout
    norm_epsilon: float
    tied: bool
    qkv_bias: bool
    qk_norm: bool
    rope_divisors: tuple[float, ...] = ()  # of each frequency, where RoPE is scaled: [rope_size / 2]

    @classmethod
    def from_metadata(cls, metadata: Metadata, tensors: Sequence[Tensor]) -> Self:
        """Reads the shape and checks the tensors against it; raises ModelUnreadable naming what is wrong."""
        try:
            shape = cls._read(metadata, tied=all(tensor.name != "output.weight" for tensor in tensors))
            shape._check_sizes()
            shape._check_tensors(tensors)
            shape = replace(shape, rope_divisors=shape._rope_divisors(metadata, tensors))
        except ValueError as problem:
            raise ModelUnreadable(f"cannot use the model {metadata.path}: {problem}") from None
        return shape

    @classmethod
    def _read(cls, metadata: Metadata, tied: bool) -> Self:
        architecture = metadata.architecture
        family = FAMILIES.get(architecture)
        if family is None:
            raise ValueError(f"its architecture is {architecture!r}, supported: {', '.join(FAMILIES)}")
        keys = Keys(architecture, metadata.values)
        for name, harmless in UNUSED_KEYS.items():
            if metadata.values.get(f"{architecture}.{name}", harmless) != harmless:
                raise ValueError(f"the key '{architecture}.{name}' is not supported (only {harmless!r})")
        layout = metadata.values.get("paceline.rope_layout", family.rope_layout)
        if layout not in ("pairs", "halves"):
            raise ValueError(f"the key 'paceline.rope_layout' is {layout!r}, expected 'pairs' or 'halves'")
        width, heads = keys.size("embedding_length"), keys.size("attention.head_count")
        head_size = keys.size("attention.key_length", width // heads)
        if keys.size("attention.value_length", head_size) != head_size:
            raise ValueError(f"the key '{architecture}.attention.value_length' is not the key length, {head_size}")
        return cls(
            architecture=architecture,
            layers=keys.size("block_count"),
            width=width,
            heads=heads,
            kv_heads=keys.size("attention.head_count_kv", heads),
            head_size=head_size,
            ffn=keys.size("feed_forward_length"),
            vocab=metadata.vocab,
            context=keys.size("context_length"),
            rope_base=keys.positive("rope.freq_base", 10000.0),
            rope_size=keys.size("rope.dimension_count", head_size),
            rope_layout=layout,
            norm_epsilon=keys.positive("attention.layer_norm_rms_epsilon"),
            tied=tied,
            qkv_bias=family.qkv_bias,
            qk_norm=family.qk_norm,
        )

    def _check_sizes(self) -> None:
        if self.vocab < 1:
            raise ValueError("it has no vocabulary (neither a vocab_size nor tokenizer.ggml.tokens)")
        if self.heads % self.kv_heads:
            raise ValueError(f"its {self.heads} heads are no multiple of its {self.kv_heads} key/value heads")
        if self.rope_size % 2 or self.rope_size > self.head_size:
            raise ValueError(f"its rope size {self.rope_size} is odd or above its head size {self.head_size}")

    def _rope_divisors(self, metadata: Metadata, tensors: Sequence[Tensor]) -> tuple[float, ...]:
        """Linear scaling divides every frequency alike, rope_freqs.weight (Llama 3) each by a factor of its own."""
        keys = Keys(self.architecture, metadata.values)
        kind = metadata.values.get(f"{self.architecture}.rope.scaling.type", "linear")
        if kind not in ("none", "linear"):
            raise ValueError(
                f"the key '{self.architecture}.rope.scaling.type' is {kind!r}, supported: 'none', 'linear'"
            )
        scale = keys.positive("rope.scaling.factor", 1.0) if kind == "linear" else 1.0
        factors = np.ones(self.rope_size // 2, np.float32)
        for tensor in tensors:
            if tensor.name == ROPE_FREQUENCIES:
                factors = tensor.data.view(np.float32)[0]
        if not (np.isfinite(factors).all() and (factors > 0).all()):
            raise ValueError(f"the tensor {ROPE_FREQUENCIES!r} holds a factor that is no number above 0")
        return () if scale == 1.0 and (factors == 1).all() else tuple((factors.astype(np.float64) * scale).tolist())

    def _check_tensors(self, tensors: Sequence[Tensor]) -> None:
        found = {tensor.name: tensor for tensor in tensors}
        optional = [(ROPE_FREQUENCIES, 1, self.rope_size // 2)] if ROPE_FREQUENCIES in found else []
        for name, rows, columns in chain(self.expected_tensors(), optional):  # lazily: a damaged count may be huge
            tensor = found.pop(name, None)
            if tensor is None:
                raise ValueError(f"the tensor {name!r} [{rows}, {columns}] is missing")
            if (tensor.rows, tensor.columns) != (rows, columns):
                raise ValueError(
                    f"the tensor {name!r} is [{tensor.rows}, {tensor.columns}], expected [{rows}, {columns}]"
                )
            vector = name.endswith(("_norm.weight", ".bias")) or name == ROPE_FREQUENCIES
            supported = VECTOR_TYPES if vector else MATRIX_TYPES
            if tensor.type not in supported:
                raise ValueError(f"the tensor {name!r} is {tensor.type}, supported: {', '.join(supported)}")
        if found:
            raise ValueError(f"the tensor {min(found)!r} is not part of a supported {self.architecture} model")

    def expected_tensors(self) -> Iterator[tuple[str, int, int]]:
        """Every tensor that a model of this shape has: name, rows, columns."""
        attention, cache = self.heads * self.head_size, self.kv_heads * self.head_size
        yield "token_embd.weight", self.vocab, self.width
        for layer in range(self.layers):
            yield f"blk.{layer}.attn_norm.weight", 1, self.width
            yield f"blk.{layer}.attn_q.weight", attention, self.width
            yield f"blk.{layer}.attn_k.weight", cache, self.width
            yield f"blk.{layer}.attn_v.weight", cache, self.width
            yield f"blk.{layer}.attn_output.weight", self.width, attention
            if self.qkv_bias:
                yield f"blk.{layer}.attn_q.bias", 1, attention
                yield f"blk.{layer}.attn_k.bias", 1, cache
                yield f"blk.{layer}.attn_v.bias", 1, cache
            if self.qk_norm:
                yield f"blk.{layer}.attn_q_norm.weight", 1, self.head_size
                yield f"blk.{layer}.attn_k_norm.weight", 1, self.head_size
            yield f"blk.{layer}.ffn_norm.weight", 1, self.width
            yield f"blk.{layer}.ffn_gate.weight", self.ffn, self.width
            yield f"blk.{layer}.ffn_up.weight", self.ffn, self.width
            yield f"blk.{layer}.ffn_down.weight", self.width, self.ffn
        yield "output_norm.weight", 1, self.width
        if not self.tied:
            yield "output.weight", self.vocab, self.width


@dataclass(frozen=True, slots=True)
class Keys:
    """The numbers under one architecture's prefix."""

    architecture: str
    values: Mapping[str, Any]

    def size(self, name: str, default: int | None = None) -> int:
        value = self._value(name, default)
        if type(value) is not int or value < 1:
            raise ValueError(f"the key '{self.architecture}.{name}' is {value!r}, expected a whole number above 0")
        return value

    def positive(self, name: str, default: float | None = None) -> float:
        value = self._value(name, default)
        if type(value) is not float or not isfinite(value) or value <= 0:
            raise ValueError(f"the key '{self.architecture}.{name}' is {value!r}, expected a number above 0")
        return value

    def _value(self, name: str, default: float | None) -> Any:
        value = self.values.get(f"{self.architecture}.{name}", default)
        if value is None:
            raise ValueError(f"the key '{self.architecture}.{name}' is missing")
        return value
