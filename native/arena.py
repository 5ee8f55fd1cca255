"""One piece of memory, given out in parts: offsets and sizes, nothing of what they are offsets into."""

from __future__ import annotations

ALIGNMENT = 256


class Arena:
    """Gives out parts of `bytes` bytes, first fit; adjacent gaps are merged."""

    def __init__(self, bytes: int) -> None:
        self.bytes = bytes = bytes // ALIGNMENT * ALIGNMENT
        self._gaps = [(0, bytes)] if bytes else []  # offset, bytes; ascending
        self._parts: dict[int, int] = {}

    @property
    def free(self) -> int:
        return sum(bytes for _, bytes in self._gaps)

    @property
    def largest(self) -> int:
        """Bytes of the largest part that could be taken."""
        return max((bytes for _, bytes in self._gaps), default=0)

    def take(self, bytes: int) -> int:
        """An offset that is a multiple of 256, and a Python integer for any `bytes`: CuPy takes no other address."""
        size = max(1, -(-int(bytes) // ALIGNMENT)) * ALIGNMENT
        for index, (offset, room) in enumerate(self._gaps):
            if room >= size:
                self._gaps[index : index + 1] = [(offset + size, room - size)] if room > size else []
                self._parts[offset] = size
                return offset
        raise MemoryError(f"{bytes} bytes are wanted, and {self.free} of the {self.bytes} are left")

    def give_back(self, offset: int) -> None:
        size = self._parts.pop(offset)
        joined: list[tuple[int, int]] = []
        for begin, room in sorted([*self._gaps, (offset, size)]):
            if joined and sum(joined[-1]) == begin:
                joined[-1] = (joined[-1][0], joined[-1][1] + room)
            else:
                joined.append((begin, room))
        self._gaps = joined
