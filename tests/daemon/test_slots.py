"""Leases: the epoch rises with every admission and every end."""

from __future__ import annotations

import pytest
from paceline.daemon.slots import Slots


def test_epochs_rise_at_lease_and_release() -> None:
    slots = Slots(2)
    assert slots.free() == 0
    assert slots.lease(0, 7) == 1
    assert (slots.free(), slots.used, len(slots)) == (1, 1, 2)
    slots.release(0, 1)
    assert slots.epochs == [2, 0]
    assert slots.lease(0, 8) == 3
    assert slots.lease(1, 9) == 1
    assert slots.free() is None
    assert slots.owners == [8, 9]


def test_an_owned_slot_is_not_leased_again() -> None:
    slots = Slots(1)
    slots.lease(0, 7)
    with pytest.raises(ValueError, match="slot 0 belongs to request 7"):
        slots.lease(0, 8)


def test_a_lease_that_is_over_releases_nothing() -> None:
    slots = Slots(1)
    slots.lease(0, 7)
    with pytest.raises(ValueError, match="not leased at epoch 3"):
        slots.release(0, 3)
    slots.release(0, 1)
    with pytest.raises(ValueError, match="not leased at epoch 2"):
        slots.release(0, 2)


def test_a_lease_is_passed_on_to_another_request() -> None:
    slots = Slots(1)
    with pytest.raises(ValueError, match="slot 0 is free"):
        slots.pass_on(0, 8)
    slots.lease(0, 7)
    slots.pass_on(0, 8)
    assert (slots.owners, slots.epochs) == ([8], [1])
