"""Conversions and random numbers of the core against NumPy and published vectors."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from paceline.native import _cpu


def test_every_half_widens_as_numpy_does() -> None:
    bits = np.arange(65536, dtype=np.uint16)
    ours = np.array([_cpu.half_to_float(int(b)) for b in bits], np.float32)
    theirs = bits.view(np.float16).astype(np.float32)
    assert np.array_equal(np.isnan(ours), np.isnan(theirs))
    assert np.array_equal(ours[~np.isnan(ours)].view(np.uint32), theirs[~np.isnan(theirs)].view(np.uint32))


@given(st.floats(width=32, allow_nan=False))
def test_floats_narrow_as_numpy_does(value: float) -> None:
    with np.errstate(over="ignore"):
        assert _cpu.float_to_half(value) == int(np.float32(value).astype(np.float16).view(np.uint16))


def test_halfway_cases_go_to_even() -> None:
    halves = np.arange(0x7BFF, dtype=np.uint16)
    middle = (halves.view(np.float16).astype(np.float64) + (halves + 1).astype(np.uint16).view(np.float16)) / 2
    expected = np.where(halves % 2, halves + 1, halves)
    assert [_cpu.float_to_half(float(m)) for m in middle[::37]] == expected[::37].tolist()


def test_uniform_is_philox() -> None:
    """The first word of Philox 4x32-10, from the known answers of its authors' Random123."""
    assert _cpu.uniform(0, 0) == 0x6627E8D5 / 2**32
    assert _cpu.uniform(2**64 - 1, 2**64 - 1) != _cpu.uniform(2**64 - 1, 0)


def test_uniform_is_uniform() -> None:
    draws = np.array([_cpu.uniform(7, position) for position in range(20000)])
    counts, _ = np.histogram(draws, bins=20, range=(0, 1))
    assert ((counts - 1000) ** 2 / 1000).sum() < 50  # chi square, 19 degrees of freedom: p about 1e-4
