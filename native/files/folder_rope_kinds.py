"""The settings of RoPE in config.json by kind of layer, where layers differ."""

from collections.abc import Mapping
from typing import Any

from .folder_families import GEMMA_4

# Model types whose settings have an object for each kind of layer.
BY_KIND = ("gemma3", "gemma3_text", *GEMMA_4, "olmo3", "mellum", "laguna")
LOCAL_BASE = 1e4  # of layers with a sliding window, where config.json has none
LOCAL_BASES = {"olmo3": 5e5}  # by model type, where it is another


def settings_by_kind(values: Mapping[str, Any], model: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Of a model type `model`: the settings of layers with full attention, and of those with a sliding window."""
    nested, usual = model in BY_KIND, LOCAL_BASES.get(model, LOCAL_BASE)
    new, old = values.get("rope_parameters") or {}, values.get("rope_scaling") or {}
    for found in (new, old):
        if not isinstance(found, dict):
            raise ValueError(f"the RoPE settings of config.json are {found!r}, expected an object")
    if new and old and new != old:  # as where somebody adds scaling to a folder that a later transformers wrote
        raise ValueError("the keys 'rope_parameters' and 'rope_scaling' of config.json differ, expected one of them")
    found = new or old
    local_base = {"rope_theta": values.get("rope_local_base_freq", usual)}
    if not nested and not {"full_attention", "sliding_attention"}.isdisjoint(found):
        raise ValueError("the RoPE settings of config.json are for kinds of layers, expected them for all layers")
    if nested and new and "full_attention" not in new:
        raise ValueError("the key 'rope_parameters' of config.json has no 'full_attention', expected an object for it")
    if "full_attention" not in found:
        return found, local_base
    kinds = found["full_attention"], found.get("sliding_attention", {})
    if not all(isinstance(kind, dict) for kind in kinds):
        raise ValueError(f"the RoPE settings of config.json are {found!r}, expected an object for each kind")
    return kinds[0], {**local_base, **kinds[1]}
