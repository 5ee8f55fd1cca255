"""The report on stderr after an unexpected error: enough to reproduce it."""

from __future__ import annotations

import re
import traceback
from collections import deque
from collections.abc import Iterator

from ..protocol import BadLine
from .inbox import AnyLine
from .replies import show_slot
from .sentences import SHOWN, shorten
from .session import Session

KEPT = 64
_IDS = re.compile(r"ids:[0-9,]*", re.IGNORECASE)
_PREDICTED = re.compile(r"(?<=predict=)[0-9,]*", re.IGNORECASE)
_GRAMMAR = re.compile(r"(?<=grammar=)\S+", re.IGNORECASE)


class CommandLog:
    """The last commands, without their prompts, predictions and grammars."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=KEPT)

    def note(self, line: AnyLine) -> None:
        if isinstance(line, BadLine):
            self._lines.append(f"{line.number}: ({line.code})")
            return
        try:
            text = _GRAMMAR.sub(_measure, _PREDICTED.sub(_measure, _IDS.sub(_count, line.text)))
        except MemoryError:
            text = f"({len(line.text)} characters)"
        if len(text) > SHOWN:
            text = f"{shorten(text)} ({len(text)} characters)"
        self._lines.append(f"{line.number}: {text.encode('unicode_escape').decode()}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)


def report(error: BaseException, commands: CommandLog, session: Session) -> str:
    """The trace, the last commands, the slots."""
    trace = "".join(traceback.format_exception(error)).rstrip()
    lines = [
        "paceline: an unexpected error; every live request fails. Please report what follows.",
        trace,
        f"last commands (at most {KEPT}):",
        *(f"  {command}" for command in commands),
        "slots:",
        *(f"  {_slot(number, session)}" for number in range(session.limits.slots)),
    ]
    return "\n".join(lines)


def _slot(number: int, session: Session) -> str:
    """Never raises: after an unexpected error the bookkeeping may be wrong."""
    try:
        slot = show_slot(number, session.lifecycle.admission.slots, session.live, session.info.page_bytes)
        return " ".join(f"{name}={value}" for name, value in slot.items())
    except Exception as error:
        return f"slot={number} cannot be shown: {type(error).__name__}: {error}"


def _measure(match: re.Match[str]) -> str:
    return f"<{len(match[0])} characters>"


def _count(match: re.Match[str]) -> str:
    ids = match[0][len("ids:") :]
    return f"ids:<{ids.count(',') + 1 if ids else 0} tokens>"
