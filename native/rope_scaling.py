"""How a model's RoPE frequencies are scaled, as its file says it."""

from collections.abc import Sequence

import numpy as np

from .metadata_keys import Keys
from .weights import Tensor

ROPE_FREQUENCIES = "rope_freqs.weight"
# The keys that are read, and those that add nothing to them.
ROPE_KEYS = (
    "dimension_count",
    "dimension_sections",  # for positions in images; in a text all sections have the same
    "freq_base",
    "freq_base_swa",
    "scale_linear",
    "scaling.attn_factor",
    "scaling.factor",
    "scaling.finetuned",
    "scaling.original_context_length",
    "scaling.type",
)


def read_divisors(keys: Keys, rope_size: int, tensors: Sequence[Tensor]) -> tuple[float, ...]:
    """What each frequency is divided by, [rope_size / 2], or nothing where RoPE is not scaled: linear scaling divides
    all alike, rope_freqs.weight (Llama 3) each by a factor of its own. Raises ValueError for any other, and for a key
    that is not known: a model with wrong rotations still produces fluent text."""
    prefix = f"{keys.architecture}.rope."
    kind = keys.values.get(f"{prefix}scaling.type", "linear")
    if kind not in ("none", "linear"):
        raise ValueError(f"the key '{prefix}scaling.type' is {kind!r}, supported: 'none', 'linear'")
    for key in keys.values:
        if key.startswith(prefix) and key.removeprefix(prefix) not in ROPE_KEYS:
            raise ValueError(f"the key {key!r} is not known: its RoPE may be another than it seems")
    scale = (keys.optional("rope.scaling.factor") or 1.0) if kind == "linear" else 1.0
    factors = np.ones(rope_size // 2, np.float32)
    for tensor in tensors:
        if tensor.name == ROPE_FREQUENCIES:
            factors = tensor.data.view(np.float32)[0]
    if not (np.isfinite(factors).all() and (factors > 0).all()):
        raise ValueError(f"the tensor {ROPE_FREQUENCIES!r} holds a factor that is no number above 0")
    return () if scale == 1.0 and (factors == 1).all() else tuple((factors.astype(np.float64) * scale).tolist())
