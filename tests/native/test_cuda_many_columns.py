"""Kernels for many columns, of gate and up too, in formats that tiny models do not have: a step has the CPU's bits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from paceline.native.core import open_core

from .core_models import ids_of
from .emulated import KIND, planned_for, same_bits
from .rows import all_logits

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_shaped_model.py"
CONTEXT = 256


# Two scales and a header, halves, powers of two, and the largest table beside a block's sums.
@pytest.mark.parametrize("name", ["Q4_K", "Q6_K", "NVFP4", "MXFP4", "IQ1_M"])
def test_a_prompt_has_the_bits_of_the_cpu(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    subprocess.run([sys.executable, SCRIPT, "tiny", path, "--type", name, "--layers", "1"], check=True)
    cpu, device = (open_core(path, slots=2, context=CONTEXT, kind=kind) for kind in ("cpu", KIND))
    ids = ids_of(7, 177, cpu.vocab)
    expected = all_logits(cpu, 0, ids)
    assert same_bits(all_logits(device, 0, ids, cuts=(75, 130)), expected)  # 64 and 11, 55, 47 columns
    with planned_for(1000):
        assert same_bits(all_logits(device, 1, ids, cuts=(120,)), expected)  # 64 and 56, 57
