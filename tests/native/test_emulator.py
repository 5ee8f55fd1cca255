"""The emulated device sees what a kernel may not do."""

import os
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from paceline.native.device_memory import EmulatedMemory

from .emulated import _emulator, lanes


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("half a warp", "shuffle: only 16 lanes"),
        ("two operations", "meet in shuffle and in sync_warp"),
        ("half a barrier", "only 32 of 64 threads"),
        ("too much shared memory", "256 bytes of shared memory taken, the launch asked for 128"),
        ("more than a GPU has", "101392 bytes of shared memory, and some GPUs have 101376"),
        ("past shared memory", "past the end of shared memory"),
        ("misaligned", "no multiple of 16"),
        ("half waits", "without wait_for_earlier"),
        ("rounded sum", "depends on the order of its products"),
    ],
)
def test_a_misuse_is_named(what: str, said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        _emulator.misuse(what)
    assert _emulator.misuse("no barrier") == 7  # the next launch is none the worse


def test_a_barrier_forgotten_shows_in_another_order() -> None:
    assert _emulator.misuse("no barrier") == 7
    with lanes("reversed"):
        assert _emulator.misuse("no barrier") == -1


def test_a_copy_not_waited_for_is_poison() -> None:
    assert _emulator.misuse("no wait") == -1


def test_memory_is_what_was_put_there() -> None:
    memory = EmulatedMemory()
    a, b = memory.allocate(1000), memory.allocate(1000)
    assert a % 256 == 0
    assert (memory.download(a, 1000) == 0xFF).all()
    memory.upload(a, np.arange(250, dtype=np.int32))
    memory.copy(a, b, 1000)
    assert np.array_equal(memory.download(b, 1000).view(np.int32), np.arange(250))
    memory.release(a)
    memory.release(b)


def test_a_read_past_a_piece_ends_there_and_then() -> None:
    code = (
        "import ctypes\n"
        "from paceline.native.device_memory import EmulatedMemory\n"
        "memory = EmulatedMemory()\n"
        "place = memory.allocate(512)\n"
        "ctypes.c_uint8.from_address(place + 511).value\n"
        "ctypes.c_uint8.from_address(place + 512).value\n"
    )
    found = subprocess.run([sys.executable, "-c", code], env=os.environ, check=False)
    assert found.returncode == -signal.SIGSEGV


def test_memory_that_cannot_be_released_ends_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of an interpreter a core may be deleted behind the modules that its memory needs."""

    class Ended(EmulatedMemory):
        def release(self, place: int) -> None:
            super().release(place)
            raise TypeError("'NoneType' object is not callable")

    told = list[Any]()
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    probe = _emulator.ProductProbe("F32", 16, 32, np.zeros((16, 128), np.uint8), Ended())
    del probe
    assert told and all(one.exc_type is TypeError for one in told)
