"""What config.json says of experts, under GGUF's keys."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..families import FAMILIES
from .folder_families import ARCHITECTURES, GEMMA_4, OWN, WIDE_EXPERTS
from .folder_keys import ConfigKeys

SHARED = "expert_shared_feed_forward_length"


@dataclass(frozen=True, slots=True)
class ExpertNames:
    """The keys of config.json for each number; an empty one: the family has no such number."""

    count: tuple[str, ...] = ("num_experts", "num_local_experts")  # the first that is there
    used: str = "num_experts_per_tok"
    width: str = "moe_intermediate_size"
    dense: str = ""  # how many layers before all others have no experts
    last: str = ""  # the last layer with experts, -1 for that of the model
    shared: str = ""  # how many shared experts there are, each as wide as a routed one
    shared_width: str = ""  # of all of them together
    grouped: bool = False  # they may be chosen by groups


DEEP_SEEK_NAMES = ExpertNames(
    ("n_routed_experts",), dense="first_k_dense_replace", shared="n_shared_experts", grouped=True
)
# By model type, where they differ from the usual ones.
NAMES: Mapping[str, ExpertNames] = {
    **{kind: ExpertNames(width="intermediate_size") for kind in WIDE_EXPERTS},
    "granitemoeshared": ExpertNames(width="intermediate_size", shared_width="shared_intermediate_size"),
    "granitemoehybrid": ExpertNames(width="intermediate_size", shared_width="shared_intermediate_size"),
    "hunyuan_v1_moe": ExpertNames(
        ("num_experts",), "moe_topk", width="intermediate_size", shared_width="intermediate_size"
    ),
    "nemotron_h_moe": ExpertNames(
        ("n_routed_experts",), shared_width="moe_shared_expert_intermediate_size", grouped=True
    ),
    "glm4_moe": DEEP_SEEK_NAMES,
    "dots1": DEEP_SEEK_NAMES,
    "exaone_moe": ExpertNames(
        ("num_experts",), dense="first_k_dense_replace", shared="num_shared_experts", grouped=True
    ),
    "laguna": ExpertNames(
        ("num_experts",), dense="first_k_dense_replace", shared_width="shared_expert_intermediate_size"
    ),
    "granitemoe_swa": ExpertNames(width="intermediate_size", shared_width="shared_intermediate_size"),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "glm4_moe_lite", "mistral4"), DEEP_SEEK_NAMES),
    "lfm2_moe": ExpertNames(dense="num_dense_layers"),
    "afmoe": ExpertNames(dense="num_dense_layers", shared="num_shared_experts"),
    "ernie4_5_moe": ExpertNames(
        ("moe_num_experts",),
        "moe_k",
        dense="moe_layer_start_index",
        last="moe_layer_end_index",
        shared="moe_num_shared_experts",
    ),
    **{kind: ExpertNames(used="top_k_experts") for kind in GEMMA_4},
    **{
        kind: ExpertNames(shared_width="shared_expert_intermediate_size")
        for kind, architecture in ARCHITECTURES.items()
        if FAMILIES[architecture].shared_gated
    },
}


def expert_count(keys: ConfigKeys, kind: str) -> int:
    """Of a model type `kind`; 0 for one without experts."""
    if kind in GEMMA_4:
        return keys.size("num_experts") if keys.flag("enable_moe_block", False) else 0
    if not FAMILIES[ARCHITECTURES[kind]].experts and kind not in WIDE_EXPERTS:
        return 0
    if kind == "granitemoehybrid":
        return keys.count("num_local_experts")
    names = NAMES.get(kind, ExpertNames()).count
    return keys.size(next((name for name in names if name in keys.values), names[-1]))


def expert_values(keys: ConfigKeys, kind: str, layers: int) -> dict[str, Any]:
    names, own = NAMES.get(kind, ExpertNames()), OWN.get(ARCHITECTURES[kind], ())
    width = keys.size(names.width)
    values: dict[str, Any] = {
        "expert_count": expert_count(keys, kind),
        "expert_used_count": keys.size(names.used),
        "expert_feed_forward_length": width,
    }
    if "norm_topk_prob" in own:
        values["expert_weights_norm"] = keys.flag("norm_topk_prob", True)
    if "routed_scaling_factor" in own:
        values["expert_weights_scale"] = keys.number("routed_scaling_factor", 1.0)
    if names.grouped:
        values |= _groups(keys, kind)
    if shared := _shared_width(keys, names, kind, width):
        values[SHARED] = shared
    if names.dense:
        values["leading_dense_block_count"] = keys.count(names.dense)
    if names.last:
        _check_last(names.last, keys.values.get(names.last, -1), layers)
    return values


def _shared_width(keys: ConfigKeys, names: ExpertNames, kind: str, width: int) -> int:
    """Of all shared experts together; 0 without one. A gated one is always there."""
    if FAMILIES[ARCHITECTURES[kind]].shared_gated:
        return keys.size(names.shared_width)
    if names.shared:
        return keys.count(names.shared) * width
    return keys.count(names.shared_width) if names.shared_width else 0


def _groups(keys: ConfigKeys, kind: str) -> dict[str, Any]:
    """DeepSeek V2 has them only where it says so."""
    if kind == "deepseek_v2" and keys.values.get("topk_method") != "group_limited_greedy":
        return {}
    return {
        "expert_group_count": keys.size("n_group", 1),
        "expert_group_used_count": keys.size("topk_group", 1),
    }


def _check_last(key: str, last: Any, layers: int) -> None:
    if type(last) is not int or (last != -1 and last < layers - 1):
        raise ValueError(f"the key {key!r} of config.json is {last!r}, supported: -1 or the last layer, {layers - 1}")
