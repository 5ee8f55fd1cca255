"""Experts of the CUDA core on the emulated device: chosen, grouped and added up with the bits of the CPU core."""

from __future__ import annotations

import pytest
from paceline.native.core import Core, open_core

from .core_models import ids_of
from .emulated import KIND, ORDERS, lanes, same_bits
from .rows import Row, all_logits, table

CONTEXT = 128
ROWS = (1, 2, 3, 5, 8, 16)
MODELS = {
    "many experts": {"type": "Q4_0", "experts": 70, "experts_used": 9, "expert_ffn": 64},
    "one at a time": {"type": "Q8_0", "experts": 3, "experts_used": 1, "expert_ffn": 96},
    "halves": {"type": "NVFP4", "experts": 5, "experts_used": 2, "expert_ffn": 64},
    "float": {"type": "F32", "experts": 33, "experts_used": 4, "expert_ffn": 40, "width": 72},
    "sigmoids": {"architecture": "glm4moe", "type": "Q4_0", "experts": 70, "experts_used": 9},
    "biased shares": {"architecture": "ernie4_5-moe", "type": "F32", "experts": 33, "experts_used": 4},
}


@pytest.fixture(scope="module", params=MODELS)
def cores(request: pytest.FixtureRequest, tiny_model) -> tuple[Core, Core]:
    path = tiny_model(**{"architecture": "qwen3moe", "layers": 2} | MODELS[request.param])
    cpu, device = (open_core(path, slots=ROWS[-1], context=CONTEXT, kind=kind) for kind in ("cpu", KIND))
    return cpu, device


def test_a_row_has_the_bits_of_the_cpu_in_any_company(cores: tuple[Core, Core]) -> None:
    cpu, device = cores
    for core in cores:
        for slot in range(ROWS[-1]):
            core.step([Row(slot, ids_of(slot, 3, core.vocab), 0, 0, table(slot, CONTEXT))])
            core.commit(slot, 3)
    rows = [Row(slot, [slot + 3], 3, 1, table(slot, CONTEXT)) for slot in range(ROWS[-1])]
    expected, _ = cpu.step(rows)
    for count in ROWS:
        with lanes(ORDERS[count % 3], count):
            found, _ = device.step(rows[-count:])
        for one, other in zip(found, expected[-count:], strict=True):
            assert one[0] == other[0]
            assert same_bits(one[1], other[1]), count


def test_a_prompt_has_the_bits_of_the_cpu(cores: tuple[Core, Core]) -> None:
    """More columns than a list of an expert's has."""
    cpu, device = cores
    ids = ids_of(5, 100, cpu.vocab)
    assert same_bits(all_logits(device, 0, ids, cuts=(83,)), all_logits(cpu, 0, ids))
