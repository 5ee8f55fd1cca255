"""The pool of kept states."""

from __future__ import annotations

import pytest
from paceline.daemon.states import StatePool


def test_states_are_given_once_and_come_back() -> None:
    pool = StatePool(2)
    one, two = pool.allocate(), pool.allocate()
    assert {one, two} == {0, 1}
    assert pool.allocate() is None
    assert one is not None
    pool.retain(one)
    pool.release(one)
    assert pool.free == 0
    pool.release(one)
    assert (pool.free, len(pool)) == (1, 2)
    for misuse in (pool.retain, pool.release):
        with pytest.raises(ValueError, match=f"state {one} is free"):
            misuse(one)
