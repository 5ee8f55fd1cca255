"""Prompts that are given as files: raw little-endian int32 token ids."""

from __future__ import annotations

import os
import stat
import sys
from array import array
from pathlib import Path

from ..protocol import Ids, Refusal
from .sentences import reason_of, shorten

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def read_prompt(path: str, context: int) -> Ids:
    """The ids in a regular file, whose size is checked before it is read. A pipe or a device is never opened."""
    shown = shorten(path)
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise Refusal("prompt_unreadable", f"prompt {shown}: it is no regular file; expected a file of int32 ids")
        descriptor = os.open(path, _FLAGS)
        try:
            data = _read(descriptor, shown, context)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        raise Refusal(
            "prompt_unreadable", f"prompt {shown}: {reason_of(error)}; expected ids:1,2,3 or a readable file"
        ) from None
    if not data:
        raise Refusal("prompt_empty", f"prompt {shown}: the file is empty; expected one int32 id at least")
    ids = array("i", data)
    if sys.byteorder == "big":
        ids.byteswap()
    return Ids(tuple(ids))


def _read(descriptor: int, shown: str, context: int) -> bytes:
    status = os.fstat(descriptor)
    size = status.st_size
    if not stat.S_ISREG(status.st_mode):
        raise Refusal("prompt_unreadable", f"prompt {shown}: it is no regular file any more")
    if size // 4 > context:
        raise Refusal("context_overflow", f"prompt {shown}: it holds {size // 4} ids, and the context holds {context}")
    data = b""
    while len(data) < size and (piece := os.read(descriptor, size - len(data))):
        data += piece
    if len(data) % 4:
        raise Refusal("prompt_unreadable", f"prompt {shown}: {len(data)} bytes are no whole number of int32 ids")
    return data
