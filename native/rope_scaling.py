"""How a model's RoPE frequencies are scaled, as its file says it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .family import Family
from .metadata_keys import Keys
from .weights import Tensor
from .yarn import FAST, SLOW, Yarn, amplitude, stretched

ROPE_FREQUENCIES = "rope_freqs.weight"
LONG_FACTORS, SHORT_FACTORS = "rope_factors_long.weight", "rope_factors_short.weight"
ROPE_TENSORS = (ROPE_FREQUENCIES, LONG_FACTORS, SHORT_FACTORS)
KINDS = ("none", "linear", "yarn", "longrope")
# The keys that are read, and those that add nothing to them.
ROPE_KEYS = (
    "dimension_count",
    "dimension_count_swa",
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
# Only families of `yarn_amplitude` read it: for others, converters write either of two factors of config.json into it.
YARN_AMPLITUDE = "scaling.yarn_attn_factor"
YARN_KEYS = (YARN_AMPLITUDE, "scaling.yarn_beta_fast", "scaling.yarn_beta_slow", "scaling.yarn_ext_factor")
YARN_WEIGHT = "scaling.yarn_log_multiplier"

Factors = npt.NDArray[np.float64]


class Scaling(NamedTuple):
    """By the names of ModelShape: what each frequency is divided by, [rope_size / 2] or nothing where none is; what
    cosines and sines are multiplied by; the positions that this is good for; and what divides where there are no more
    than `short_context` positions, 0: the same."""

    rope_divisors: tuple[float, ...]
    rope_amplitude: float
    context: int
    short_divisors: tuple[float, ...] = ()
    short_context: int = 0


def read_scaling(keys: Keys, base: float, rope_size: int, tensors: Sequence[Tensor], family: Family) -> Scaling:
    """Linear scaling divides all frequencies alike, rope_freqs.weight (Llama 3) each by a factor of its own, YaRN the
    slow ones, LongRoPE by factors that depend on the context. Raises ValueError for any other, and for a key that is
    not known: a model with wrong rotations still produces fluent text.
    """
    prefix = f"{keys.architecture}.rope."
    factors = {tensor.name: _factors(tensor) for tensor in tensors if tensor.name in ROPE_TENSORS}
    long = LONG_FACTORS in factors or SHORT_FACTORS in factors
    kind = keys.values.get(f"{prefix}scaling.type", "longrope" if long else "linear")
    if kind not in KINDS:
        raise ValueError(f"the key '{prefix}scaling.type' is {kind!r}, supported: {', '.join(map(repr, KINDS))}")
    known = ROPE_KEYS + (YARN_KEYS if kind == "yarn" else ()) + ((YARN_WEIGHT,) if family.yarn_weight else ())
    for key in keys.values:
        if key.startswith(prefix) and key.removeprefix(prefix) not in known:
            raise ValueError(f"the key {key!r} is not known: its RoPE may be another than it seems")
    if long or kind == "longrope":
        return _long(keys, kind, factors)
    _check_is(keys, "rope.scaling.attn_factor", 1.0)
    own, context = factors.get(ROPE_FREQUENCIES, np.ones(rope_size // 2)), keys.size("context_length")
    if kind == "yarn":
        yarn = Yarn(
            keys.positive("rope.scaling.factor"),
            keys.size("rope.scaling.original_context_length", context),
            keys.positive("rope.scaling.yarn_beta_fast", FAST),
            keys.positive("rope.scaling.yarn_beta_slow", SLOW),
            Keys("paceline", keys.values).flag("yarn_rounded", family.yarn_rounded),
        )
        _check_is(keys, "rope.scaling.yarn_ext_factor", 1.0)
        own = own * np.array(yarn.divisors(base, rope_size))
        given = Keys("paceline", keys.values).positive("rope_amplitude", _amplitude(keys, yarn.factor, family))
        return Scaling(tuple(own.tolist()), given, stretched(context, yarn.trained, yarn.factor))
    scale = (keys.optional("rope.scaling.factor") or 1.0) if kind == "linear" else 1.0
    return Scaling(() if (own * scale == 1).all() else tuple((own * scale).tolist()), 1.0, context)


def _amplitude(keys: Keys, factor: float, family: Family) -> float:
    """YaRN's, where a folder gives none. Where scores grow by the weight, cosines and sines do not
    (model_latent.py)."""
    if family.yarn_amplitude and (given := keys.optional(f"rope.{YARN_AMPLITUDE}")):
        return given
    weight = keys.optional(f"rope.{YARN_WEIGHT}")
    if weight and family.yarn_weight == "scores":
        return 1.0
    return amplitude(factor) / amplitude(factor, weight)


def _long(keys: Keys, kind: str, factors: Mapping[str, Factors]) -> Scaling:
    """https://arxiv.org/abs/2402.13753: one table of factors within the context of training, another for more."""
    if kind != "longrope" or ROPE_FREQUENCIES in factors:
        other = ROPE_FREQUENCIES if ROPE_FREQUENCIES in factors else f"the scaling {kind!r}"
        raise ValueError(f"it has {LONG_FACTORS} or {SHORT_FACTORS} beside {other}, expected one kind of scaling")
    for name in (LONG_FACTORS, SHORT_FACTORS):
        if name not in factors:
            raise ValueError(f"the tensor {name!r} is missing, expected one factor for each frequency")
    _check_is(keys, "rope.scaling.factor", 1.0)
    return Scaling(
        tuple(factors[LONG_FACTORS].tolist()),
        keys.positive("rope.scaling.attn_factor", 1.0),
        context := keys.size("context_length"),
        tuple(factors[SHORT_FACTORS].tolist()),
        keys.size("rope.scaling.original_context_length", context),
    )


def _check_is(keys: Keys, name: str, expected: float) -> None:
    if (value := keys.positive(name, expected)) != expected:
        raise ValueError(f"the key '{keys.architecture}.{name}' is {value}, supported: {expected}")


def _factors(tensor: Tensor) -> Factors:
    """What each frequency is divided by: [rope_size / 2]."""
    factors: Factors = tensor.data.view(np.float32)[0].astype(np.float64)
    if not (np.isfinite(factors).all() and (factors > 0).all()):
        raise ValueError(f"the tensor {tensor.name!r} holds a factor that is no number above 0")
    return factors
