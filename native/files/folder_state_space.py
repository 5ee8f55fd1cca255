"""Hybrids of attention and state spaces (Mamba-2) in a Hugging Face folder: Granite 4 H and Bamba's kin."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .folder_keys import ConfigKeys
from .folder_layers import FULL, LINEAR
from .folder_parts import Parts, float32, same
from .folder_sizes import Sizes
from .model_file import Tensor
from .rearrange import as_float32

OLDER_KINDS = {"mamba": LINEAR, "attention": FULL}  # earlier names in layer_types


def with_usual_parts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Where there are no experts, the shared one is the feed-forward part."""
    renamed = dict(values)
    if renamed.get("num_local_experts") == 0:
        renamed["intermediate_size"] = renamed.get("shared_intermediate_size")
    if isinstance(kinds := renamed.get("layer_types", renamed.get("layers_block_type")), list):
        renamed["layer_types"] = [OLDER_KINDS.get(kind, kind) if isinstance(kind, str) else kind for kind in kinds]
    return renamed


def state_space_sizes(keys: ConfigKeys) -> dict[str, int]:
    heads, inner = keys.size("mamba_n_heads"), keys.size("mamba_expand") * keys.size("hidden_size")
    size = inner // heads if keys.values.get("mamba_d_head") == "auto" else keys.size("mamba_d_head")
    if heads * size != inner:
        raise ValueError(f"its {heads} state space heads of {size} are not its mamba_expand times its width, {inner}")
    return {
        "key_heads": keys.size("mamba_n_groups"),
        "value_heads": heads,
        "key_size": keys.size("mamba_d_state"),
        "value_size": size,
    }


def state_space_values(keys: ConfigKeys, sizes: Sizes) -> dict[str, Any]:
    kinds = keys.values.get("layer_types")
    if not isinstance(kinds, list) or len(kinds) != sizes.layers or any(kind not in (FULL, LINEAR) for kind in kinds):
        raise ValueError(
            f"the key 'layer_types' of config.json is {kinds!r}, expected {FULL!r} or {LINEAR!r} for each of "
            f"{sizes.layers} layers"
        )
    return {
        "attention.head_count_kv": [sizes.kv_heads * (kind == FULL) for kind in kinds],
        "rope.scaling.finetuned": keys.values.get("position_embedding_type") == "rope",
        "ssm.conv_kernel": keys.size("mamba_d_conv"),
    }


def state_space_parts() -> Parts:
    return {
        "mamba.in_proj.weight": (("ssm_in.weight", same),),
        "mamba.conv1d.weight": (("ssm_conv1d.weight", float32),),
        "mamba.conv1d.bias": (("ssm_conv1d.bias", float32),),
        "mamba.A_log": (("ssm_a", _decay),),
        "mamba.D": (("ssm_d", float32),),
        "mamba.dt_bias": (("ssm_dt.bias", float32),),
        "mamba.norm.weight": (("ssm_norm.weight", float32),),
        "mamba.out_proj.weight": (("ssm_out.weight", same),),
    }


def _decay(tensor: Tensor, sizes: Sizes) -> Tensor:
    return as_float32(tensor, lambda values: -np.exp(values))
