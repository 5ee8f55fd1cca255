"""How many files this process may have open: each connection is one, and so is each that is refused.

Where a descriptor is missing, asyncio writes a page about each connection that waits, and does nothing else."""

from collections.abc import Callable
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from typing import Final

OWN: Final = 32  # the standard streams, the listeners, the pipes of a daemon, and of one that follows it
BEYOND: Final = 32  # connections that are told that there are too many
AT_ONCE: Final = 16  # connections that are accepted in one turn of the event loop
# One that gives way is closed two turns after the one that takes its place was accepted, at each of two listeners:
# localhost may be two addresses.
SPARE: Final = OWN + BEYOND + 3 * 2 * AT_ONCE


def room_for(connections: int, log: Callable[[str], None]) -> int:
    """How many can be served, at most so many. Raises the soft limit as far as they need it and the hard one allows."""
    soft, hard = getrlimit(RLIMIT_NOFILE)
    if soft < (needed := min(connections + SPARE, hard)):
        setrlimit(RLIMIT_NOFILE, (needed, hard))
    served = max(1, min(connections, hard - SPARE))
    if served < connections:
        log(f"--max-connections: {connections}, but {hard} open files (ulimit -Hn) are enough for {served} only")
    return served
