"""The sizes of a Hugging Face folder's model."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes by which tensors are split and reordered. The last four are 0 without recurrent layers.

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
    key_heads: int
    value_heads: int
    key_size: int
    value_size: int
