"""The prefixes of a line: REQ (or REQUEST) and SLOT, as two words or one, in any order, each at most once."""

from __future__ import annotations

from typing import Final, NamedTuple

from .errors import Refusal
from .grammar import PREFIXES
from .words import LARGEST, LARGEST_REQUEST, integer, keyword, wrong

_KINDS: Final = {"REQ": "REQ", "REQUEST": "REQ", "SLOT": "SLOT"}
_RANGES: Final = {"REQ": (1, LARGEST_REQUEST), "SLOT": (0, LARGEST)}


class Prefixes(NamedTuple):
    """What stands before a command. A mistake is kept, not raised, so that a REQ after it is read all the same."""

    req_id: int | None
    slot: int | None
    length: int  # in words
    mistake: str | None


def read_prefixes(words: list[str]) -> Prefixes:
    found: dict[str, int] = {}
    mistake: str | None = None
    length = 0
    while length < len(words):
        written, equals, value = words[length].partition("=")
        kind = _KINDS.get(keyword(written))
        if kind is None:
            break
        length += 1
        if not equals:
            value = words[length] if length < len(words) else ""
            length += keyword(value.partition("=")[0]) not in _KINDS and bool(value)
        try:
            if kind in found:
                wrong(f"{kind} is given twice")
            found[kind] = integer(kind, value, *_RANGES[kind])
        except Refusal as refusal:
            mistake = mistake or f"{refusal.error}; expected: {PREFIXES[kind]}"
    return Prefixes(found.get("REQ"), found.get("SLOT"), length, mistake)
