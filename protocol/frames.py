"""Frames and messages, and their two encodings: tagged (binary) and text.

Every number that has a meaning on the wire is written here and nowhere else.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import msgpack  # type: ignore[import-untyped]

TOKEN_TAG: Final = -2
MESSAGE_TAG: Final = -3
VERSION: Final = 1  # of the protocol, sent in `ready`

DONE: Final = -1
YIELD: Final = -4
CANCELLED: Final = -5
FAILED: Final = -6

TERMINALS: Final = frozenset({DONE, CANCELLED, FAILED})

HEADER: Final = struct.Struct("<3i")


class Frame(NamedTuple):
    """One token of a request (value >= 0), or one of DONE YIELD CANCELLED FAILED."""

    req_id: int
    value: int


class Message(NamedTuple):
    """A reply or an event: one map whose keys are strings."""

    req_id: int
    body: dict[str, Any]


Item = Frame | Message


def encode_tagged(items: Iterable[Item]) -> bytes:
    """Little-endian int32 triples; a message's MessagePack follows its triple, zero-filled to a multiple of 4."""
    parts: list[bytes] = []
    run: list[int] = []  # frames not yet packed: a step's tokens become one call of struct.pack
    for item in items:
        if type(item) is Frame:
            run += (TOKEN_TAG, *item)
            continue
        req_id, body = item
        data: bytes = msgpack.packb(body, unicode_errors="backslashreplace")
        run += (MESSAGE_TAG, req_id, len(data))
        parts += (_pack(run), data, bytes(-len(data) % 4))
        run.clear()
    parts.append(_pack(run))
    return b"".join(parts)


def encode_text(items: Iterable[Item]) -> bytes:
    """A line per item: `-2 4 1234`, or `-3 4 {json}`. The JSON is compact and never holds a newline."""
    return "".join(map(_line, items)).encode("utf-8", "backslashreplace")


def _pack(numbers: list[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}i", *numbers)


def _line(item: Item) -> str:
    if type(item) is Frame:
        return f"{TOKEN_TAG} {item[0]} {item[1]}\n"
    return f"{MESSAGE_TAG} {item[0]} {_json(item[1])}\n"


_json: Final[Callable[[Any], str]] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
