"""Float matrices quantized as they are loaded."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from paceline.native import quantize
from paceline.native.core import open_core
from paceline.native.files.model_file import Tensor
from paceline.native.quantize import quantized
from paceline.native.reference_weights import to_float32
from paceline.native.weights import open_model

from .files.folders import LLAMA, llama_tensors, write_folder
from .rows import all_logits


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "tiny", llama_tensors(np.float16), LLAMA)


def tensor(name: str, columns: int = 64, rows: int = 5) -> Tensor:
    values = np.random.RandomState(1).standard_normal((rows, columns)).astype(np.float32)
    return Tensor(name, "F32", rows, columns, values.view(np.uint8))


@pytest.mark.parametrize("kind", quantize.TYPES)
def test_matrices_are_quantized_and_nothing_else(folder: Path, kind: str) -> None:
    before = open_model(folder)[1]
    for old, new in zip(before, quantized(before, kind), strict=True):
        assert (old.name, old.rows, old.columns) == (new.name, new.rows, new.columns)
        ends = old.name in ("token_embd.weight", "output.weight")
        assert new.type == ("F32" if old.name.endswith("norm.weight") else "Q8_0" if ends else kind.upper())
        assert new.data.shape == (new.rows, new.nbytes // new.rows)


@pytest.mark.parametrize("together", [1, 200, 1 << 22])
def test_the_bytes_are_those_of_the_gguf_package(monkeypatch: pytest.MonkeyPatch, together: int) -> None:
    monkeypatch.setattr(quantize, "TOGETHER", together)
    old = tensor("blk.3.ffn_down_exps.weight", rows=7)
    for kind in (gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0):
        [new] = quantized([old], kind.name.lower())
        assert new.data.tobytes() == gguf.quants.quantize(to_float32(old), kind).tobytes()


@pytest.mark.parametrize(
    "name",
    [
        "ffn_gate_up_exps",
        "ssm_in",
        "shortconv.in_proj",
        "shortconv.out_proj",
        "ffn_up_shexp",
        "attn_gate",
        "attn_q_a",
        "inp_gate",
        "proj",
    ],
)
def test_fused_matrices_and_those_of_experts_are_quantized(name: str) -> None:
    [new] = quantized([tensor(f"blk.0.{name}.weight")], "q4_0")
    assert new.type == "Q4_0"


@pytest.mark.parametrize("name", ["attn_k_b", "attn_v_b"])
def test_what_stands_between_latent_values_and_heads_keeps_8_bits(name: str) -> None:
    assert quantized([tensor(f"blk.0.{name}.weight")], "q4_0")[0].type == "Q8_0"


@pytest.mark.parametrize(
    "name",
    ["output_norm.weight", "blk.0.attn_q.bias", "blk.0.ssm_conv1d.weight", "blk.0.ssm_a", "blk.0.ssm_alpha.weight",
     "blk.0.ssm_ba.weight", "per_layer_model_proj.weight",
     "blk.0.ffn_gate_inp.weight", "blk.0.ffn_gate_inp_shexp.weight", "rope_freqs.weight"],
)  # fmt: skip
def test_what_stays(name: str) -> None:
    old = tensor(name)
    assert quantized([old], "q4_0")[0] is old


def test_rows_of_no_whole_number_of_blocks_stay() -> None:
    old = tensor("blk.0.ffn_down.weight", columns=80)
    assert quantized([old], "q4_0")[0] is old


def test_a_model_is_served_quantized(folder: Path, tiny_model: Any) -> None:
    for path in (folder, tiny_model(seed=1, vocab=300, type="F32")):
        logits: dict[str | None, Any] = {}
        for kind in (None, *quantize.TYPES):
            core = open_core(path, slots=1, context=64, threads=1, quantize=kind)
            logits[kind] = all_logits(core, 0, [1, 2, 3])
        exact = logits[None]
        errors = [float(np.abs(logits[kind] - exact).max() / np.abs(exact).max()) for kind in quantize.TYPES]
        assert 0 < errors[0] < 0.06 and errors[0] < errors[1] < 0.5


def test_an_unknown_type_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="cannot quantize to 'q5_k', expected q8_0 or q4_0"):
        open_core(folder, slots=1, quantize="q5_k")
