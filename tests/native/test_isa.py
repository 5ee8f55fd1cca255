"""The instruction sets that can be asked for."""

import argparse
import re

import numpy as np
import pytest
from paceline.daemon.flags import add_daemon_arguments
from paceline.native import _cpu
from paceline.native.core import COLUMN_COSTS


def choices() -> set[str]:
    parser = argparse.ArgumentParser()
    add_daemon_arguments(parser)
    (action,) = (action for action in parser._actions if action.dest == "isa")
    assert action.choices is not None
    return set(action.choices) - {"auto"}


def test_every_choice_is_known_and_has_a_cost() -> None:
    assert choices() == set(COLUMN_COSTS)
    probe = _cpu.ProductProbe("F32", 16, 32, np.ones((16, 32), np.float32))
    for name in choices():
        if name in _cpu.instruction_sets():
            assert np.array_equal(probe.product(np.ones((1, 32), np.float32), name), np.full((1, 16), 32.0))
        else:
            with pytest.raises(ValueError, match=f"^isa '{name}': this (machine|build) "):
                probe.product(np.ones((1, 32), np.float32), name)


def test_another_name_is_told_all_of_them() -> None:
    probe = _cpu.ProductProbe("F32", 16, 32, np.ones((16, 32), np.float32))
    with pytest.raises(ValueError, match=r"^isa 'avx': expected auto, ") as refused:
        probe.product(np.ones((1, 32), np.float32), "avx")
    assert set(re.findall(r"\w+", str(refused.value).split("expected auto")[1])) - {"or", "on", "ARM"} == choices()
