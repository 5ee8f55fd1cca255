"""Models of real shapes for scripts/bench_gpu.py: weights of random valid blocks that no file holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from make_shaped_model import pool, tensor_bytes, tensors
from model_shapes import SHAPES, dense
from paceline.native.core import native_shape, tables
from paceline.native.cuda_core import DeviceStepper
from paceline.native.shape import ModelShape

# Random blocks: an isolated product's matrix consists of them; of a model's, the core packs the first 16 MiB, and the
# device copies these for the rest.
POOL_BYTES = 40 << 20

HYBRID = replace(
    dense(
        "qwen35", 64, width=5120, ffn=17408, heads=24, kv_heads=4, head_size=256, vocab=248320, context=40960
    ),
    rope_base=1e7,
    rope_size=64,
    kinds=("recurrent", "recurrent", "recurrent", "attention") * 16,
    gated_attention=True,
    conv_kernel=4,
    key_heads=16,
    value_heads=48,
    key_size=128,
    value_size=128,
)  # fmt: skip
MOE = replace(SHAPES["moe"], layers=48, kinds=("attention",) * 48, normalize_experts=True)
TINY_HYBRID = replace(
    SHAPES["tiny"],
    architecture="qwen35",
    rope_base=1e7,
    rope_size=16,
    layers=4,
    kinds=HYBRID.kinds[:4],
    gated_attention=True,
    conv_kernel=4,
    key_heads=2,
    value_heads=4,
    key_size=128,
    value_size=128,
)
TINY_MOE = replace(
    SHAPES["tiny"], architecture="qwen3moe", experts=8, experts_used=2, expert_ffn=256, normalize_experts=True
)
MODELS: dict[str, ModelShape] = {
    "Qwen3-8B": SHAPES["8b"],
    "Qwen3.5-27B hybrid": HYBRID,
    "Qwen3-30B-A3B": MOE,
    "tiny": SHAPES["tiny"],
    "tiny hybrid": TINY_HYBRID,
    "tiny MoE": TINY_MOE,
}


class Blocks:
    """Bytes of matrices in one format: a run of random blocks, then zeros that take no memory until they are read."""

    def __init__(self, kind: str, width: int) -> None:
        self.kind = kind
        blocks = pool(kind, width**-0.5).reshape(-1)
        self._random = np.resize(blocks, POOL_BYTES // len(blocks) * len(blocks) + len(blocks))
        self._bytes = np.empty(0, np.uint8)

    def of(self, rows: int, columns: int) -> np.ndarray:
        size = tensor_bytes(rows, columns, self.kind)
        if size > self._bytes.size:
            self._bytes = np.zeros(size, np.uint8)
            begin = min(size, self._random.size)
            self._bytes[:begin] = self._random[:begin]
        return self._bytes[:size]


def expert_bytes(shape: ModelShape, kind: str) -> int:
    """Of one expert of each layer, together."""
    sizes = [tensor_bytes(*sizes) for name, *sizes in tensors(shape, kind) if name.endswith("_exps.weight")]
    return sum(sizes) // max(1, shape.experts)


def values(name: str, count: int) -> np.ndarray:
    """A vector's floats, as bytes: near 1; decays of recurrent heads are below 0."""
    noise = np.random.RandomState(1).standard_normal(count)
    return (-np.exp(noise - 2) if name.endswith("ssm_a") else 1 + 0.1 * noise).astype(np.float32).view(np.uint8)


def synthetic(
    shape: ModelShape,
    kind: str,
    context: int,
    slots: int,
    memory: Callable[[], tuple[Any, Any]],
) -> tuple[DeviceStepper, Any]:
    """The model on the device that `memory` opens, without pages; and its memory.

    memory() -> the native module and the memory. Raises ValueError if there are no kernels for it, MemoryError if there
    is no room.
    """
    native = native_shape(shape, context)
    module, room = memory()
    states = int("recurrent" in shape.kinds)
    stepper = DeviceStepper(module, room, native, tables(shape, context), slots=slots, pages=0, states=states)
    stepper.one_piece(True)
    blocks = Blocks(kind, shape.width)
    for name, rows, columns, own in tensors(shape, kind):
        data = blocks.of(rows, columns) if own == kind else values(name, rows * columns)
        stepper.load(name, own, rows, columns, data, [], False)
    return stepper, room
