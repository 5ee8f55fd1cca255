"""What a file says of latent attention: DeepSeek's, GLM 4.7 Flash's, Mistral Small 4's."""

from typing import Any

from .family import Family
from .metadata_keys import Keys
from .rope_scaling import YARN_WEIGHT
from .yarn import amplitude

MOST_GROWTH = 1.0  # of a weight that is a tenth in the largest models


def read_latent(keys: Keys, family: Family) -> dict[str, Any]:
    """Nothing for other families. The head size of a file is that of a key that is kept: the latent values and what
    turns."""
    if not family.latent:
        return {}
    latent, turning = keys.size("attention.kv_lora_rank"), keys.size("rope.dimension_count")
    if f"{keys.architecture}.attention.key_length_mla" not in keys.values:
        raise ValueError(
            f"the key '{keys.architecture}.attention.key_length_mla' is missing: the file has the older form, with one "
            "matrix for the keys and values of all heads; expected one made by a newer converter"
        )
    head_keys = keys.size("attention.key_length_mla") - turning
    if head_keys < 1:
        raise ValueError(
            f"the key '{keys.architecture}.attention.key_length_mla' is {head_keys + turning}, expected more than the "
            f"{turning} that turn"
        )
    for name, size in (("key_length", latent + turning), ("value_length", latent)):
        if (given := keys.size(f"attention.{name}", size)) != size:
            raise ValueError(f"the key '{keys.architecture}.attention.{name}' is {given}, expected {size}")
    if (heads := keys.size("attention.head_count_kv", 1)) != 1:
        raise ValueError(f"the key '{keys.architecture}.attention.head_count_kv' is {heads}, expected 1")
    return {
        "kv_heads": 1,
        "head_size": latent + turning,
        "latent": latent,
        "query_rank": keys.optional_size("attention.q_lora_rank"),
        "latent_keys": head_keys,
        "latent_values": keys.size("attention.value_length_mla"),
        "query_scale": (head_keys + turning) ** -0.5 * _growth(keys) ** 2,
    }


def _growth(keys: Keys) -> float:
    """By what queries and keys grow with YaRN's factor; the key holds a tenth of DeepSeek's mscale_all_dim."""
    weight = keys.optional(f"rope.{YARN_WEIGHT}")
    if weight > MOST_GROWTH:
        raise ValueError(
            f"the key '{keys.architecture}.rope.{YARN_WEIGHT}' is {weight}, expected at most {MOST_GROWTH}"
        )
    return amplitude(keys.positive("rope.scaling.factor"), 10 * weight) if weight else 1.0
