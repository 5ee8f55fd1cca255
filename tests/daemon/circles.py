"""Objects that know each other in a circle are freed by Python's collector alone, which the daemon lets look at what is
new and at nothing else (daemon/heap.py)."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_circles() -> Iterator[None]:
    """Of what is made meanwhile, whatever has ended has been freed too: the collector finds nothing."""
    gc.collect(1)
    gc.disable()
    try:
        yield
        found = gc.collect(0)
    finally:
        gc.enable()
    assert found == 0
