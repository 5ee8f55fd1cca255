"""A GPU's memory through CuPy: one arena, one stream, pinned buffers to copy through, a graph for each key.

A steady step is one upload, one graph's launch, one download and one wait; nothing is allocated. `cupy` is the module,
or what a test puts in its place. PACELINE_CUDA_PIECES=1 allocates every part of the arena by itself: to a memory
checker the arena would be one allocation, in which every access is valid.
"""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from .arena import ALIGNMENT, Arena
from .device_memory import Bytes
from .lost import DeviceLost

PIECE = 16 << 20  # bytes that an upload copies at a time
PIECES = "PACELINE_CUDA_PIECES"
MOST_GRAPHS = 128
OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation
LAUNCHED = object()  # in place of a graph that could not be made or launched


class CupyMemory:
    def __init__(self, cupy: Any, number: int, bytes: int) -> None:
        """Takes `bytes` of device `number`, and later only what graphs need. MemoryError where they are not free."""
        self._cupy = cupy
        self._runtime = cupy.cuda.runtime
        cupy.cuda.Device(number).use()
        name = self._runtime.getDeviceProperties(number)["name"]
        self.name: str = name.decode() if hasattr(name, "decode") else str(name)
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._graphs: OrderedDict[Hashable, Any] = OrderedDict()  # None: launched once, not captured yet; or LAUNCHED
        self.without_graph: str | None = None  # why a key is launched every time, if one is
        self._given, self._taken = Pinned(cupy), Pinned(cupy)  # used by begin; by the rest
        self._copied = cupy.cuda.Event(disable_timing=True)  # the upload of the last begin() is complete
        self._brought = cupy.cuda.Event(disable_timing=True)  # the downloads of the last bring() are
        with self._errors(f"{bytes} bytes of the device: "):
            self._pieces: dict[int, tuple[Any, int]] | None = {} if os.environ.get(PIECES) else None  # and its offset
            self._whole = cupy.cuda.Memory(ALIGNMENT + (bytes if self._pieces is None else 0))
        self._base: int = -(-self._whole.ptr // ALIGNMENT) * ALIGNMENT
        self._arena = Arena(bytes)

    @property
    def free(self) -> int:
        return self._arena.largest

    @property
    def stream(self) -> int:
        number: int = self._stream.ptr
        return number

    def allocate(self, bytes: int) -> int:
        offset = self._arena.take(bytes)
        if self._pieces is None:
            return self._base + offset
        try:
            with self._errors():
                piece = self._cupy.cuda.Memory(max(1, -(-int(bytes) // ALIGNMENT)) * ALIGNMENT)
        except BaseException:
            self._arena.give_back(offset)
            raise
        self._pieces[piece.ptr] = piece, offset
        return int(piece.ptr)

    def release(self, place: int) -> None:
        # Called by the core's destructor, which cannot report errors, perhaps so late that contextlib does not work.
        try:  # noqa: SIM105
            self._stream.synchronize()
        except Exception:
            pass
        self._arena.give_back(place - self._base if self._pieces is None else self._pieces.pop(place)[1])

    def upload(self, place: int, data: Any) -> None:
        flat = np.frombuffer(data, np.uint8)
        with self._errors():
            for begin in range(0, flat.size, PIECE):
                piece = flat[begin : begin + PIECE]
                self._send(place + begin, piece, self._taken)
                self._stream.synchronize()

    def download(self, place: int, bytes: int) -> Bytes:
        return self.fetch([(place, bytes)])[0]

    def bring(self, pieces: Sequence[tuple[int, int]]) -> Callable[[], list[Bytes]]:
        with self._errors():
            buffer = self._taken.of(sum(bytes for _, bytes in pieces))
            at = 0
            for place, bytes in pieces:
                if bytes:
                    kind = self._runtime.memcpyDeviceToHost
                    self._runtime.memcpyAsync(self._taken.place + at, place, bytes, kind, self._stream.ptr)
                at += bytes
            self._brought.record(self._stream)

        def wait() -> list[Bytes]:
            with self._errors():
                self._brought.synchronize()  # also for no bytes: a step's errors must be reported in that step
            ends = np.cumsum([bytes for _, bytes in pieces])
            return [buffer[end - bytes : end].copy() for end, (_, bytes) in zip(ends, pieces, strict=True)]

        return wait

    def fetch(self, pieces: Sequence[tuple[int, int]]) -> list[Bytes]:
        return self.bring(pieces)()

    def copy(self, source: int, target: int, bytes: int) -> None:
        with self._errors():
            kind = self._runtime.memcpyDeviceToDevice
            self._runtime.memcpyAsync(target, source, bytes, kind, self._stream.ptr)

    def clear(self, place: int, bytes: int) -> None:
        with self._errors():
            self._runtime.memsetAsync(place, 0, bytes, self._stream.ptr)

    def begin(self, place: int, data: Any) -> None:
        with self._errors():
            self._copied.synchronize()
            self._send(place, np.frombuffer(data, np.uint8), self._given)
            self._copied.record(self._stream)

    def run(self, key: Hashable, enqueue: Callable[[int], None]) -> None:
        """A key is launched at its first call, captured at its second, replayed from then on: sizes that occur once are
        not worth a graph, and the first launch loads the kernels, which a capture must not do. Where no graph can be
        made or launched, for example for lack of memory, the key is launched every time: slower, with the same
        results."""
        with self._errors():
            if key not in self._graphs:
                enqueue(self._stream.ptr)
                self._remember(key, None)
                return
            graph = self._graphs[key]
            if graph is not LAUNCHED:
                graph = self._launched(graph, enqueue)
            self._remember(key, graph)
            if graph is LAUNCHED:
                enqueue(self._stream.ptr)

    def _launched(self, graph: Any, enqueue: Callable[[int], None]) -> Any:
        """The graph, made if it is None; or LAUNCHED if it could not be launched, and then nothing was."""
        try:
            if graph is None:
                graph = self._capture(enqueue)
                graph.upload(self._stream)  # or its first launch could run out of memory
            graph.launch(self._stream)
            return graph
        except Exception as error:
            self._stream.synchronize()  # a lost device repeats its error
            if self.without_graph is None:
                print(f"paceline: no CUDA graph, so steps of that size are slower: {error}", file=sys.stderr)
            self.without_graph = str(error)
            return LAUNCHED

    def forget(self) -> None:
        if self._graphs:
            with self._errors():
                self._stream.synchronize()
            self._graphs.clear()

    def _remember(self, key: Hashable, graph: Any) -> None:
        self._graphs[key] = graph
        self._graphs.move_to_end(key)
        if len(self._graphs) > MOST_GRAPHS:
            self._stream.synchronize()
            self._graphs.popitem(last=False)

    def _capture(self, enqueue: Callable[[int], None]) -> Any:
        self._stream.begin_capture()
        try:
            enqueue(self._stream.ptr)
        except BaseException:
            with suppress(Exception):
                self._stream.end_capture()
            raise
        return self._stream.end_capture()

    def _send(self, place: int, data: Bytes, pinned: Pinned) -> None:
        if data.size:
            pinned.of(data.size)[:] = data
            kind = self._runtime.memcpyHostToDevice
            self._runtime.memcpyAsync(place, pinned.place, data.size, kind, self._stream.ptr)

    @contextmanager
    def _errors(self, what: str = "") -> Iterator[None]:
        """An error that the stream reports again means a lost device; any other concerns the call alone."""
        try:
            yield
        except (MemoryError, DeviceLost):
            raise
        except Exception as error:
            if getattr(error, "status", None) == OUT_OF_MEMORY:
                raise MemoryError(f"{what}{error}") from error
            try:
                self._stream.synchronize()
            except Exception:
                raise DeviceLost(str(error)) from error
            raise


class Pinned:
    """Host memory that the device copies from and to, grown to the next power of two."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._whole: Any = None
        self._view: Bytes = np.empty(0, np.uint8)
        self.place = 0

    def of(self, bytes: int) -> Bytes:
        """A view of its first `bytes` bytes, which lie at `place`."""
        if bytes > self._view.size:
            size = 1 << (bytes - 1).bit_length()
            self._whole = self._cupy.cuda.alloc_pinned_memory(size)
            self._view = np.frombuffer(self._whole, np.uint8, size)
            self.place = int(self._whole.ptr)
        return self._view[:bytes]
