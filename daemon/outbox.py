"""Output that waits to be written. The loop puts whole lists of items; the writer's thread takes bytes.

Past STALLED bytes no step starts; past FULL no line is applied either, so that a reader which stalls pauses the
daemon and its memory stays bounded. `wake` is called when the size falls to one of these limits again, and when a
closed outbox is empty.

One thread puts and closes, one takes and writes. Each counts its own bytes, so no lock is shared. `write_now` is tried
first when nothing waits: it writes what can be written without blocking, and saves waking the writer thread, which
would only have to wait for the GIL (40 µs a step).
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable

from ..protocol import Item

STALLED = 1 << 20
FULL = 16 << 20


class Outbox:
    def __init__(
        self,
        encode: Callable[[Iterable[Item]], bytes],
        wake: Callable[[], None],
        write_now: Callable[[bytes], int] = lambda data: 0,
    ) -> None:
        self._encode = encode
        self._wake = wake
        self._write_now = write_now
        self._pieces: queue.SimpleQueue[bytes] = queue.SimpleQueue()  # an empty piece closes it
        self._put = 0
        self._written = 0
        self._closed = False
        self._ended = False  # the writer has met the empty piece

    @property
    def size(self) -> int:
        """Bytes put and not yet written."""
        return self._put - self._written

    @property
    def stalled(self) -> bool:
        return self.size > STALLED

    @property
    def full(self) -> bool:
        return self.size > FULL

    def put(self, items: list[Item]) -> None:
        if not items:
            return
        data = self._encode(items)
        if not data:  # a bare stream does not show everything
            return
        if self._put == self._written:
            data = data[self._write_now(data) :]
            if not data:
                return
        self._put += len(data)
        self._pieces.put(data)

    def close(self) -> None:
        """Nothing more will be put."""
        self._closed = True
        self._pieces.put(b"")

    def take(self) -> bytes:
        """All that waits; sleeps until there is something. Empty when closed and all was taken."""
        if self._ended:
            return b""
        pieces = [self._pieces.get()]
        while pieces[-1] and not self._pieces.empty():
            pieces.append(self._pieces.get())
        self._ended = not pieces[-1]
        return b"".join(pieces)

    def written(self, count: int) -> None:
        self._written += count
        # Read after the addition: a put that came before it is counted here, one that comes later sees the smaller
        # size.
        after = self.size
        fell = any(after <= limit < after + count for limit in (STALLED, FULL))
        if fell or (self._closed and not after):
            self._wake()
