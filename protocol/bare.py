"""The original's untagged stream (`--stream bare`), for parent processes that know only that: int32 values, and its
generate line.

The original finishes each line before it reads the next. So its parents write a line and read values until -4 (the
grant is spent) or -1, which stands for the end of the request, for a refusal and for a line that is merely
acknowledged. Here lines are applied at once, but the stream looks as if they were not: each line that the original
answers on its stream is owed one such value, and those owed to later lines are held back until the current grant is
spent; after a drain, and in auto mode, until the request has ended.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Final

from .commands import Auto, Command
from .errors import Refusal
from .frames import DONE, TERMINALS, YIELD, Frame, Item
from .grammar import find_usage
from .parser import parse
from .prefixes import read_prefixes
from .readers import Line
from .words import quoted, split, wrong

GENERATE: Final = "<path> <n> [<option>=<value>…]"
GENERATE_REQUEST: Final = 1
"""The request of a generate line without a REQ tag."""

_DRAIN: Final = 0
"""What a drain is owed when a grant is spent: nothing yet, there will be another."""

_GRANTS: Final = frozenset({"START", "CONTINUE", "RESTORE", "RESTORE_CHAIN"})
_DRAINS: Final = frozenset({"SCHED_DRAIN", "SCHED_BATCH_DRAIN"})
_SILENT: Final = frozenset(
    {
        *("SNAPSHOT", "SNAPSHOT_THIN", "FREE_SNAPSHOT", "LIST_SLOTS"),  # the original's, answered on its log only
        *("SAVE", "LOAD", "SCHED_AUTO", "WAIT", "STATS", "TRACE", "HELP", "PING", "QUIT"),  # which the original lacks
    }
)


class BareStream:
    """Reads the lines of one daemon and writes its stream; `auto` says whether the daemon starts in auto mode."""

    def __init__(self, auto: bool = False) -> None:
        self._auto = auto
        self._verbs: dict[int, str] = {}  # line not yet answered -> its command, empty if unknown
        self._owed: list[int] = []  # for each line that waits, what it is owed when its turn comes: YIELD, DONE, _DRAIN
        self._stepping = 0  # line of a target step in mid-grant, whose value is owed already

    def read(self, line: Line) -> Command:
        """One line; a word that is no command begins a generate line. Raises Refusal."""
        words = split(line.text)
        prefixes = read_prefixes(words)
        rest = words[prefixes.length :]
        usage = find_usage(rest[0]) if rest else None
        self._verbs[line.number] = usage.name if usage else ""
        if usage is not None and _is_target(usage.name) and self._owed:  # its own step may spend the grant
            self._stepping = line.number
            self._owed.append(YIELD)
        if usage is not None or prefixes.mistake or len(rest) < 2:
            command = parse(line.text)
            if isinstance(command, Auto):  # it is never refused
                self._auto = command.on
            return command
        command = _generate(words[: prefixes.length], rest, prefixes.req_id)
        self._verbs[line.number] = "START"
        return command

    def encode(self, items: Iterable[Item]) -> bytes:
        """Little-endian int32: tokens, -4 and -1."""
        values: list[int] = []
        for item in items:
            if isinstance(item, Frame):
                values += self._show(item.value)
            elif "re" in item.body:
                values += self._answer(item.body["re"], item.body)
        return struct.pack(f"<{len(values)}i", *values)

    def _show(self, value: int) -> list[int]:
        if value in TERMINALS:
            owed, self._owed = self._owed, []
            return [DONE] * max(1, len(owed))
        if value != YIELD:
            if not self._owed:  # a grant that no line has asked for is being used up
                self._owed.append(YIELD)
            return [value]
        spent = list[int]()
        while self._owed and self._owed[0] != _DRAIN and not self._auto:
            spent.append(self._owed.pop(0))
        return spent or [YIELD]

    def _answer(self, line: int, body: dict[str, Any]) -> list[int]:
        """What a reply adds to the stream now; what it adds later is owed."""
        verb = self._verbs.pop(line, "")
        stepped = bool(body["ok"] and body.get("rows") and _is_target(verb))
        if verb in _SILENT:
            return []
        if line == self._stepping:
            self._stepping = 0
            if self._owed and not stepped:
                self._owed[-1] = DONE
        elif body["ok"] and _goes_on(verb, body):
            self._owed.append(_DRAIN if verb in _DRAINS else YIELD)
        elif self._owed or (body["ok"] and verb == "CANCEL"):  # the terminal of what is cancelled comes next
            self._owed.append(DONE)
        elif not stepped:  # a target step is answered by its frames alone
            return [DONE]
        return []


def _is_target(verb: str) -> bool:
    return verb.startswith("SCHED_BATCH_TARGET")


def _goes_on(verb: str, body: dict[str, Any]) -> bool:
    """Whether a grant was given: its end is the answer."""
    if verb == "SCHED_STEP":
        return body["req"] is not None
    if verb in _DRAINS:
        return bool(body["live"])
    return verb in _GRANTS


def _generate(prefixes: list[str], rest: list[str], req_id: int | None) -> Command:
    """START for all of n in one grant, with the same options."""
    tag = [] if req_id is not None else ["REQ", str(GENERATE_REQUEST)]
    try:
        if len(rest) > 2 and "=" not in rest[2]:
            wrong(f"{quoted(rest[2])} is a word too many")
        return parse(" ".join([*tag, *prefixes, "START", *rest]))
    except Refusal as refusal:
        error = refusal.error.partition("; expected: ")[0]
        error = f"{error}; expected: {GENERATE}, as {quoted(rest[0])} is no command"
        raise Refusal(refusal.code, error, req_id or 0) from None
