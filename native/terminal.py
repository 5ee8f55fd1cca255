"""Whether somebody watches."""

import sys


def on_terminal() -> bool:
    """Whether stderr is one. Python has no stderr at all where the descriptor is closed."""
    return sys.stderr is not None and sys.stderr.isatty()
