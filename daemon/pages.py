"""The pool of cache pages, with a reference count for each: a page is free when nobody refers to it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable


class OutOfPages(Exception):
    """`missing` pages more would have been enough."""

    def __init__(self, missing: int) -> None:
        super().__init__(f"{missing} pages too few")
        self.missing = missing


class PagePool:
    def __init__(self, count: int) -> None:
        self.counts = array("i", bytes(4 * count))
        self._free = list(range(count - 1, -1, -1))

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def used(self) -> int:
        return len(self.counts) - len(self._free)

    def allocate(self, count: int) -> array[int]:
        """A table of `count` pages, each referred to once; all of them or none."""
        if count > len(self._free):
            raise OutOfPages(count - len(self._free))
        table = array("i", (self._free.pop() for _ in range(count)))
        for page in table:
            self.counts[page] = 1
        return table

    def retain(self, pages: Iterable[int]) -> None:
        """One reference more to each page."""
        for page in pages:
            self._check(page)
            self.counts[page] += 1

    def release(self, pages: Iterable[int]) -> None:
        """One reference less to each page; the last one frees it."""
        for page in pages:
            self._check(page)
            self.counts[page] -= 1
            if not self.counts[page]:
                self._free.append(page)

    def _check(self, page: int) -> None:
        if not 0 <= page < len(self.counts):
            raise ValueError(f"page {page}: the pool has pages 0 to {len(self.counts) - 1}")
        if not self.counts[page]:
            raise ValueError(f"page {page} is free: nobody holds a reference to it")
