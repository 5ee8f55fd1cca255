"""Which layers of a Hugging Face folder have a sliding window, and which do not rotate, in the form of GGUF's keys."""

from collections.abc import Callable, Mapping
from typing import Any

from ..families import FAMILIES
from ..family import ROPE_PATTERN, Family
from .folder_families import ALL_FULL, ARCHITECTURES, FIRST_FULL, NEVER_WINDOWED, WINDOWED
from .folder_keys import ConfigKeys
from .folder_layers import FULL, SLIDING, check_alike, sliding_pattern

PATTERNED = ("gemma3", "exaone4", "exaone-moe", "cohere2", "afmoe")  # whose layers an interval may tell
THETAS, FLAGS = "layer_rope_theta", "no_rope_layers"


def _all_full(layers: int) -> list[str]:
    return [FULL] * layers


def _full_first(layers: int) -> list[str]:
    return [SLIDING if layer % 4 else FULL for layer in range(layers)]


def _full_last(layers: int) -> list[str]:
    return [SLIDING if (layers - 1 - layer) % 4 else FULL for layer in range(layers)]


# By architecture, the layer_types of a config.json without any.
USUAL_LAYERS: Mapping[str, Callable[[int], list[str]]] = {
    "mellum": _all_full,
    "laguna": _all_full,
    "granite_swa": _full_first,
    "muse-glimmer": _full_last,
}


def with_usual_layers(values: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Of a model type `kind`; without a window that counts for no layer."""
    filled = dict(values)
    usual, layers = USUAL_LAYERS.get(ARCHITECTURES[kind]), values.get("num_hidden_layers")
    if usual and type(layers) is int and "layer_types" not in values:
        filled["layer_types"] = usual(ConfigKeys(values).layers())
    if not _slides(ConfigKeys(filled), kind):
        filled.pop("sliding_window", None)
    return filled


def _slides(keys: ConfigKeys, kind: str) -> bool:
    """Whether a sliding window counts, if there is one."""
    switched = kind not in WINDOWED
    if not switched and kind not in FIRST_FULL:
        return kind not in ALL_FULL or SLIDING in keys.values.get("layer_types", ())
    if kind in NEVER_WINDOWED or (switched and not keys.flag("use_sliding_window", False)):
        return False
    kinds = keys.values.get("layer_types")
    if isinstance(kinds, list):
        return kinds != [FULL] * len(kinds)
    full = 0 if kind not in FIRST_FULL else keys.values["max_window_layers"]
    return full == 0 or keys.size("max_window_layers") < keys.size("num_hidden_layers")


def with_one_theta(values: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The base of each layer as one for all that rotate, and as flags of these. Raises ValueError where there are
    several: GGUF has no key for them."""
    thetas = values.get(THETAS)
    if thetas is None or not FAMILIES[ARCHITECTURES[kind]].slides:
        return dict(values)
    if not isinstance(thetas, list) or not all(type(theta) in (int, float) and theta >= 0 for theta in thetas):
        raise ValueError(f"the key {THETAS!r} of config.json is {thetas!r}, expected a list of numbers")
    bases = {float(theta) for theta in thetas if theta}
    if len(bases) > 1:
        raise ValueError(f"the key {THETAS!r} of config.json has {sorted(bases)}, supported: 0 and one other number")
    flagged = {**values, FLAGS: [int(theta > 0) for theta in thetas]}
    base = {"rope_theta": bases.pop()} if bases else {}
    given = values.get("rope_parameters")
    return {**flagged, "rope_parameters": {**given, **base}} if isinstance(given, dict) else {**flagged, **base}


def window_values(keys: ConfigKeys, kind: str, layers: int, context: int) -> dict[str, Any]:
    """Windows, and the layers that have one."""
    architecture = ARCHITECTURES[kind]
    family = FAMILIES[architecture]
    if family.must_slide and "sliding_window" not in keys.values:
        raise ValueError("the key 'sliding_window' of config.json is missing or null, expected a number")
    if family.slides:
        return _of_some(keys, architecture, family, layers) if "sliding_window" in keys.values else {}
    window = _of_all(keys, context)
    if not family.recurs:
        check_alike(keys.values.get("layer_types"), layers, _kind_of_all(keys, window, context))
    return {"attention.sliding_window": window} if window else {}


def _of_all(keys: ConfigKeys, context: int) -> int | None:
    """None: they see all positions."""
    window = keys.size("sliding_window") if "sliding_window" in keys.values else context
    return window if window < context else None


def _kind_of_all(keys: ConfigKeys, window: int | None, context: int) -> str | None:
    """The kind that all layers have; None: either kind, as the window hides nothing."""
    if window is None and "sliding_window" in keys.values and keys.size("sliding_window") >= context:
        return None
    return FULL if window is None else SLIDING


def _of_some(keys: ConfigKeys, architecture: str, family: Family, layers: int) -> dict[str, Any]:
    kinds, usual = keys.values.get("layer_types"), family.interval
    if kinds is not None:
        pattern = sliding_pattern(kinds, layers)
    elif architecture in PATTERNED:
        pattern = keys.size("sliding_window_pattern", usual)
    else:
        pattern = usual
    values: dict[str, Any] = {"attention.sliding_window": keys.size("sliding_window")}
    if not usual or family.full_first:  # an interval would say something else
        values["attention.sliding_window_pattern"] = [kind == SLIDING for kind in kinds or ()]
    elif pattern != usual:
        values["attention.sliding_window_pattern"] = pattern
    return values | _turns(keys, architecture, family, layers)


def _turns(keys: ConfigKeys, architecture: str, family: Family, layers: int) -> dict[str, Any]:
    """The layers that rotate, where a family's may differ. Raises ValueError where they do in another's."""
    flags = keys.values.get(FLAGS)
    if flags is None or architecture not in USUAL_LAYERS:
        return {}
    if not isinstance(flags, list) or len(flags) != layers or not all(flag in (0, 1) for flag in flags):
        raise ValueError(f"the key {FLAGS!r} of config.json is {flags!r}, expected a list of {layers} times 0 or 1")
    if family.rope_pattern:
        return {ROPE_PATTERN: [bool(flag) for flag in flags]}
    expected = [int(kind == SLIDING or not family.unrotated_full) for kind in keys.values["layer_types"]]
    if flags != expected:
        raise ValueError(f"its layers that rotate are {flags}, supported: {expected}")
    return {}
