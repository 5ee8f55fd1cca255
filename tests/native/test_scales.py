"""Factors beside a matrix (NVFP4's), through the whole core: of a tensor, and of each expert."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from paceline.native import _cpu
from paceline.native.core import PAGE, load, native_shape, tables
from paceline.native.files.model_file import Tensor
from paceline.native.fingerprint import Fingerprint
from paceline.native.model import read_shape
from paceline.native.reference import Reference
from paceline.native.weights import open_model

from .rows import Row, table

CONTEXT = 128


def small_floats(tensor: Tensor, factors: tuple[float, ...]) -> Tensor:
    """Random NVFP4 of the tensor's shape: blocks of four UE4M3 scales about 1/16 and 64 codes."""
    rng = np.random.default_rng(tensor.rows)
    blocks = rng.integers(0, 256, (tensor.rows, tensor.columns // 64, 36), np.uint8)
    blocks[..., :4] = rng.integers(20, 28, blocks[..., :4].shape)
    return Tensor(tensor.name, "NVFP4", tensor.rows, tensor.columns, blocks.reshape(tensor.rows, -1), factors)


def logits(model: Path, factors: dict[str, tuple[float, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """Of the core and of the reference, [tokens, vocab] each, with the named tensors in NVFP4."""
    metadata, tensors = open_model(model)
    tensors = [small_floats(tensor, factors[tensor.name]) if tensor.name in factors else tensor for tensor in tensors]
    shape = replace(read_shape(metadata, tensors), context=CONTEXT)
    core = _cpu.Core(
        native_shape(shape, CONTEXT), *tables(shape, CONTEXT), slots=1, pages=CONTEXT // PAGE, threads=2, isa="auto"
    )
    load(core, tensors, Fingerprint(shape, "f16", "f16"), progress=False)
    row = Row(0, list(range(3, 40)), 0, 37, table(0, CONTEXT))
    results, _ = core.step([row])
    [expected] = Reference(shape, tensors).step([row])
    assert results[0][1] is not None
    return results[0][1], expected.logits


@pytest.mark.parametrize("factor", [1.0, 0.3, 2.5])
def test_a_factor_of_a_tensor_multiplies_its_product(tiny_model, factor: float) -> None:
    names = ("blk.0.attn_v.weight", "blk.1.ffn_gate.weight", "blk.1.ffn_up.weight", "token_embd.weight")
    found, expected = logits(tiny_model(width=64, ffn=64), dict.fromkeys(names, (factor,)))
    assert np.sqrt(np.mean((found - expected) ** 2)) < 0.03 * np.sqrt(np.mean(expected**2))
    plain, _ = logits(tiny_model(width=64, ffn=64), dict.fromkeys(names, ()))
    assert (factor == 1.0) == np.array_equal(plain, found)


def test_each_expert_has_a_factor_of_its_own(tiny_model) -> None:
    model = tiny_model(architecture="qwen3moe", width=64, experts=4, experts_used=4, expert_ffn=64)
    factors = {"blk.0.ffn_up_exps.weight": (0.5, 1.0, 2.0, 0.25), "blk.1.ffn_down_exps.weight": (3.0, 0.1, 1.0, 0.5)}
    found, expected = logits(model, factors)
    assert np.sqrt(np.mean((found - expected) ** 2)) < 0.03 * np.sqrt(np.mean(expected**2))
    other, _ = logits(model, factors | {"blk.0.ffn_up_exps.weight": (1.0, 1.0, 2.0, 0.25)})
    assert not np.array_equal(other, found)
