"""Reads the values of the daemon's flags; ArgumentTypeError names the value and what was expected."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable

from .faults import Faults, read_faults

MOST = 2**31 - 1
MOST_BYTES = 2**63 - 1


def at_least(least: int, most: int = MOST) -> Callable[[str], int]:
    def read(word: str) -> int:
        number = int(word) if word.isascii() and word.isdecimal() else -1
        if not least <= number <= most:
            raise ArgumentTypeError(f"{word!r}: expected a whole number from {least} to {most}")
        return number

    return read


def read_stream(word: str) -> str:
    if word not in ("tagged", "text", "bare"):
        raise ArgumentTypeError(f"{word!r}: expected tagged, text or bare")
    return word


def read_stream_fd(word: str) -> int:
    descriptor = at_least(1)(word)
    if descriptor == 2:
        raise ArgumentTypeError("2 is the log: expected 1, or an inherited descriptor from 3 on")
    return descriptor


def read_device(word: str) -> str:
    name, colon, number = word.partition(":")
    if word != "cpu" and (name != "cuda" or bool(colon) != number.isdecimal() or not number.isascii()):
        raise ArgumentTypeError(f"{word!r}: expected cpu, cuda or cuda:N")
    return word


def read_gpu_memory(word: str) -> float:
    """A share up to 1, or bytes."""
    try:
        size = float(word)
    except ValueError:
        size = 0.0
    if not (0 < size <= 1 or (1 < size < 2**63 and size.is_integer())):
        raise ArgumentTypeError(f"{word!r}: expected a share above 0 and up to 1, or bytes")
    return size


def read_fault(word: str) -> Faults:
    try:
        return read_faults(word)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None
