"""The settings of RoPE in config.json."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, pi, sqrt
from typing import Any

from ..yarn import FAST, SLOW, amplitude
from .folder_families import ARCHITECTURES, TEMPERED
from .folder_rope_kinds import BY_KIND, settings_by_kind

KINDS = ("default", "linear", "llama3", "yarn", "longrope")
PROPORTIONAL = "proportional"  # Gemma 4's: the first frequencies of a whole head turn, the others do not
STILL = 1e30  # what divides the frequency of what does not turn
YARN = ("beta_fast", "beta_slow", "mscale", "mscale_all_dim")


@dataclass(frozen=True, slots=True)
class Rope:
    """`partial` is the share of a head that is rotated; `low` and `high` belong to Llama 3's scaling and are 0 without
    it, `trained` to that, YaRN and LongRoPE, `yarn` (beta_fast, beta_slow) and `rounded` to YaRN, `long` and `short`
    ([rope_size / 2], or empty) to LongRoPE, `amplitude` to these two."""

    base: float
    local_base: float
    partial: float
    local_partial: float  # of layers with a sliding window
    kind: str  # of KINDS
    factor: float
    low: float
    high: float
    trained: float
    amplitude: float
    temperature: float  # llama_4_scaling_beta, by which queries grow with their positions; 0: they do not
    growth: float  # mscale_all_dim, by which DeepSeek's scores grow; 0: they do not
    yarn: Mapping[str, float]
    rounded: bool
    long: tuple[float, ...]
    short: tuple[float, ...]

    def gguf_values(self, architecture: str, head_size: int) -> dict[str, Any]:
        """Its numbers under their GGUF keys, and under our own what GGUF has no key for: YaRN's amplitude, and
        whether its blend is rounded."""
        size = head_size if self.kind == PROPORTIONAL else int(head_size * self.partial)
        values: dict[str, Any] = {"freq_base": self.base, "dimension_count": size}
        if self.kind in ("linear", "yarn"):
            values |= {"scaling.type": self.kind, "scaling.factor": self.factor}
        if self.kind in ("yarn", "longrope"):
            values["scaling.original_context_length"] = int(self.trained)
        if self.kind == "yarn":
            values |= {f"scaling.yarn_{key}": value for key, value in self.yarn.items()}
        if self.kind == "longrope":
            values |= {"scaling.type": self.kind, "scaling.attn_factor": self.amplitude}
        named = {f"{architecture}.rope.{key}": value for key, value in values.items()}
        if self.kind == "yarn":
            named |= {"paceline.rope_amplitude": self.amplitude, "paceline.yarn_rounded": self.rounded}
        return named

    def local_values(self, head_size: int) -> dict[str, Any]:
        """What layers with a sliding window rotate by, under its GGUF keys."""
        partly = self.partial != 1 or self.local_partial != 1
        size = {"rope.dimension_count_swa": int(head_size * self.local_partial)} if partly else {}
        return {"rope.freq_base_swa": self.local_base, **size}

    def divisors(self, architecture: str, head_size: int) -> dict[str, Sequence[float]]:
        """What each frequency is divided by, [rope_size / 2], by the name of GGUF's tensor for it."""
        if architecture == "gemma4":
            return {"rope_freqs.weight": self._of_gemma_4(head_size)}
        size = int(head_size * self.partial)
        if self.kind == "llama3":
            return {"rope_freqs.weight": self._of_llama_3(size)}
        if self.kind != "longrope":
            return {}
        for key, factors in (("long_factor", self.long), ("short_factor", self.short)):
            if len(factors) != size // 2:
                raise ValueError(f"the key {key!r} of config.json has {len(factors)} numbers, expected {size // 2}")
        return {"rope_factors_long.weight": self.long, "rope_factors_short.weight": self.short}

    def _of_gemma_4(self, head_size: int) -> list[float]:
        turning = int(self.partial * head_size // 2) if self.kind == PROPORTIONAL else head_size // 2
        return [self.factor] * turning + [STILL] * (head_size // 2 - turning)

    def _of_llama_3(self, size: int) -> list[float]:
        """A frequency that turns often within the context of training stays as it is, one that turns seldom is divided
        by the factor, and one in between by a blend."""
        divisors = []
        for index in range(size // 2):
            turns = self.trained * self.base ** (-2 * index / size) / (2 * pi)
            blend = min(max((turns - self.low) / (self.high - self.low), 0.0), 1.0)
            divisors.append(1 / ((1 - blend) / self.factor + blend))
        return divisors


def read_rope(values: Mapping[str, Any], model: str) -> Rope:
    """Transformers 5 has the settings in rope_parameters, earlier ones had them in rope_theta and rope_scaling. Those
    of Gemma 3 have an object for each kind of layer. model: a model_type."""
    architecture, tempered = ARCHITECTURES[model], model in TEMPERED
    nested = model in BY_KIND
    settings, local = settings_by_kind(values, model)
    kind = _kind(settings)
    if kind == "mrope":  # positions in images; in a text all axes have the same
        kind = "default"
    alpha = 1.0
    if architecture in ("hunyuan-dense", "hunyuan-moe") and kind == "dynamic":  # by a fixed factor of the base
        kind, alpha = "default", positive("alpha", settings.get("alpha"))
    if architecture == "phi3" and kind in ("su", "yarn"):  # its earlier names
        kind = "longrope"
    kinds: tuple[str, ...] = ("default", PROPORTIONAL) if architecture == "gemma4" else KINDS
    if tempered:
        kinds = ("yarn",)
    if kind not in kinds:
        raise ValueError(f"its RoPE scaling is {kind!r}, supported: {', '.join(map(repr, kinds))}")
    if _kind(local) != "default":
        raise ValueError(f"the RoPE scaling of its sliding windows is {_kind(local)!r}, supported: 'default'")
    three, yarn, long = kind == "llama3", kind == "yarn", kind == "longrope"
    inside = settings.get("original_max_position_embeddings")
    outside = inside if nested else values.get("original_max_position_embeddings", inside)
    scaled = three or yarn or long
    if scaled and inside not in (None, outside):
        raise ValueError(f"the key 'original_max_position_embeddings' of config.json is {outside!r} and {inside!r}")
    trained = _trained(outside, values) if scaled else 0.0
    unscaled = kind == "default" or (kind == PROPORTIONAL and settings.get("factor") is None)
    factor = 1.0 if unscaled else _factor(kind, settings, values, trained)
    rope = Rope(
        base=positive("rope_theta", settings.get("rope_theta", values.get("rope_theta", 10000.0)))
        * _stretch(alpha, values),
        local_base=positive("rope_theta", local["rope_theta"]),
        local_partial=positive("partial_rotary_factor", local.get("partial_rotary_factor", 1.0)),
        partial=positive(
            "partial_rotary_factor", settings.get("partial_rotary_factor", values.get("partial_rotary_factor", 1.0))
        ),
        kind=kind,
        factor=factor,
        low=positive("low_freq_factor", settings.get("low_freq_factor")) if three else 0.0,
        high=positive("high_freq_factor", settings.get("high_freq_factor")) if three else 0.0,
        trained=trained,
        amplitude=_amplitude(kind, settings, factor, trained),
        temperature=_temperature(settings) if tempered else 0.0,
        growth=_given(settings).get("mscale_all_dim", 0.0) if yarn else 0.0,
        yarn=_yarn_turns(settings) if yarn else {},
        rounded=_rounded(settings),
        long=_factors("long_factor", settings) if long else (),
        short=_factors("short_factor", settings) if long else (),
    )
    if (most := max(rope.partial, rope.local_partial)) > 1:
        raise ValueError(f"the key 'partial_rotary_factor' of config.json is {most!r}, expected at most 1")
    if three and rope.high <= rope.low:
        raise ValueError(f"its high_freq_factor {rope.high!r} is not above its low_freq_factor {rope.low!r}")
    return rope


def _stretch(alpha: float, values: Mapping[str, Any]) -> float:
    """Of the base, for frequencies that are alpha times lower at the end of a head and the same at its beginning."""
    if alpha == 1:
        return 1.0
    size = positive("head_dim", values.get("head_dim"))
    if size <= 2:
        raise ValueError(f"its head size is {size}, expected more than 2")
    return float(alpha ** (size / (size - 2)))


def _kind(settings: Mapping[str, Any]) -> Any:
    return settings.get("rope_type", settings.get("type", "default"))


def _trained(asked: Any, values: Mapping[str, Any]) -> float:
    if asked is None:
        return positive("max_position_embeddings", values.get("max_position_embeddings"))
    return positive("original_max_position_embeddings", asked)


def _factor(kind: str, settings: Mapping[str, Any], values: Mapping[str, Any], trained: float) -> float:
    """YaRN's and LongRoPE's may be left to the contexts."""
    if kind in ("yarn", "longrope") and settings.get("factor") is None:
        return positive("max_position_embeddings", values.get("max_position_embeddings")) / trained
    return positive("factor", settings.get("factor"))


def _temperature(settings: Mapping[str, Any]) -> float:
    """0 in folders of Devstral 2 and Mistral Medium 3.5, whose queries do not grow."""
    value = settings.get("llama_4_scaling_beta")
    return 0.0 if type(value) in (int, float) and value == 0 else positive("llama_4_scaling_beta", value)


def _yarn_turns(settings: Mapping[str, Any]) -> dict[str, float]:
    given = _given(settings)
    return {"beta_fast": given.get("beta_fast", FAST), "beta_slow": given.get("beta_slow", SLOW)}


def _amplitude(kind: str, settings: Mapping[str, Any], factor: float, trained: float) -> float:
    """As in transformers, an attention_factor goes before mscale and mscale_all_dim, which count together only."""
    if kind not in ("yarn", "longrope"):
        return 1.0
    if settings.get("attention_factor") is not None:
        return positive("attention_factor", settings["attention_factor"])
    if kind == "longrope":
        return sqrt(1 + log(factor) / log(trained)) if factor > 1 and trained > 1 else 1.0
    given = _given(settings)
    scale, all_scale = given.get("mscale"), given.get("mscale_all_dim")
    return amplitude(factor, scale) / amplitude(factor, all_scale) if scale and all_scale else amplitude(factor)


def _given(settings: Mapping[str, Any]) -> dict[str, float]:
    return {key: positive(key, value) for key in YARN if (value := settings.get(key))}  # a 0 is the default


def _factors(key: str, settings: Mapping[str, Any]) -> tuple[float, ...]:
    factors = settings.get(key)
    if not isinstance(factors, list):
        raise ValueError(f"the key {key!r} of config.json is {factors!r}, expected a list of numbers")
    return tuple(positive(key, factor) for factor in factors)


def _rounded(settings: Mapping[str, Any]) -> bool:
    rounded = settings.get("truncate", True)
    if type(rounded) is not bool:
        raise ValueError(f"the key 'truncate' of config.json is {rounded!r}, expected true or false")
    return rounded


def positive(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e30:
        raise ValueError(f"the key {key!r} of config.json is {value!r}, expected a number above 0")
    return float(value)
