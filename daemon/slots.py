"""Slots and their leases. A slot's epoch rises when a request gets it and again when that request ends.

So an odd epoch means an owned slot, an even one a free slot, and a lease (slot, epoch) identifies one request's stay
for ever: a result whose lease is no longer current belongs to nobody.
"""

from __future__ import annotations


class Slots:
    def __init__(self, count: int) -> None:
        self.epochs = [0] * count
        self.owners: list[int | None] = [None] * count

    def __len__(self) -> int:
        return len(self.owners)

    @property
    def used(self) -> int:
        return len(self.owners) - self.owners.count(None)

    def free(self) -> int | None:
        """The lowest free slot."""
        return self.owners.index(None) if None in self.owners else None

    def lease(self, slot: int, req_id: int) -> int:
        """Gives a free slot to a request; returns the epoch."""
        if self.owners[slot] is not None:
            raise ValueError(f"slot {slot} belongs to request {self.owners[slot]}")
        self.owners[slot] = req_id
        self.epochs[slot] += 1
        return self.epochs[slot]

    def pass_on(self, slot: int, req_id: int) -> None:
        """Another request goes on with an owned slot, under the same lease."""
        if self.owners[slot] is None:
            raise ValueError(f"slot {slot} is free")
        self.owners[slot] = req_id

    def release(self, slot: int, epoch: int) -> None:
        if self.owners[slot] is None or self.epochs[slot] != epoch:
            raise ValueError(
                f"slot {slot} is at epoch {self.epochs[slot]}, owner {self.owners[slot]}, not leased at epoch {epoch}"
            )
        self.owners[slot] = None
        self.epochs[slot] += 1
