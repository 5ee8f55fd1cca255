"""Every value that an object holds, deeply, as plain data: two dumps are equal if nothing has changed."""

from __future__ import annotations

from array import array
from collections import deque
from enum import Enum
from typing import Any

from paceline.daemon.constraints import NoGrammars

PLAIN = frozenset({int, float, str, bytes, bool, type(None)})


def dump(value: Any, left_out: frozenset[str] = frozenset(), seen: dict[int, tuple[int, object]] | None = None) -> Any:
    if type(value) in PLAIN:
        return value
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, int | float | str | bytes | Enum) or callable(value):
        return value
    if isinstance(value, NoGrammars):  # nothing in it can change
        return None
    if hasattr(value, "hexdigest"):
        return value.hexdigest()
    seen = {} if seen is None else seen
    if isinstance(value, dict):
        return [(dump(key, seen=seen), dump(item, left_out, seen)) for key, item in value.items()]  # their order counts
    if isinstance(value, list | tuple | deque | array | set | frozenset):
        if PLAIN.issuperset(map(type, value)):  # ten thousand tokens at once: nine tenths of the time went there
            return list(value)
        return [dump(item, left_out, seen) for item in value]
    if id(value) in seen:  # a session reaches its pages from fifteen places
        return "the object of number", seen[id(value)][0]
    seen[id(value)] = len(seen), value
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    names += vars(value) if hasattr(value, "__dict__") else []
    assert names, f"{value!r} cannot be dumped"
    return [(name, dump(getattr(value, name), left_out, seen)) for name in names if name not in left_out]


LEFT_OUT = frozenset({"lines", "refusals", "fairness", "parent", "node", "endings"})  # endings has nothing of its own


def state_of(session: object) -> Any:
    """A session but for its counts of lines and refusals."""
    return dump(session, LEFT_OUT)
