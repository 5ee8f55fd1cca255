"""The forms of the stream: how items become bytes, and how lines are read for that form."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..protocol import BareStream, Command, Item, Line, Message, encode_tagged, encode_text, parse


class Stream(NamedTuple):
    encode: Callable[[Iterable[Item]], bytes]
    parse: Callable[[Line], Command]


def open_stream(form: str, log: Callable[[str], None], auto: bool = False) -> Stream:
    """`form` is tagged, text or bare; a bare stream's messages go to `log`, as lines of text.

    `auto`: whether the daemon starts in auto mode.
    """
    if form == "bare":
        return _bare(BareStream(auto), log)
    return Stream(encode_text if form == "text" else encode_tagged, lambda line: parse(line.text))


def _bare(stream: BareStream, log: Callable[[str], None]) -> Stream:
    def encode(items: Iterable[Item]) -> bytes:
        items = list(items)
        for item in items:
            if isinstance(item, Message):
                log(encode_text([item]).decode().removesuffix("\n"))
        return stream.encode(items)

    return Stream(encode, stream.read)
