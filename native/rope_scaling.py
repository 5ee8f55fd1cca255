"""How a model's RoPE frequencies are scaled, as its file says it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .metadata_keys import Keys
from .weights import Tensor
from .yarn import FAST, SLOW, Yarn, amplitude, stretched

ROPE_FREQUENCIES = "rope_freqs.weight"
# The keys that are read, and those that add nothing to them.
ROPE_KEYS = (
    "dimension_count",
    "dimension_sections",  # for positions in images; in a text all axes have the same
    "freq_base",
    "freq_base_swa",
    "scale_linear",
    "scaling.attn_factor",
    "scaling.factor",
    "scaling.finetuned",
    "scaling.original_context_length",
    "scaling.type",
)
# yarn_attn_factor is not read, as in llama.cpp: converters write either of two factors of config.json into it.
YARN_KEYS = ("scaling.yarn_attn_factor", "scaling.yarn_beta_fast", "scaling.yarn_beta_slow", "scaling.yarn_ext_factor")


class Scaling(NamedTuple):
    """What each frequency is divided by, [rope_size / 2] or nothing where none is; what cosines and sines are
    multiplied by; the positions that this is good for."""

    divisors: tuple[float, ...]
    amplitude: float
    context: int


def read_scaling(keys: Keys, base: float, rope_size: int, tensors: Sequence[Tensor], rounded: bool = True) -> Scaling:
    """Linear scaling divides all frequencies alike, rope_freqs.weight (Llama 3) each by a factor of its own, YaRN the
    slow ones. `rounded`: whether YaRN's blend is, where the file does not say. Raises ValueError for any other, and for
    a key that is not known: a model with wrong rotations still produces fluent text."""
    prefix = f"{keys.architecture}.rope."
    kind = keys.values.get(f"{prefix}scaling.type", "linear")
    if kind not in ("none", "linear", "yarn"):
        raise ValueError(f"the key '{prefix}scaling.type' is {kind!r}, supported: 'none', 'linear', 'yarn'")
    known = ROPE_KEYS + (YARN_KEYS if kind == "yarn" else ())
    for key in keys.values:
        if key.startswith(prefix) and key.removeprefix(prefix) not in known:
            raise ValueError(f"the key {key!r} is not known: its RoPE may be another than it seems")
    factors, context = _factors(rope_size, tensors), keys.size("context_length")
    if kind == "yarn":
        yarn = Yarn(
            keys.positive("rope.scaling.factor"),
            keys.size("rope.scaling.original_context_length", context),
            keys.positive("rope.scaling.yarn_beta_fast", FAST),
            keys.positive("rope.scaling.yarn_beta_slow", SLOW),
            Keys("paceline", keys.values).flag("yarn_rounded", rounded),
        )
        if (share := keys.positive("rope.scaling.yarn_ext_factor", 1.0)) != 1.0:
            raise ValueError(f"the key '{prefix}scaling.yarn_ext_factor' is {share}, supported: 1.0")
        factors = factors * np.array(yarn.divisors(base, rope_size))
        given = Keys("paceline", keys.values).positive("rope_amplitude", amplitude(yarn.factor))  # by a folder
        return Scaling(tuple(factors.tolist()), given, stretched(context, yarn.trained, yarn.factor))
    scale = (keys.optional("rope.scaling.factor") or 1.0) if kind == "linear" else 1.0
    return Scaling(() if (factors * scale == 1).all() else tuple((factors * scale).tolist()), 1.0, context)


def _factors(rope_size: int, tensors: Sequence[Tensor]) -> npt.NDArray[np.float64]:
    """Those of rope_freqs.weight, or ones: [rope_size / 2]."""
    factors = np.ones(rope_size // 2)
    for tensor in tensors:
        if tensor.name == ROPE_FREQUENCIES:
            factors = tensor.data.view(np.float32)[0].astype(np.float64)
    if not (np.isfinite(factors).all() and (factors > 0).all()):
        raise ValueError(f"the tensor {ROPE_FREQUENCIES!r} holds a factor that is no number above 0")
    return factors
