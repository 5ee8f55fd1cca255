"""The limit on open files: each connection needs a descriptor, even one that is refused.

When it runs out of descriptors, asyncio logs a page for each waiting connection, and does nothing else."""

from collections.abc import Callable
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from typing import Final

OWN: Final = 32  # the standard streams, the listeners, the pipes of a daemon, and of its successor
BEYOND: Final = 32  # connections more than may have a request: those that idle, or are told that there are too many
AT_ONCE: Final = 16  # connections that are accepted in one turn of the event loop
# A connection that is replaced is closed two turns of the event loop after its replacement was accepted, so 3 batches;
# at each of 2 listeners, as localhost may be two addresses.
SPARE: Final = OWN + BEYOND + 3 * 2 * AT_ONCE


def room_for(connections: int, log: Callable[[str], None]) -> int:
    """How many of these connections can be served. Raises the soft limit as far as needed and the hard one allows."""
    soft, hard = getrlimit(RLIMIT_NOFILE)
    if soft < (needed := min(connections + SPARE, hard)):
        setrlimit(RLIMIT_NOFILE, (needed, hard))
    served = max(1, min(connections, hard - SPARE))
    if served < connections:
        log(f"--max-connections: {connections}, but {hard} open files (ulimit -Hn) are enough for {served} only")
    return served
