"""A model that breaks down, in its weights or on its way: no token is its answer, and nobody else is harmed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from paceline.native.core import Core, open_core

from .core_models import MODELS, SETS
from .rows import Row, table

CONTEXT = 64
BROKEN = 7
FAMILIES = ("float, wide", "Q4_1", "qwen3", "gemma3", "qwen3moe", "gpt-oss", "glm4moe", "qwen35")


def planted(path: Path, value: float, tmp_path: Path, name: str = "token_embd.weight", at: int = BROKEN) -> Path:
    """The same file with a number of one row of a matrix replaced, of a block its scale; or one of a vector."""
    tensor = next(tensor for tensor in gguf.GGUFReader(path).tensors if tensor.name == name)
    row = tensor.n_bytes // int(tensor.shape[-1])
    number = np.float32(value) if tensor.tensor_type == gguf.GGMLQuantizationType.F32 else np.float16(value)
    data = bytearray(path.read_bytes())
    begin = tensor.data_offset + at * row
    data[begin : begin + number.nbytes] = number.tobytes()
    other = tmp_path / "planted.gguf"
    other.write_bytes(data)
    return other


def kinds() -> list[dict[str, Any]]:
    return [*({"isa": isa} for isa in SETS), {"kind": "reference"}, {"kind": "emulator"}]


def opened(path: Path, kind: dict[str, Any]) -> Core:
    if kind.get("kind") == "emulator":
        pytest.importorskip("paceline.native._emulator", reason="the emulated device is not built")
    return open_core(path, slots=3, context=CONTEXT, **kind)


def row(slot: int, tokens: Sequence[int]) -> Row:
    return Row(slot, tokens, 0, 1, table(slot, CONTEXT), len(tokens))


@pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")
@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: "".join(kind.values()))
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e20])
@pytest.mark.parametrize("name", FAMILIES)
def test_no_token_comes_of_no_numbers(
    tiny_model: Any, tmp_path: Path, name: str, value: float, kind: dict[str, Any]
) -> None:
    whole = tiny_model(**MODELS[name] | {"tied": False})
    core = opened(planted(whole, value, tmp_path), kind)
    rows = [row(0, [3, 4, 5]), row(1, [3, BROKEN, 5]), row(2, [6, 8, BROKEN])]
    results, _ = core.step(rows)
    assert [results[n][0] for n in (1, 2)] == [(-1,), (-1,)]
    sound = opened(whole, kind)
    (expected,), _ = sound.step(rows[:1])
    assert results[0][0] == expected[0]
    exact = kind.get("kind") != "reference"
    assert results[0][1] is not None and expected[1] is not None
    np.testing.assert_allclose(results[0][1], expected[1], rtol=0 if exact else 1e-3, atol=0 if exact else 1e-3)


@pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")
@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: "".join(kind.values()))
@pytest.mark.parametrize("matrix", ["attn_v", "ffn_gate"])
@pytest.mark.parametrize("name", ["float, wide", "Q4_1", "qwen3"])
def test_one_number_among_others_is_enough(
    tiny_model: Any, tmp_path: Path, name: str, matrix: str, kind: dict[str, Any]
) -> None:
    """Behind a norm a column has broken down as a whole; here one output of many is NaN, in the midst of a block."""
    core = opened(planted(tiny_model(**MODELS[name]), np.nan, tmp_path, f"blk.0.{matrix}.weight"), kind)
    results, _ = core.step([row(0, [3, 4, 5])])
    assert results[0][0] == (-1,)


HYBRID = MODELS["qwen35moe"]
STATE_SPACE = MODELS["granitehybrid-moe, Q8_0"]
CAPPED = MODELS["gemma3"] | {"final_softcap": 30.0}


@pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")
@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: "".join(kind.values()))
@pytest.mark.parametrize(
    ("model", "tensor", "broken"),
    [
        (CAPPED, "token_embd.weight", 4),
        (HYBRID, "blk.3.attn_q.weight", 16 + 1),  # behind a head's 16 queries: a gate
        (HYBRID, "blk.0.ssm_alpha.weight", 0),
        (HYBRID, "blk.0.ssm_beta.weight", 0),
        (HYBRID, "blk.0.ssm_a", 0),
        (MODELS["nemotron_h"], "blk.1.ffn_up.weight", 0),
        (STATE_SPACE, "blk.0.ssm_a", 0),
        (STATE_SPACE, "blk.0.ssm_d", 0),
        (STATE_SPACE, "blk.0.ssm_dt.bias", 0),
        (STATE_SPACE, "blk.0.ssm_conv1d.bias", 0),
        (HYBRID, "blk.0.ffn_gate_inp_shexp.weight", 0),
        (HYBRID, "blk.0.ffn_gate_inp.weight", 1),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_opens_and_closes_keeps_what_is_no_number(
    tiny_model: Any, tmp_path: Path, model: dict[str, Any], tensor: str, broken: int, kind: dict[str, Any]
) -> None:
    """A soft-cap, a gate, a decay or a choice of experts that made of it some number would let a model speak on."""
    core = opened(planted(tiny_model(**model), np.nan, tmp_path, tensor, broken), kind)
    results, _ = core.step([row(0, [3, 4, 5])])
    assert results[0][0] == (-1,)
