"""What the C library keeps of freed memory goes back to the system, when there is nothing else to do."""

from __future__ import annotations

import ctypes
from collections.abc import Callable


def find_trim() -> Callable[[], object]:
    """A function that does it; one that does nothing where the C library has none (it is glibc's)."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return lambda: None
    return lambda: trim(0)
