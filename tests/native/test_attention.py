"""Attention alone, against float64 NumPy: windows, soft-caps, and the same bits in any company."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from paceline.native import _cpu

SETS = _cpu.instruction_sets()
PAGES = 20
Floats = npt.NDArray[np.float32]


def draw(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def expected(keys: Floats, values: Floats, query: Floats, position: int, window: int, softcap: float) -> Floats:
    """keys, values [n, head_size] as the cache gives them back -> [head_size] in float64."""
    begin = max(0, position - window + 1) if window else 0
    seen = slice(begin, position + 1)
    scores = keys[seen].astype(np.float64) @ query.astype(np.float64)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    weights = np.exp(scores - scores.max())
    result: Floats = (weights / weights.sum()) @ values[seen].astype(np.float64)
    return result


@pytest.mark.parametrize("softcap", [0.0, 20.0])
@pytest.mark.parametrize("window", [0, 1, 40, 64, 500, 700])
@pytest.mark.parametrize("head_size", [12, 32, 48, 64, 80, 128])
def test_attention_agrees_with_numpy(head_size: int, window: int, softcap: float) -> None:
    count = 1200
    keys, values = draw(1, count, head_size), draw(2, count, head_size)
    probe = _cpu.AttentionProbe(head_size=head_size, pages=PAGES, window=window, softcap=softcap)
    probe.write(keys, values, 0, SETS[-1])
    stored = [array.astype(np.float16).astype(np.float32) for array in (keys, values)]
    positions = np.array([0, 1, 39, 40, 63, 64, 127, 511, 512, 575, 700, 701, 1023, 1024, 1150, 1199], np.int32)
    queries = draw(3, len(positions), head_size) * 0.7
    found = probe.attend(queries, positions, SETS[-1])
    for i, position in enumerate(positions.tolist()):
        truth = expected(*stored, queries[i], position, window, softcap)
        np.testing.assert_allclose(found[i], truth, rtol=0, atol=2e-5, err_msg=f"position {position}")


@pytest.mark.parametrize("softcap", [0.0, 20.0])
@pytest.mark.parametrize("window", [0, 1, 100, 600])
@pytest.mark.parametrize("head_size", [12, 64, 96])
def test_company_and_instruction_set_change_no_bit(head_size: int, window: int, softcap: float) -> None:
    """Queries far apart share a call: each skips what the others see."""
    count = 1100
    probe = _cpu.AttentionProbe(head_size=head_size, pages=PAGES, window=window, softcap=softcap)
    probe.write(draw(1, count, head_size), draw(2, count, head_size), 0, SETS[-1])
    chance = np.random.default_rng(4)
    for size in (2, 3, 5, 6, 7, 11, 16):
        near = chance.integers(0, count - size) + np.arange(size)
        for positions in (near.astype(np.int32), chance.integers(0, count, size).astype(np.int32)):
            queries = draw(size, size, head_size)
            together = {isa: probe.attend(queries, positions, isa) for isa in SETS}
            alone = np.concatenate(
                [probe.attend(queries[i : i + 1], positions[i : i + 1], SETS[-1]) for i in range(size)]
            )
            for isa, found in together.items():
                assert np.array_equal(found.view(np.uint32), alone.view(np.uint32)), (isa, positions)


@pytest.mark.parametrize("softcap", [0.0, 30.0])
def test_extreme_scores(softcap: float) -> None:
    head_size = 32
    keys = draw(1, 200, head_size) * 100
    values = draw(2, 200, head_size)
    probe = _cpu.AttentionProbe(head_size=head_size, pages=PAGES, window=150, softcap=softcap)
    probe.write(keys, values, 0, SETS[-1])
    stored = [array.astype(np.float16).astype(np.float32) for array in (keys, values)]
    queries = draw(3, 1, head_size) * 10
    truth = expected(*stored, queries[0], 199, 150, softcap)
    for isa in SETS:
        found = probe.attend(queries, np.array([199], np.int32), isa)
        np.testing.assert_allclose(found[0], truth, rtol=0, atol=1e-4)
