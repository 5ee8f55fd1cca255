"""The pool of cache pages. A page is *used* while somebody refers to it, *idle* when nobody does but the prefix tree
still knows what it holds, and *free* otherwise.

An idle page may be used again as it is, or be evicted: the one that has been idle longest goes first. A whole table is
released from its tail, so that the beginning of a text, which more texts share, is evicted last.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence


class OutOfPages(Exception):
    """`missing` pages more would have been enough."""

    def __init__(self, missing: int) -> None:
        super().__init__(f"{missing} pages too few")
        self.missing = missing


class PagePool:
    def __init__(self, count: int) -> None:
        self.counts = array("i", bytes(4 * count))
        # In the order of becoming idle. To find its first key, a plain dict would have to skip all those deleted before
        # it.
        self.idle: OrderedDict[int, None] = OrderedDict()
        self._known = bytearray(count)
        self._free = list(range(count - 1, -1, -1))

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def available(self) -> int:
        """Pages that `allocate` could give."""
        return len(self._free) + len(self.idle)

    @property
    def used(self) -> int:
        return len(self.counts) - self.available

    def allocate(self, count: int, evict: Callable[[int], None]) -> array[int]:
        """A table of `count` pages, each referred to once; all of them or none. `evict` is called with an idle page
        that is to be forgotten, and may forget others with it."""
        if count > self.available:
            raise OutOfPages(count - self.available)
        while count > len(self._free):
            evict(next(iter(self.idle)))
        table = array("i", (self._free.pop() for _ in range(count)))
        for page in table:
            self.counts[page] = 1
        return table

    def retain(self, pages: Iterable[int]) -> None:
        """Adds a reference to each page; an idle one is used again."""
        for page in pages:
            self._check(page)
            if not self.counts[page]:
                del self.idle[page]
            self.counts[page] += 1

    def release(self, pages: Sequence[int]) -> None:
        """Drops a reference to each page, from the tail; a page that has none left is idle, or free."""
        for page in reversed(pages):
            self._check(page)
            if not self.counts[page]:
                raise ValueError(f"page {page} is idle: nobody holds a reference to it")
            self.counts[page] -= 1
            if not self.counts[page]:
                if self._known[page]:
                    self.idle[page] = None
                else:
                    self._free.append(page)

    def know(self, page: int) -> None:
        """Its content can be found again: it will be idle, not free, when nobody refers to it."""
        self._check(page)
        self._known[page] = True

    def forget(self, page: int) -> None:
        """Its content can't be found any more."""
        self._check(page)
        self._known[page] = False
        if not self.counts[page]:
            del self.idle[page]
            self._free.append(page)

    def _check(self, page: int) -> None:
        if not 0 <= page < len(self.counts):
            raise ValueError(f"page {page}: the pool has pages 0 to {len(self.counts) - 1}")
        if not self.counts[page] and not self._known[page]:
            raise ValueError(f"page {page} is free: nobody holds a reference to it")
