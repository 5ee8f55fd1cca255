"""Injected faults: what `--fault SPEC` can say. For tests, and for people who write clients.

Steps are counted from 1. Each call of the engine's step counts, so a probe and the retry of a row do too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

FORMS = """row:SLOT@N  throws whenever slot SLOT is in a step, from step N on
once@N      throws in step N, not when it is tried again
always      throws in every step
lost@N      the device is lost in step N
slow:MS     every step takes MS milliseconds more
crash@N     an unexpected exception in the daemon itself, before step N
            (N counts what the engine computes: steps, probes, rows tried again)"""

_FORM = re.compile(
    r"(?:row:(?P<row>\d+)@|(?P<at>once|lost|crash)@)(?P<step>\d+)|(?P<always>always)|slow:(?P<slow>\d+(?:\.\d+)?)"
)


@dataclass(frozen=True, slots=True)
class Faults:
    rows: tuple[tuple[int, int], ...] = ()  # (slot, first step)
    once: int | None = None
    always: bool = False
    lost: int | None = None
    slow: float = 0.0  # seconds
    crash: int | None = None


def read_faults(text: str) -> Faults:
    """Raises ValueError, naming the word that is wrong."""
    faults = Faults()
    for word in text.split(","):
        match = _FORM.fullmatch(word)
        if match is None:
            raise ValueError(f"{word!r} is no fault; expected row:SLOT@N, once@N, always, lost@N, slow:MS or crash@N")
        if match["row"]:
            faults = replace(faults, rows=(*faults.rows, (int(match["row"]), int(match["step"]))))
        elif match["always"]:
            faults = replace(faults, always=True)
        elif match["slow"]:
            faults = replace(faults, slow=float(match["slow"]) / 1e3)
        elif match["at"] == "once":
            faults = replace(faults, once=int(match["step"]))
        elif match["at"] == "lost":
            faults = replace(faults, lost=int(match["step"]))
        else:
            faults = replace(faults, crash=int(match["step"]))
    return faults
