"""A folder of Gemma 4: layers of two kinds with sizes of their own, and tensors that no other family has."""

from collections.abc import Mapping
from typing import Any

from .folder_keys import ConfigKeys
from .folder_layers import FULL, SLIDING
from .folder_parts import Parts, float32, same
from .folder_sizes import Sizes

OUTER_NAMES = {
    "embed_tokens_per_layer.weight": "per_layer_token_embd.weight",
    "per_layer_model_projection.weight": "per_layer_model_proj.weight",
    "per_layer_projection_norm.weight": "per_layer_proj_norm.weight",
}
CAP = "final_logit_softcapping"
PERIOD = 6  # of layers with full attention, where config.json has no layer_types
MOST_DIGITS = 6  # of a layer's number


def layer_kinds(values: Mapping[str, Any], layers: int) -> list[str]:
    """As in transformers, the last layer has full attention whatever config.json says."""
    kinds = values.get("layer_types") or [FULL if (layer + 1) % PERIOD == 0 else SLIDING for layer in range(layers)]
    if not isinstance(kinds, list) or len(kinds) != layers or any(kind not in (FULL, SLIDING) for kind in kinds):
        raise ValueError(
            f"the key 'layer_types' of config.json is {kinds!r}, expected {layers} of {FULL!r} and {SLIDING!r}"
        )
    return [*kinds[:-1], FULL]


def full_heads(keys: ConfigKeys, layers: int) -> tuple[int, int]:
    """Key/value heads and head size of layers with full attention."""
    kv_heads = keys.size("num_key_value_heads")
    if "per_layer_config" not in keys.values:
        shared = keys.flag("attention_k_eq_v", False) and "num_global_key_value_heads" in keys.values
        return keys.size("num_global_key_value_heads") if shared else kv_heads, keys.size("global_head_dim", 512)
    own = keys.values["per_layer_config"]
    full = [layer for layer, kind in enumerate(layer_kinds(keys.values, layers)) if kind == FULL]
    if not isinstance(own, dict) or sorted(map(_number, own)) != full:
        raise ValueError(
            f"the key 'per_layer_config' of config.json is {own!r}, expected sizes of all layers with full attention"
        )
    first = next(iter(own.values()))
    if not isinstance(first, dict) or any(other != first for other in own.values()):
        raise ValueError(
            f"the key 'per_layer_config' of config.json is {own!r}, expected the same sizes for all of its layers"
        )
    sizes = ConfigKeys(first)
    return sizes.size("num_key_value_heads", kv_heads), sizes.size("head_dim", keys.size("head_dim"))


def _number(layer: str) -> int:
    """Transformers writes 05 where there are ten layers and more."""
    return int(layer) if layer.isascii() and layer.isdecimal() and len(layer) <= MOST_DIGITS else -1


def gemma4_values(keys: ConfigKeys, sizes: Sizes) -> dict[str, Any]:
    """What GGUF has keys for and other families do not have, and what other families have in another form."""
    kinds, local_size = layer_kinds(keys.values, sizes.layers), keys.size("head_dim")
    sliding = [kind == SLIDING for kind in kinds]
    borrowing, ffn = keys.count("num_kv_shared_layers"), keys.size("intermediate_size")
    wide = 2 * ffn if keys.flag("use_double_wide_mlp", False) else ffn
    local_kv_heads = keys.size("num_key_value_heads")
    cap = {CAP: keys.number(CAP)} if CAP in keys.values else {}
    return {
        "attention.head_count_kv": [local_kv_heads if each else sizes.kv_heads for each in sliding],
        "attention.key_length_swa": local_size,
        "attention.value_length_swa": local_size,
        "attention.sliding_window": keys.size("sliding_window"),
        "attention.sliding_window_pattern": sliding,
        "attention.shared_kv_layers": borrowing,
        "embedding_length_per_layer_input": keys.count("hidden_size_per_layer_input"),
        "feed_forward_length": [wide if layer >= sizes.layers - borrowing else ffn for layer in range(sizes.layers)],
        "rope.dimension_count_swa": local_size,
        **cap,
    }


def gemma4_parts() -> Parts:
    """Of a layer, beyond those of Gemma 3."""
    return {
        "layer_scalar": (("layer_output_scale.weight", float32),),
        "per_layer_input_gate.weight": (("inp_gate.weight", same),),
        "per_layer_projection.weight": (("proj.weight", same),),
        "post_per_layer_input_norm.weight": (("post_norm.weight", float32),),
    }


def gemma4_expert_parts() -> Parts:
    return {
        "pre_feedforward_layernorm_2.weight": (("pre_ffw_norm_2.weight", float32),),
        "post_feedforward_layernorm_1.weight": (("post_ffw_norm_1.weight", float32),),
        "post_feedforward_layernorm_2.weight": (("post_ffw_norm_2.weight", float32),),
        "experts.gate_up_proj": (("ffn_gate_up_exps.weight", same),),
        "experts.down_proj": (("ffn_down_exps.weight", same),),
        "router.proj.weight": (("ffn_gate_inp.weight", float32),),
        "router.scale": (("ffn_gate_inp.scale", float32),),
        "router.per_expert_scale": (("ffn_down_exps.scale", float32),),
    }
