"""How the threads of a step share an operation's items: each is done once, and nobody waits for who is late."""

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
