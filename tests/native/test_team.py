"""How the threads of a step share an operation's items: each is done once, and nobody waits for who is late."""

import os
import subprocess
import sys
from typing import Any

import pytest
from paceline.native import _cpu

OPERATIONS = [0, 1, 2, 3, 5, 36, 37, 100, 0, 1, 3072] * 20


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_team_does_every_item_once(threads: int) -> None:
    calls, _ = _cpu.divide(threads, OPERATIONS, late=False, seconds=0)
    assert calls == [[1] * items for items in OPERATIONS]


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_team_takes_the_items_of_a_late_member(threads: int) -> None:
    operations = [items for items in OPERATIONS if items >= threads]  # the first member has a share
    calls, came = _cpu.divide(threads, operations, late=True, seconds=60)
    assert calls == [[1] * items for items in operations]
    assert came


SAMPLE = """
import sys
from array import array
from pathlib import Path
from paceline.daemon.plan import Row
from paceline.native.core import open_core
from paceline.protocol import Sampling

core = open_core(Path(sys.argv[1]), slots=2, context=64, threads=4)
for count in (1, 2):
    sampling = Sampling(temp=0.9, seed=4, logprobs=3)
    rows = [Row(0, slot, 0, [3, 4, 5], 0, 1, sampling, 3, array("i", [slot]), True) for slot in range(count)]
    print(core.step(rows)[0])
"""


def test_fewer_threads_than_were_asked_for_draw_the_same(tiny_model: Any) -> None:
    """OpenMP grants what it may; whoever is there has what it takes to sample."""

    def drawn(**limits: str) -> bytes:
        command = [sys.executable, "-c", SAMPLE, tiny_model()]
        return subprocess.run(command, env=os.environ | limits, check=True, capture_output=True, timeout=60).stdout

    alone = drawn()
    assert alone
    assert [drawn(OMP_THREAD_LIMIT=str(most)) for most in (1, 2, 3)] == [alone] * 3
