"""The keys of config.json under the names that most folders have, and with what transformers fills in."""

from collections.abc import Mapping
from typing import Any

from ..families import FAMILIES
from .folder_defaults import DEFAULTS
from .folder_families import ALIASES, ARCHITECTURES, SOFTCAPS
from .folder_keys import ConfigKeys
from .folder_latent import with_dense_layers
from .folder_lfm2 import with_usual_names
from .folder_state_space import with_granites_width, with_nemotrons_layers

# Of other keys, null is the default.
NULL_IS_NONE = ("sliding_window", "q_lora_rank", "block_ffn_dim_multiplier", *SOFTCAPS)


def filled_values(given: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Of a model type `kind`; without what is null. Raises ValueError for two keys that disagree."""
    architecture = ARCHITECTURES[kind]
    defaults = {**DEFAULTS.get(architecture, {}), **DEFAULTS.get(kind, {})}
    named = _by_own_names({k: v for k, v in given.items() if v is not None or k in NULL_IS_NONE}, kind)
    if "rope_scaling" in named:
        defaults.pop("rope_parameters", None)
    filled = {k: v for k, v in {**defaults, **named}.items() if v is not None}
    if FAMILIES[architecture].gated_convolution:
        return with_usual_names(filled, kind)
    if FAMILIES[architecture].state_space:
        return (with_nemotrons_layers if FAMILIES[architecture].one_branch else with_granites_width)(filled)
    if kind == "hunyuan_v1_moe":
        filled |= {key: _one(filled[key]) for key in ("num_experts", "moe_topk")}
    if kind == "minimax_m2" and "rotary_dim" in filled:  # its older key for what turns of a head
        keys = ConfigKeys(filled)
        filled.setdefault("partial_rotary_factor", keys.size("rotary_dim") / keys.size("head_dim"))
    routed = FAMILIES[architecture].latent or kind in ("exaone_moe", "laguna", "mellum")
    return with_dense_layers(filled) if routed else filled


def _one(value: Any) -> Any:
    """The number that a list repeats for each layer."""
    return value[0] if isinstance(value, list) and value and all(each == value[0] for each in value) else value


def _by_own_names(given: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The keys that have several names, under the one that folders of the family mostly have."""
    renamed = dict(given)
    for other, own in ALIASES.get(kind, {}).items():
        if other in renamed:
            value = renamed.pop(other)
            if renamed.setdefault(own, value) != value:
                raise ValueError(f"the keys {own!r} and {other!r} of config.json differ, expected one of them")
    return renamed
