"""How one word of a line is read: each function takes what the word is called, for the error, and the word itself."""

from __future__ import annotations

import re
from math import isfinite
from typing import Final, NoReturn

from .errors import Refusal

LARGEST: Final = 2**31 - 1
LARGEST_REQUEST: Final = 2**30 - 1
LARGEST_LONG: Final = 2**63 - 1  # a seed; what is counted while a daemon lives

_SHOWN: Final = 40  # characters of a wrong word that an error quotes
_LONGEST_REAL: Final = 40
_REAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NAME: Final = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]{0,63}")
_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def split(line: str) -> list[str]:
    return [word for word in line.replace("\t", " ").split(" ") if word]


def wrong(error: str) -> NoReturn:
    raise Refusal("bad_argument", error)


def quoted(word: str) -> str:
    return repr(word) if len(word) <= _SHOWN else repr(word[:_SHOWN]) + "…"


def keyword(word: str) -> str:
    """A keyword in upper case. Only ASCII letters have a case here, so that no look-alike becomes one."""
    return word.upper() if word.isascii() else word


def integer(label: str, word: str, low: int, high: int = LARGEST) -> int:
    """ASCII digits only: no sign, no underscore, no other alphabet; at most 20 of them."""
    if word.isdigit() and word.isascii() and len(word) <= 20:
        number = int(word)
        if low <= number <= high:
            return number
    wrong(f"{label} {quoted(word)} is no whole number from {low} to {high}")


def real(label: str, word: str, low: float = float("-inf"), high: float = float("inf")) -> float:
    if len(word) > _LONGEST_REAL:
        wrong(f"{label} {quoted(word)} has {len(word)} characters; a number has at most {_LONGEST_REAL}")
    if _REAL.fullmatch(word):
        number = float(word)
        if isfinite(number) and low <= number <= high:
            return number
    wrong(f"{label} {quoted(word)} is no number{_bounds(low, high)}")


def positive(label: str, word: str, high: float = float("inf")) -> float:
    number = real(label, word, 0.0, high)
    return number if number else wrong(f"{label} {quoted(word)} is not above 0")


def switch(label: str, word: str) -> bool:
    if word not in ("0", "1"):
        wrong(f"{label} {quoted(word)} is neither 0 nor 1")
    return word == "1"


def name(label: str, word: str) -> str:
    if not _NAME.fullmatch(word):
        wrong(f"{label} {quoted(word)} is no name: 1 to 64 of A-Z a-z 0-9 _ . - and no - in front")
    return word


def text(label: str, word: str) -> str:
    """A path or an echo: whatever a line can carry and a line reader gives back unchanged."""
    if _UNPRINTABLE.search(word):
        wrong(f"{label} {quoted(word)} holds a control character")
    return word


def _bounds(low: float, high: float) -> str:
    if isfinite(high):
        return f" from {low:g} to {high:g}"
    return f" from {low:g} up" if isfinite(low) else ""
