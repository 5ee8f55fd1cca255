"""Hybrids of attention and state spaces (Mamba-2) in a Hugging Face folder: Granite 4 H and Nemotron-H."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .folder_keys import ConfigKeys
from .folder_layers import FULL, LINEAR
from .folder_parts import Parts, float32, same
from .folder_sizes import Sizes
from .model_file import Tensor
from .rearrange import as_float32

DENSE, ROUTED = "mlp", "moe"  # what a layer of one branch may be, too
KIND_KEYS = ("layer_types", "layers_block_type", "hybrid_override_pattern")  # any of them says what each layer is
OLDER_KINDS = {"mamba": LINEAR, "attention": FULL}  # earlier words
SIGNS = {"M": LINEAR, "*": FULL, "-": DENSE, "E": ROUTED}  # of a pattern


def state_space_kind(values: Mapping[str, Any], kind: str) -> str:
    """The model type, Nemotron's by whether it has experts: GGUF has two names for it."""
    if kind != "nemotron_h":
        return kind
    kinds = layer_kinds(values)
    return "nemotron_h_moe" if isinstance(kinds, list) and ROUTED in kinds else kind


def layer_kinds(values: Mapping[str, Any]) -> Any:
    """What each layer is, in the newest words."""
    given = values.get(_kinds_key(values))
    if isinstance(given, str):
        return [SIGNS.get(sign, sign) for sign in given]
    if not isinstance(given, list):
        return given
    return [OLDER_KINDS.get(kind, kind) if isinstance(kind, str) else kind for kind in given]


def _kinds_key(values: Mapping[str, Any]) -> str:
    return next((key for key in KIND_KEYS if values.get(key) is not None), KIND_KEYS[0])


def with_granites_width(values: Mapping[str, Any]) -> dict[str, Any]:
    """Where there are no experts, the shared one is the feed-forward part; where nothing says what layers are, they are
    state spaces."""
    filled = dict(values)
    if values.get("num_local_experts") == 0:
        filled["intermediate_size"] = values.get("shared_intermediate_size")
    if layer_kinds(values) is None:
        filled["layer_types"] = [LINEAR] * ConfigKeys(values).layers()
    return filled


def with_nemotrons_layers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Under the keys that other families have, with as many layers as are named."""
    renamed = dict(values)
    if isinstance(kinds := layer_kinds(values), list):
        renamed["num_hidden_layers"] = len(kinds)
    renamed["rms_norm_eps"] = renamed.get("layer_norm_epsilon", 1e-5)
    renamed.setdefault("head_dim", renamed.get("attention_head_dim", 128))
    return renamed


def state_space_sizes(keys: ConfigKeys, one_branch: bool) -> dict[str, int]:
    if one_branch:
        names = ("n_groups", "mamba_num_heads", "ssm_state_size", "mamba_head_dim")
        return dict(zip(("key_heads", "value_heads", "key_size", "value_size"), map(keys.size, names), strict=True))
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


def state_space_values(keys: ConfigKeys, sizes: Sizes, one_branch: bool) -> dict[str, Any]:
    fed = ROUTED if sizes.experts else DENSE
    kinds = _checked_kinds(keys, sizes.layers, (FULL, LINEAR, fed) if one_branch else (FULL, LINEAR))
    values: dict[str, Any] = {"attention.head_count_kv": [sizes.kv_heads * (kind == FULL) for kind in kinds]}
    if one_branch:
        width = keys.size("moe_intermediate_size" if sizes.experts else "intermediate_size")
        values["feed_forward_length"] = [width * (kind == fed) for kind in kinds]
    else:
        values["rope.scaling.finetuned"] = keys.values.get("position_embedding_type") == "rope"
    return values | {"ssm.conv_kernel": keys.size("conv_kernel" if one_branch else "mamba_d_conv")}


def _checked_kinds(keys: ConfigKeys, layers: int, known: tuple[str, ...]) -> list[str]:
    key, kinds = _kinds_key(keys.values), layer_kinds(keys.values)
    given: Any = keys.values.get(key)
    words = [sign for sign, kind in SIGNS.items() if kind in known] if isinstance(given, str) else known
    expected = " or ".join(map(repr, words))
    if not isinstance(kinds, list) or len(kinds) != layers:
        raise ValueError(
            f"the key {key!r} of config.json is {given!r}, expected {expected} for each of {layers} layers"
        )
    for layer, kind in enumerate(kinds):
        if kind not in known:
            raise ValueError(
                f"the key {key!r} of config.json has {given[layer]!r} as layer {layer}, expected {expected}"
            )
    return kinds


def state_space_parts(mixer: str = "mamba") -> Parts:
    return {
        f"{mixer}.in_proj.weight": (("ssm_in.weight", same),),
        f"{mixer}.conv1d.weight": (("ssm_conv1d.weight", float32),),
        f"{mixer}.conv1d.bias": (("ssm_conv1d.bias", float32),),
        f"{mixer}.A_log": (("ssm_a", _decay),),
        f"{mixer}.D": (("ssm_d", float32),),
        f"{mixer}.dt_bias": (("ssm_dt.bias", float32),),
        f"{mixer}.norm.weight": (("ssm_norm.weight", float32),),
        f"{mixer}.out_proj.weight": (("ssm_out.weight", same),),
    }


def one_branch_parts() -> Parts:
    """Nemotron's: whatever a layer is, it is called a mixer."""
    return {
        "norm.weight": (("attn_norm.weight", float32),),
        **{f"mixer.{part}_proj.weight": ((f"attn_{part}.weight", same),) for part in "qkv"},
        "mixer.o_proj.weight": (("attn_output.weight", same),),
        **state_space_parts("mixer"),
        **{f"mixer.{part}_proj.weight": ((f"ffn_{part}.weight", same),) for part in ("up", "down")},
        "mixer.gate.weight": (("ffn_gate_inp.weight", float32),),
        "mixer.gate.e_score_correction_bias": (("exp_probs_b.bias", float32),),
        **{f"mixer.experts.{part}_proj": ((f"ffn_{part}_exps.weight", same),) for part in ("up", "down")},
        **{
            f"mixer.shared_experts.{part}_proj.weight": ((f"ffn_{part}_shexp.weight", same),) for part in ("up", "down")
        },
    }


def _decay(tensor: Tensor, sizes: Sizes) -> Tensor:
    return as_float32(tensor, lambda values: -np.exp(values))
