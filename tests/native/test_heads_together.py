"""Many heads that share keys and values: how a core divides them among calls and threads changes no bit."""

import numpy as np
import pytest
from paceline.native import _cpu
from paceline.native.core import Core, open_core

from .core_models import ids_of
from .rows import all_logits

CONTEXT = 256
SETS = _cpu.instruction_sets()
HISTORY = ids_of(5, 150, 64)


@pytest.mark.parametrize("heads", [9, 22, 28, 29, 70])  # attend() takes 28; eight threads divide them
def test_groups_of_any_size(heads: int, tiny_model) -> None:
    path = tiny_model(architecture="qwen3", type="F32", heads=heads, kv_heads=1, head_size=16, layers=1)

    def core(kind: str = "cpu", **options: object) -> Core:
        return open_core(path, slots=1, context=CONTEXT, kind=kind, **options)

    expected = all_logits(core("reference"), 0, HISTORY)
    found = all_logits(core(threads=1), 0, HISTORY)
    assert np.sqrt(np.mean((found - expected) ** 2)) <= 1e-3 * np.sqrt(np.mean(expected**2))
    for isa, threads in [*((isa, 1) for isa in SETS), (SETS[-1], 8)]:
        other = all_logits(core(threads=threads, isa=isa), 0, HISTORY, (100, 101, 102, 104))
        assert np.array_equal(other.view(np.uint32), found.view(np.uint32)), (isa, threads)
