"""What a file says of layers that differ: sizes of those that slide, and which borrow keys and values."""

from collections.abc import Sequence
from typing import Any

from .family import Family, LayerKind
from .metadata_keys import Keys
from .weights import Tensor

BORROWING = "attention.shared_kv_layers"
TOKEN_INPUTS = "embedding_length_per_layer_input"
LAYER_SCALE = ".layer_output_scale.weight"


def query_heads(keys: Keys, family: Family, kinds: Sequence[LayerKind]) -> tuple[int, int]:
    """Of layers with full attention, and of sliding ones, or 0 where these have as many."""
    if not family.varied_heads:
        return keys.size("attention.head_count"), 0
    given = keys.sizes("attention.head_count", len(kinds))
    full, local = _alike(keys, "attention.head_count", given, [kind == "sliding" for kind in kinds])
    return full, local if local != full else 0


def kv_heads(keys: Keys, kinds: Sequence[LayerKind], heads: int) -> tuple[int, int]:
    """Of layers with full attention, and of sliding ones."""
    given = keys.sizes("attention.head_count_kv", len(kinds), heads)
    return _alike(keys, "attention.head_count_kv", given, [kind == "sliding" for kind in kinds])


def read_layers(keys: Keys, family: Family, kinds: Sequence[LayerKind], tensors: Sequence[Tensor]) -> dict[str, Any]:
    """Nothing for a family whose layers are alike."""
    if not family.varied:
        return {}
    names, head_size = {tensor.name for tensor in tensors}, keys.size("attention.key_length")
    borrowing = keys.optional_size(BORROWING)
    local_size = keys.size("attention.key_length_swa", head_size)
    if (values := keys.size("attention.value_length_swa", local_size)) != local_size:
        raise ValueError(
            f"the key '{keys.architecture}.attention.value_length_swa' is {values}, expected the key length, "
            f"{local_size}"
        )
    full = next((layer for layer, kind in enumerate(kinds) if kind == "attention"), 0)
    return {
        "local_kv_heads": kv_heads(keys, kinds, keys.size("attention.head_count"))[1],
        "local_head_size": local_size,
        "local_rope_size": keys.size("rope.dimension_count_swa", local_size),
        "value_norm": True,
        "keys_as_values": f"blk.{full}.attn_v.weight" not in names and f"blk.{full}.attn_qkv.weight" not in names,
        "borrowing_layers": borrowing,
        "borrowing_ffn": dense_widths(keys, len(kinds))[1] if borrowing else 0,
        "layer_scale": any(name.endswith(LAYER_SCALE) for name in names),
        "token_inputs": keys.optional_size(TOKEN_INPUTS),
    }


def read_windows(keys: Keys, family: Family) -> dict[str, Any]:
    window = family.window(keys)
    if family.unscaled_windows and window:
        return {
            "window": window,
            "local_rope_base": keys.positive("rope.freq_base_swa", keys.positive("rope.freq_base", family.rope_base)),
            "local_rope_size": keys.optional_size("rope.dimension_count_swa"),
        }
    if not family.local_rope_base:
        return {"window": window}
    return {"window": window, "local_rope_base": keys.positive("rope.freq_base_swa", family.local_rope_base)}


def dense_widths(keys: Keys, layers: int) -> tuple[int, int]:
    """The widths of the feed-forward parts of layers that keep keys and values, and of those that borrow them."""
    given, borrowing = keys.sizes("feed_forward_length", layers), keys.optional_size(BORROWING)
    return _alike(keys, "feed_forward_length", given, [layer >= layers - borrowing for layer in range(layers)])


def _alike(keys: Keys, name: str, given: Sequence[int], second: Sequence[bool]) -> tuple[int, int]:
    """The value of all layers that are not of the second kind, and that of those that are; where there is only one
    kind, its value twice."""
    pairs = list(zip(given, second, strict=True))
    ours = {value for value, is_second in pairs if not is_second}
    theirs = {value for value, is_second in pairs if is_second}
    if len(ours) > 1 or len(theirs) > 1:
        raise ValueError(
            f"the key '{keys.architecture}.{name}' is {list(given)!r}, expected one number for each kind of layer"
        )
    return min(ours or theirs), min(theirs or ours)
