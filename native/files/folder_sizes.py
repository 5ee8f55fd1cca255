"""The sizes of a Hugging Face folder's model."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes by which tensors are split and reordered. `head_keys` and `head_values` belong to latent
    attention, the four before the last to recurrent layers; they are 0 without.

    The `drafting` layers after the others draft tokens ahead, and are left out.
    """

    architecture: str
    layers: int
    drafting: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    experts: int
    head_keys: int
    head_values: int
    key_heads: int
    value_heads: int
    key_size: int
    value_size: int
    query_norm: float  # weights of the norms of queries where a folder has none; 0: it has them
