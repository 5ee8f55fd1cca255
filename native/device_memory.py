"""Memory of a device, as the CUDA core asks for it: places are addresses, as numbers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]


class DeviceMemory(Protocol):
    """Operations happen in call order; those that return contents wait for them. A lost device raises DeviceLost, lack
    of room MemoryError."""

    @property
    def name(self) -> str:
        """Of the device, for people."""

    @property
    def free(self) -> int:
        """Bytes of the largest piece that could still be taken."""

    @property
    def stream(self) -> int:
        """The stream for launches outside of `run`; 0: none."""

    def allocate(self, bytes: int) -> int:
        """A place aligned to 256; its contents are undefined."""

    def release(self, place: int) -> None: ...
    def upload(self, place: int, data: Any) -> None:
        """data: whatever has the buffer protocol, contiguous."""

    def download(self, place: int, bytes: int) -> Bytes: ...
    def bring(self, pieces: Sequence[tuple[int, int]]) -> Callable[[], list[Bytes]]:
        """Begins several downloads, each a place and its bytes. What it returns waits for them all and for what was run
        before, but not for what is run after; it must be called before the next download or upload but for begin()."""

    def fetch(self, pieces: Sequence[tuple[int, int]]) -> list[Bytes]:
        """The same, with the wait."""

    def copy(self, source: int, target: int, bytes: int) -> None: ...

    def clear(self, place: int, bytes: int) -> None:
        """Fills with zeros."""

    def begin(self, place: int, data: Any) -> None:
        """An upload that later work waits for, and the caller does not."""

    def run(self, key: Hashable, enqueue: Callable[[int], None]) -> None:
        """Calls enqueue(stream), or replays what a call with this key launched before."""

    def forget(self) -> None:
        """Forgets all keys."""


class EmulatedMemory:
    """The emulated device's: this process's own memory, every piece between pages without access."""

    name = "emulator"
    free = 1 << 34
    stream = 0

    def __init__(self) -> None:
        from . import _cpu, _emulator  # _cpu first: it registers the types that both know

        assert _cpu
        self._rooms: dict[int, Any] = {}
        self._new = _emulator.Room
        self._wrote = _emulator.note_host_write

    def allocate(self, bytes: int) -> int:
        room = self._new(bytes)
        place: int = room.place
        self._rooms[place] = room
        return place

    def release(self, place: int) -> None:
        del self._rooms[place]

    def upload(self, place: int, data: Any) -> None:
        flat = np.frombuffer(data, np.uint8)
        self._wrote(place, flat.size)
        _view(place, flat.size)[:] = flat

    def download(self, place: int, bytes: int) -> Bytes:
        return _view(place, bytes).copy()

    def bring(self, pieces: Sequence[tuple[int, int]]) -> Callable[[], list[Bytes]]:
        found = [self.download(place, bytes) for place, bytes in pieces]
        return lambda: found

    def fetch(self, pieces: Sequence[tuple[int, int]]) -> list[Bytes]:
        return self.bring(pieces)()

    def copy(self, source: int, target: int, bytes: int) -> None:
        self._wrote(target, bytes)
        _view(target, bytes)[:] = _view(source, bytes)

    def clear(self, place: int, bytes: int) -> None:
        self._wrote(place, bytes)
        _view(place, bytes)[:] = 0

    begin = upload

    def run(self, key: Hashable, enqueue: Callable[[int], None]) -> None:
        enqueue(0)

    def forget(self) -> None:
        pass


def _view(place: int, bytes: int) -> Bytes:
    if bytes == 0:
        return np.empty(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * bytes).from_address(place))
