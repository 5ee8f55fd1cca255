"""The probe of scripts/bench_formats.py: what its two kinds of kernels unpack."""

import numpy as np
import pytest
from paceline.native import _cpu


def test_per_column_unpacks_every_tile_again_for_each() -> None:
    probe = _cpu.PassProbe(2)
    wide = probe.add("Q8_0", 48, 64, np.zeros(48 * 68, np.uint8))
    tall = probe.add("Q8_0", 96, 32, np.zeros(96 * 34, np.uint8))
    size = 6 * 544  # of either: six tiles of 16 rows x 32 inputs
    phases = [[(wide, 3), (tall, 1)], [(wide, 16)]]
    for isa in _cpu.instruction_sets():
        assert probe.pass_over(phases, per_column=False, isa=isa)[1] == 3 * size
        assert probe.pass_over(phases, per_column=True, isa=isa)[1] == 20 * size
    assert probe.sweep(1 << 20) > 0


def test_what_it_does_not_take_is_named() -> None:
    probe = _cpu.PassProbe(1)
    with pytest.raises(ValueError, match="type 'F32': expected one with integer weights"):
        probe.add("F32", 16, 32, np.zeros(16 * 128, np.uint8))
    with pytest.raises(ValueError, match="data has not the size of this matrix"):
        probe.add("Q8_0", 16, 32, np.zeros(3, np.uint8))
    only = probe.add("Q8_0", 16, 32, np.zeros(16 * 34, np.uint8))
    with pytest.raises(ValueError, match="no matrix 1"):
        probe.pass_over([[(only + 1, 1)]], per_column=False, isa="auto")
    with pytest.raises(ValueError, match="17 columns, expected 1 to 16"):
        probe.pass_over([[(only, 17)]], per_column=False, isa="auto")
