"""What a file says about its experts: how many, how they are chosen, and what is beside them."""

from collections.abc import Sequence
from typing import Any

from .drafting import DRAFTING
from .family import Family
from .metadata_keys import Keys
from .model_layers import dense_widths
from .weights import Tensor

DENSE = "leading_dense_block_count"
CHOICE_BIAS = ".exp_probs_b.bias"
ROUTINGS = {1: False, 2: True}  # expert_gating_func, by whether it is a sigmoid


def read_experts(keys: Keys, family: Family, tensors: Sequence[Tensor], layers: int) -> dict[str, Any]:
    if not family.experts:
        return {}
    shared = dense_widths(keys, layers)[0] if family.dense_beside else _shared_size(keys, family)
    biased = any(tensor.name.endswith(CHOICE_BIAS) for tensor in tensors)
    return {
        "experts": keys.size("expert_count"),
        "experts_used": keys.size("expert_used_count"),
        "expert_ffn": _expert_size(keys, family),
        "shared_ffn": shared,
        "shared_gated": bool(shared) and family.shared_gated,
        "expert_norms": family.dense_beside,
        "dense_layers": _dense_layers(keys, family),
        **_groups(keys, family),
        "sigmoid_routing": _routing(keys, family, biased),
        "choice_bias": family.may_bias_choice and biased,
        "normalize_experts": keys.flag("expert_weights_norm", family.normalize_experts),
        "expert_scale": keys.optional("expert_weights_scale") or 1.0,
    }


def _dense_layers(keys: Keys, family: Family) -> int:
    return keys.optional_size(DENSE) if DENSE in family.own_keys else 0


def dense_size(keys: Keys, family: Family, layers: int) -> int:
    """The width of a feed-forward part, or of an expert where no layer has another part."""
    if family.experts and not _dense_layers(keys, family):
        return _expert_size(keys, family)
    if family.one_branch:
        return keys.only_count("feed_forward_length", layers, keys.optional_size(DRAFTING))
    return keys.size("feed_forward_length")


def _shared_size(keys: Keys, family: Family) -> int:
    """Of all shared experts together; 0 where there is none. The gated one is always there."""
    if not family.shared_expert:
        return 0
    if family.shared_gated:
        return keys.size("expert_shared_feed_forward_length")
    given = keys.optional_size("expert_shared_feed_forward_length")
    return given or keys.optional_size("expert_shared_count") * _expert_size(keys, family)


def _routing(keys: Keys, family: Family, biased: bool) -> bool:
    """Whether it is by sigmoids; a bias tells where a DeepSeek does not say. Raises ValueError where they are weighed
    in another way."""
    if "expert_gating_func" not in family.own_keys:
        return family.sigmoid_routing
    gating = keys.optional_size("expert_gating_func")
    if gating and gating not in ROUTINGS:
        raise ValueError(f"the key '{keys.architecture}.expert_gating_func' is {gating}, supported: 1 or 2")
    return ROUTINGS[gating] if gating else family.sigmoid_routing or (family.latent and biased)


def _groups(keys: Keys, family: Family) -> dict[str, Any]:
    """Where there are none, all experts are one group."""
    if "expert_group_count" not in family.own_keys:
        return {}
    return {
        "expert_groups": keys.optional_size("expert_group_count") or 1,
        "groups_used": keys.optional_size("expert_group_used_count") or 1,
    }


def _expert_size(keys: Keys, family: Family) -> int:
    as_wide = family.may_route and not family.dense_beside
    return keys.size("expert_feed_forward_length", keys.size("feed_forward_length") if as_wide else None)
