"""Attention alone, against float64 NumPy: windows, soft-caps, types of the cache, and the same bits in any company."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from paceline.native import _cpu

SETS = _cpu.instruction_sets()
PAGES = 20
SIZES = (*range(2, 15), 16, 21, 27, 28)  # every number of queries to a call, and two calls
TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0")
Floats = npt.NDArray[np.float32]


def draw(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def stored(kind: str, x: Floats) -> Floats:
    """x [n, head_size] as a cache of this type gives it back."""
    if kind == "f32":
        return x
    if kind == "f16":
        return x.astype(np.float16).astype(np.float32)
    if kind == "bf16":
        bits = x.view(np.uint32).astype(np.uint64)
        return (bits + 0x7FFF + (bits >> 16 & 1) >> 16 << 16).astype(np.uint32).view(np.float32)
    blocks = x.reshape(-1, 32)
    extreme = np.take_along_axis(blocks, np.abs(blocks).argmax(1, keepdims=True), 1)
    step = np.abs(extreme) / np.float32(127) if kind == "q8_0" else extreme / np.float32(-8)
    with np.errstate(over="ignore"):
        step = step.astype(np.float16).astype(np.float32)
    ratio = np.divide(blocks, step, out=np.zeros_like(blocks), where=step != 0)
    if kind == "q8_0":
        codes = np.rint(np.clip(ratio, -127, 127))
    else:
        codes = np.trunc(np.clip(ratio + np.float32(8.5), 0, 15)) - 8
    return (codes * step).astype(np.float32).reshape(x.shape)


def expected(
    keys: Floats,
    values: Floats,
    query: Floats,
    position: int,
    window: int,
    softcap: float,
    sink: float = -np.inf,
) -> Floats:
    """keys, values [n, head_size] as the cache gives them back -> [head_size] in float64."""
    begin = max(0, position - window + 1) if window else 0
    seen = slice(begin, position + 1)
    scores = keys[seen].astype(np.float64) @ query.astype(np.float64)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    peak = max(scores.max(), sink)
    weights = np.exp(scores - peak)
    result: Floats = (weights / (weights.sum() + np.exp(sink - peak))) @ values[seen].astype(np.float64)
    return result


@pytest.mark.parametrize("softcap", [0.0, 20.0])
@pytest.mark.parametrize("window", [0, 1, 40, 64, 500, 700])
@pytest.mark.parametrize("head_size", [12, 32, 48, 64, 80, 128])
def test_attention_agrees_with_numpy(head_size: int, window: int, softcap: float) -> None:
    count = 1200
    keys, values = draw(1, count, head_size), draw(2, count, head_size)
    probe = _cpu.AttentionProbe(head_size=head_size, pages=PAGES, window=window, softcap=softcap)
    probe.write(keys, values, 0, SETS[-1])
    read = stored("f16", keys), stored("f16", values)
    positions = np.array([0, 1, 39, 40, 63, 64, 127, 511, 512, 575, 700, 701, 1023, 1024, 1150, 1199], np.int32)
    queries = draw(3, len(positions), head_size) * 0.7
    found = probe.attend(queries, positions, SETS[-1])
    for i, position in enumerate(positions.tolist()):
        truth = expected(*read, queries[i], position, window, softcap)
        np.testing.assert_allclose(found[i], truth, rtol=0, atol=2e-5, err_msg=f"position {position}")


@pytest.mark.parametrize("window", [0, 70, 600])
@pytest.mark.parametrize("head_size", [20, 64])
def test_sinks_take_their_share_in_any_company(head_size: int, window: int) -> None:
    count = 1200
    probe = _cpu.AttentionProbe(head_size=head_size, pages=PAGES, window=window)
    keys, values = draw(1, count, head_size), draw(2, count, head_size)
    probe.write(keys, values, 0, SETS[-1])
    read = stored("f16", keys), stored("f16", values)
    positions = np.array([0, 1, 63, 64, 127, 511, 512, 700, 1024, 1199], np.int32)
    queries = draw(3, len(positions), head_size) * 0.7
    sinks = np.array([-50, -2, 0, 3, 50, -np.inf, 1, 2, 4, 7], np.float32)
    found = probe.attend(queries, positions, SETS[-1], sinks=sinks.tolist())
    for i, position in enumerate(positions.tolist()):
        truth = expected(*read, queries[i], position, window, 0.0, float(sinks[i]))
        np.testing.assert_allclose(found[i], truth, rtol=0, atol=2e-5, err_msg=f"position {position}")
        for isa in SETS:
            for parts in (False, True):
                alone = slice(i, i + 1)
                options = {"split_by_split": parts, "sinks": sinks[alone].tolist()}
                again = probe.attend(queries[alone], positions[alone], isa, **options)
                assert np.array_equal(again[0].view(np.uint32), found[i].view(np.uint32)), (isa, parts, position)


@pytest.mark.parametrize("softcap", [0.0, 20.0])
@pytest.mark.parametrize("window", [0, 1, 100, 600])
@pytest.mark.parametrize("head_size", [12, 64, 96])
def test_company_and_instruction_set_change_no_bit(head_size: int, window: int, softcap: float) -> None:
    """Queries far apart share a call: each skips what the others see."""
    count = 1100
    probe = _cpu.AttentionProbe(head_size=head_size, pages=PAGES, window=window, softcap=softcap)
    probe.write(draw(1, count, head_size), draw(2, count, head_size), 0, SETS[-1])
    chance = np.random.default_rng(4)
    for size in SIZES:
        near = chance.integers(0, count - size) + np.arange(size)
        for positions in (near.astype(np.int32), chance.integers(0, count, size).astype(np.int32)):
            queries = draw(size, size, head_size)
            together = {isa: probe.attend(queries, positions, isa) for isa in SETS}
            together |= {f"{isa} in parts": probe.attend(queries, positions, isa, split_by_split=True) for isa in SETS}
            alone = np.concatenate(
                [probe.attend(queries[i : i + 1], positions[i : i + 1], SETS[-1]) for i in range(size)]
            )
            for isa, found in together.items():
                assert np.array_equal(found.view(np.uint32), alone.view(np.uint32)), (isa, positions)


def probe_of(key_type: str, value_type: str, head_size: int, isa: str, *arrays: Floats) -> _cpu.AttentionProbe:
    probe = _cpu.AttentionProbe(
        head_size=head_size, pages=PAGES, key_type=key_type, value_type=value_type, window=400, softcap=25.0
    )
    probe.write(*arrays, 0, isa)
    return probe


@pytest.mark.parametrize("head_size", [32, 64, 96, 128])
@pytest.mark.parametrize("value_type", TYPES)
@pytest.mark.parametrize("key_type", TYPES)
def test_every_pair_of_types_agrees_with_numpy(key_type: str, value_type: str, head_size: int) -> None:
    count = 700
    keys, values = draw(5, count, head_size), draw(6, count, head_size)
    keys[3] = 0  # a block without a scale
    values[4, :32] = 1e-6  # and scales that a half holds badly, or not at all
    values[5] = 1e-9
    keys[6, :32] = np.float32(1e-4)
    positions = np.array([0, 6, 7, 8, 63, 64, 399, 400, 511, 512, 699], np.int32)
    queries = draw(7, len(positions), head_size) * 0.7
    probes = {isa: probe_of(key_type, value_type, head_size, isa, keys, values) for isa in SETS}
    found = probes[SETS[-1]].attend(queries, positions, SETS[-1])
    read = stored(key_type, keys), stored(value_type, values)
    for i, position in enumerate(positions.tolist()):
        truth = expected(*read, queries[i], position, 400, 25.0)
        np.testing.assert_allclose(found[i], truth, rtol=0, atol=2e-5, err_msg=f"position {position}")
    for isa, probe in probes.items():
        assert probe.pool() == probes[SETS[-1]].pool(), isa
        assert np.array_equal(probe.attend(queries, positions, isa).view(np.uint32), found.view(np.uint32)), isa


@pytest.mark.parametrize("kind", TYPES)
def test_the_cache_gives_back_its_own_rule(kind: str) -> None:
    """A query that sees one key gets its value as stored, of any magnitude: to the bit, ties and signs included."""
    head_size = 64
    magnitudes = np.float64(10) ** np.random.default_rng(9).integers(-8, 4, (128, 1))
    values = (draw(8, 128, head_size) * magnitudes).astype(np.float32)
    values[:2] = np.arange(128, dtype=np.float32).reshape(2, 64) / 2  # halves between codes
    values[2] = -values[1]
    for isa in SETS:
        probe = _cpu.AttentionProbe(head_size=head_size, pages=PAGES, key_type=kind, value_type=kind, window=1)
        probe.write(np.zeros_like(values), values, 0, isa)
        for position in range(128):
            found = probe.attend(np.ones((1, head_size), np.float32), np.array([position], np.int32), isa)
            assert np.array_equal(found[0], stored(kind, values[position : position + 1])[0]), (isa, position)


@pytest.mark.parametrize("key_type", ["f32", "bf16", "q8_0", "q4_0"])
def test_company_changes_no_bit_of_other_types(key_type: str) -> None:
    count, head_size = 700, 96
    value_type = TYPES[-TYPES.index(key_type)]
    probe = probe_of(key_type, value_type, head_size, SETS[-1], draw(1, count, head_size), draw(2, count, head_size))
    chance = np.random.default_rng(4)
    for size in SIZES:
        positions = chance.integers(0, count, size).astype(np.int32)
        queries = draw(size, size, head_size)
        alone = [probe.attend(queries[i : i + 1], positions[i : i + 1], SETS[-1]) for i in range(size)]
        for isa in SETS:
            found = probe.attend(queries, positions, isa)
            assert np.array_equal(found.view(np.uint32), np.concatenate(alone).view(np.uint32)), (isa, positions)


def test_wrong_types_are_refused() -> None:
    with pytest.raises(ValueError, match="cache type 'q5_0': expected f32, f16, bf16, q8_0 or q4_0"):
        _cpu.AttentionProbe(head_size=32, pages=1, key_type="q5_0")
    with pytest.raises(
        ValueError, match="type q4_0 needs a head size that is a multiple of 32, and this model's is 48"
    ):
        _cpu.AttentionProbe(head_size=48, pages=1, value_type="q4_0")


@pytest.mark.parametrize("softcap", [0.0, 30.0])
def test_extreme_scores(softcap: float) -> None:
    head_size = 32
    keys = draw(1, 200, head_size) * 100
    values = draw(2, 200, head_size)
    probe = _cpu.AttentionProbe(head_size=head_size, pages=PAGES, window=150, softcap=softcap)
    probe.write(keys, values, 0, SETS[-1])
    read = stored("f16", keys), stored("f16", values)
    queries = draw(3, 1, head_size) * 10
    truth = expected(*read, queries[0], 199, 150, softcap)
    for isa in SETS:
        found = probe.attend(queries, np.array([199], np.int32), isa)
        np.testing.assert_allclose(found[0], truth, rtol=0, atol=1e-4)
