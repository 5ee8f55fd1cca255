"""What waits to be written. The loop puts whole lists of items; the writer's thread takes bytes.

Past STALLED bytes no step starts; past FULL no line is applied either, so that a reader which stalls pauses the
daemon and its memory stays bounded. `wake` is called when the size falls to one of these limits again, and when a
closed outbox is empty.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from ..protocol import Item

STALLED = 1 << 20
FULL = 16 << 20


class Outbox:
    def __init__(self, encode: Callable[[Iterable[Item]], bytes], wake: Callable[[], None]) -> None:
        self._encode = encode
        self._wake = wake
        self._changed = threading.Condition()
        self._pieces: list[bytes] = []
        self._closed = False
        self.size = 0  # bytes put and not yet written

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
        with self._changed:
            self._pieces.append(data)
            self.size += len(data)
            self._changed.notify()

    def close(self) -> None:
        """Nothing more will be put."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def take(self) -> bytes:
        """All that waits; sleeps until there is something. Empty when closed and all was taken."""
        with self._changed:
            self._changed.wait_for(lambda: self._pieces or self._closed)
            data = b"".join(self._pieces)
            self._pieces.clear()
            return data

    def written(self, count: int) -> None:
        with self._changed:
            before = self.size
            self.size -= count
            fell = any(before > limit >= self.size for limit in (STALLED, FULL))
            empty = self._closed and not self.size
        if fell or empty:
            self._wake()
