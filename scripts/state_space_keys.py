"""How GGUF files have the layers of models with state spaces (Mamba-2), for make_shaped_model.py."""

from collections.abc import Iterator

import gguf
from paceline.native.shape import ModelShape
from paceline.native.tensors import Expected

PARTS = ("attn_qkv.weight", "ssm_alpha.weight")  # of one matrix with the gates


def as_in_files(shape: ModelShape, expected: Iterator[Expected]) -> Iterator[Expected]:
    """Gates, channels and steps as one matrix."""
    for name, rows, columns in expected:
        if name.endswith("attn_gate.weight"):
            rest = 2 * shape.key_heads * shape.key_size + shape.value_heads
            yield name.replace("attn_gate", "ssm_in"), 2 * rows + rest, columns
        elif not name.endswith(PARTS):
            yield name, rows, columns


def dimensions_of(shape: ModelShape, name: str, columns: int) -> list[int] | None:
    """Of vectors that lie in another way than others do."""
    if name.endswith(("ssm_a", "ssm_d")):
        return [columns, 1]
    return [shape.key_heads, columns // shape.key_heads] if name.endswith("ssm_norm.weight") else None


def add_state_space_keys(writer: gguf.GGUFWriter) -> None:
    writer.add_rope_scaling_finetuned(False)  # which says that nothing rotates
    writer.add_logit_scale(1.0)
