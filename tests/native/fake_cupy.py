"""What native/cupy_memory.py and native/open_device.py use of CuPy, on the emulated device, written down call by call.

Copies are late: a copy that is asked for happens when its stream is waited for or launches something that could need
it, so that a pinned buffer written too early shows. Graphs hold the launches of their capture, with their arguments;
whatever else is asked of the device during a capture fails and spoils it. Names, arguments and errors are CuPy's:
test_fake_cupy.py holds them against the real one where that is installed.
"""

from __future__ import annotations

import ctypes
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from paceline.native.core import Core, open_core

from .emulated import _emulator

FREE = 1 << 28
CONTEXT = 640
ERRORS = {
    2: "cudaErrorMemoryAllocation: out of memory",
    35: "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version",
    46: "cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy or unavailable",
    100: "cudaErrorNoDevice: no CUDA-capable device is detected",
    700: "cudaErrorIllegalAddress: an illegal memory access was encountered",
    900: "cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing",
    901: "cudaErrorStreamCaptureInvalidated: operation failed due to a previous error during capture",
}


class CUDARuntimeError(RuntimeError):
    def __init__(self, status: int) -> None:
        super().__init__(ERRORS[status])
        self.status = status


class Memory:
    def __init__(self, device: FakeCupy, size: int) -> None:
        if size > device.free:
            raise CUDARuntimeError(2)
        self._room = _emulator.Room(size)
        self.ptr: int = self._room.place


class Pinned(bytearray):
    """alloc_pinned_memory: the buffer protocol and an address."""

    @property
    def ptr(self) -> int:
        return ctypes.addressof((ctypes.c_uint8 * len(self)).from_buffer(self))


class Stream:
    def __init__(self, device: FakeCupy) -> None:
        self.ptr = len(device.streams) + 1
        self._device = device
        self._copies: deque[Callable[[], None]] = deque()
        self.asked = 0  # how many copies, ever
        self.capture: str | None = None  # "spoiled" by what it does not allow

    def later(self, copy: Callable[[], None]) -> None:
        self._copies.append(copy)
        self.asked += 1

    def catch_up(self, count: int | None = None) -> None:
        """With its first `count` copies, or with all."""
        left = 0 if count is None else self.asked - count
        while len(self._copies) > left:
            self._copies.popleft()()

    def synchronize(self) -> None:
        self._device.note("synchronize")
        self.catch_up()

    def begin_capture(self, mode: int | None = None) -> None:
        self._device.note("capture")
        self.capture = "begun"
        _emulator.begin_capture()

    def end_capture(self) -> Graph:
        recording, spoiled, self.capture = _emulator.end_capture(), self.capture == "spoiled", None
        self._device.note("graph")
        if spoiled:
            raise CUDARuntimeError(901)
        return Graph(self._device, recording)


class Graph:
    def __init__(self, device: FakeCupy, recording: Any) -> None:
        self._device = device
        self._recording = recording

    def upload(self, stream: Stream | None = None) -> None:
        assert stream is not None, "the current stream is not ours"
        self._device.note("graph upload")

    def launch(self, stream: Stream | None = None) -> None:
        assert stream is not None, "the current stream is not ours"
        self._device.note("launch")
        stream.catch_up()
        self._recording.launch()


class Event:
    """Stands behind what its stream had been asked for when it was recorded."""

    def __init__(self, device: FakeCupy) -> None:
        self._device = device
        self._stream: Stream | None = None
        self._behind = 0

    def record(self, stream: Stream) -> None:
        self._device.note("record")
        self._stream, self._behind = stream, stream.asked

    def synchronize(self) -> None:
        self._device.note("wait")
        if self._stream is not None:
            self._stream.catch_up(self._behind)


IN_CAPTURE = ("enqueue", "graph")


class FakeCupy:
    """The module. `calls` counts what was called since the last clear(); `fail` names the calls that fail, and how."""

    def __init__(self, free: int = FREE) -> None:
        self.free = free
        self.calls: Counter[str] = Counter()
        self.fail: dict[str, Exception] = {}
        self.streams: list[Stream] = []
        self.runtime = SimpleNamespace(
            CUDARuntimeError=CUDARuntimeError,
            memcpyHostToDevice=1,
            memcpyDeviceToHost=2,
            memcpyDeviceToDevice=3,
            memcpyAsync=self._copy,
            memsetAsync=self._clear,
            getDeviceCount=lambda: 1,
            getDeviceProperties=lambda number: {"name": b"fake", "major": 9, "minor": 0},
            memGetInfo=lambda: (self.free, 2 * self.free),
            runtimeGetVersion=lambda: 13020,
        )
        self.cuda = SimpleNamespace(
            runtime=self.runtime,
            Device=lambda number: SimpleNamespace(use=lambda: self.note("use")),
            Stream=self._stream,
            Event=lambda block=False, disable_timing=False, interprocess=False: Event(self),
            Memory=lambda size: self._noted("malloc", Memory(self, size)),
            alloc_pinned_memory=lambda size: self._noted("pinned", Pinned(size)),
        )

    def note(self, name: str) -> None:
        self.calls[name] += 1
        for stream in self.streams:
            if stream.capture and name not in IN_CAPTURE:
                stream.capture = "spoiled"
                raise CUDARuntimeError(900)
        if name in self.fail:
            raise self.fail[name]

    def _noted(self, name: str, made: Any) -> Any:
        self.note(name)
        return made

    def _stream(self, non_blocking: bool) -> Stream:
        assert non_blocking
        self.streams.append(Stream(self))
        return self.streams[-1]

    def _clear(self, target: int, value: int, bytes: int, stream: int) -> None:
        self.note("clear")
        check_numbers(target, stream)
        self.streams[stream - 1].later(lambda: _view(target, bytes).fill(value))

    def _copy(self, target: int, source: int, bytes: int, kind: int, stream: int) -> None:
        self.note(("upload", "download", "copy")[kind - 1])
        check_numbers(target, source, stream)
        self.streams[stream - 1].later(lambda: _view(target, bytes).__setitem__(slice(None), _view(source, bytes)))


def check_numbers(*places: int) -> None:
    """CuPy takes no other integers for addresses than Python's own: a NumPy one is a TypeError."""
    if any(type(place) is not int for place in places):
        raise TypeError("an integer is required")


def _view(place: int, bytes: int) -> Any:
    return np.ctypeslib.as_array((ctypes.c_uint8 * bytes).from_address(place))


class Launching:
    """The emulator's module, whose launches wait for the copies that were asked for before, as a stream's do."""

    def __init__(self, cupy: FakeCupy) -> None:
        self._cupy = cupy

    def use_device(self, number: int) -> None:
        self._cupy.note("native device")
        _emulator.use_device(number)

    def Core(self, *arguments: Any, **options: Any) -> Any:  # noqa: N802
        return LaunchingCore(self._cupy, _emulator.Core(*arguments, **options))


class LaunchingCore:
    def __init__(self, cupy: FakeCupy, core: Any) -> None:
        self._cupy = cupy
        self._core = core

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def enqueue(self, sizes: Any, stream: int) -> None:
        self._cupy.note("enqueue")
        self._catch_up()
        self._core.enqueue(sizes, stream)

    def replay(self, most: int, stream: int) -> None:
        self._cupy.note("enqueue")
        self._catch_up()
        self._core.replay(most, stream)

    def _catch_up(self) -> None:
        for one in self._cupy.streams:
            one.catch_up()


def opened(path: Path, **options: Any) -> Core:
    """A model on the GPU that the fixture `cupy` plays."""
    return open_core(path, **{"slots": 6, "context": CONTEXT, "kind": "cuda", "step_tokens": 64} | options)
