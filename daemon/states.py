"""The kept recurrent states: a fixed number of places, each with a count of who refers to it."""

from __future__ import annotations

from array import array


class StatePool:
    def __init__(self, count: int) -> None:
        self.counts = array("i", bytes(4 * count))
        self._free = list(range(count - 1, -1, -1))

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def free(self) -> int:
        return len(self._free)

    def allocate(self) -> int | None:
        """A free place, referred to once; None if there is none."""
        if not self._free:
            return None
        state = self._free.pop()
        self.counts[state] = 1
        return state

    def retain(self, state: int) -> None:
        if not self.counts[state]:
            raise ValueError(f"state {state} is free: nobody holds a reference to it")
        self.counts[state] += 1

    def release(self, state: int) -> None:
        if not self.counts[state]:
            raise ValueError(f"state {state} is free: nobody holds a reference to it")
        self.counts[state] -= 1
        if not self.counts[state]:
            self._free.append(state)
