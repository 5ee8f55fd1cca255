"""Incremental readers: feed them any bytes, in any pieces, and get whole lines or whole frames back.

Both take time linear in the bytes they are fed, also when fed one byte at a time, and bounded memory.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import msgpack  # type: ignore[import-untyped]

from .frames import CANCELLED, DONE, FAILED, HEADER, MESSAGE_TAG, TOKEN_TAG, YIELD, Frame, Item, Message
from .prefixes import read_prefixes
from .words import split

BLANKS: Final = b" \t\r"
_WORD: Final = re.compile(rb"[^ \t\r]")
_BLANK: Final = re.compile(rb"[ \t]*")
_HEAD: Final = 1024  # bytes that hold a line's tags, unless there are hundreds of blanks or digits
SIGNALS: Final = frozenset({DONE, YIELD, CANCELLED, FAILED})


class Line(NamedTuple):
    number: int
    text: str


class BadLine(NamedTuple):
    """A line that cannot be a command but is owed a reply all the same; `req_id` is its tag's, 0 for none."""

    number: int
    code: str
    error: str
    req_id: int = 0


class LineReader:
    """Cuts bytes into lines, numbered from 1. Blank lines and comments are counted and dropped, whatever their length.

    At most max_line + 1 bytes of a line are kept: the last of them shows that it is too long.
    """

    def __init__(self, max_line: int = 1 << 20) -> None:
        self._max_line = max_line
        self._number = 1
        self._kept = bytearray()
        self._words_beyond = False  # something other than blanks came after what is kept
        self._no_room = False  # memory was too short for the line

    def feed(self, data: bytes) -> list[Line | BadLine]:
        lines: list[Line | BadLine] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._keep(data[start:end])
            self._finish(lines, whole=True)
            start = end + 1
        self._keep(data[start:])
        return lines

    def close(self) -> list[Line | BadLine]:
        """End of input: a last line that lacks its newline is refused, unless it is blank or a comment."""
        lines: list[Line | BadLine] = []
        self._finish(lines, whole=False)
        return lines

    def _keep(self, piece: bytes) -> None:
        room = 0 if self._no_room else self._max_line + 1 - len(self._kept)
        try:
            self._kept += piece[:room]
        except MemoryError:
            self._kept = self._kept[: 2 * _HEAD]
            self._no_room, room = True, 0
        if len(piece) > room and piece[room:].strip(BLANKS):
            self._words_beyond = True

    def _finish(self, lines: list[Line | BadLine], *, whole: bool) -> None:
        line, number = self._kept, self._number
        blank = not (_WORD.search(line) or self._words_beyond)
        no_room = self._no_room
        self._kept = bytearray()
        self._words_beyond = self._no_room = False
        self._number += 1
        if blank or line.startswith(b"#"):
            return
        if no_room:
            lines.append(_too_little(number, line))
        elif len(line) > self._max_line:
            error = f"line {number} is longer than {self._max_line} bytes"
            lines.append(BadLine(number, "line_too_long", error, _tag(line, whole=False)))
        elif not whole:
            error = f"line {number} ends without a newline"
            lines.append(BadLine(number, "unfinished_line", error, _tag(line, whole=False)))
        else:
            lines.append(_decode(number, line))


def _decode(number: int, line: bytearray) -> Line | BadLine:
    try:
        return Line(number, line.removesuffix(b"\r").decode())
    except MemoryError:
        return _too_little(number, line)
    except UnicodeDecodeError as error:
        wrong, column = line[error.start], error.start + 1
        said = f"line {number}: byte {column} is 0x{wrong:02x}; expected UTF-8 text"
        return BadLine(number, "bad_utf8", said, _tag(line.removesuffix(b"\r"), whole=True))


def _too_little(number: int, line: bytearray) -> BadLine:
    return BadLine(number, "kv_budget", "too little memory for this line", _tag(line, whole=False))


def request_tag(text: str) -> int:
    """The request id of a line's REQ tag, 0 without one; for a line that is not parsed."""
    return _tag(text[: 2 * _HEAD].encode(errors="replace"), whole=len(text) <= 2 * _HEAD)


def _tag(line: bytes | bytearray, *, whole: bool) -> int:
    """The last word of an incomplete line is left out, as it may be cut off. Copies no more than a head of the line,
    which may be what memory is too short for."""
    blank = _BLANK.match(line)
    assert blank is not None
    first = blank.end()
    head = line[first : first + _HEAD]
    if len(head) < len(line) - first or not whole:
        head = head[: max(head.rfind(b" "), head.rfind(b"\t")) + 1]
    return read_prefixes(split(head.decode(errors="replace"))).req_id or 0


class BrokenStream(ValueError):
    """Bytes that are not a frame stream. `items` holds what the same feed decoded before them, so that nothing is
    lost."""

    def __init__(self, offset: int, error: str, items: tuple[Item, ...] = ()) -> None:
        super().__init__(offset, error, items)
        self.offset = offset
        self.error = error
        self.items = items

    def __str__(self) -> str:
        return f"offset {self.offset}: {self.error}"


class FrameReader:
    """Cuts a tagged stream into frames and messages. Once broken it stays broken: nothing after can be trusted."""

    def __init__(self, max_message: int = 1 << 26) -> None:
        self._max_message = max_message
        self._buffer = bytearray()
        self._offset = 0  # where in the stream the buffer starts
        self._needed = HEADER.size  # bytes of the next item, as far as they are known
        self._broken: BrokenStream | None = None

    def feed(self, data: bytes) -> list[Item]:
        items: list[Item] = []
        if not self._broken:
            self._buffer += data
            used = self._decode(items)
            del self._buffer[:used]
            self._offset += used
        if self._broken:
            raise BrokenStream(self._broken.offset, self._broken.error, tuple(items))
        return items

    def close(self) -> None:
        """End of stream, which must fall between two items."""
        self.feed(b"")
        if self._buffer:
            raise BrokenStream(self._offset, f"the stream ends {len(self._buffer)} bytes into an item")

    def _decode(self, items: list[Item]) -> int:
        buffer, used = self._buffer, 0
        while len(buffer) - used >= self._needed:
            tag, req_id, value = HEADER.unpack_from(buffer, used)
            if error := _header_error(tag, req_id, value, self._max_message):
                self._broken = BrokenStream(self._offset + used, error)
                break
            if tag == TOKEN_TAG:
                items.append(Frame(req_id, value))
                used += HEADER.size
                continue
            self._needed = HEADER.size + value + -value % 4
            if len(buffer) - used < self._needed:
                break
            body = _body(bytes(buffer[used + HEADER.size : used + self._needed]), value)
            if isinstance(body, str):
                self._broken = BrokenStream(self._offset + used, body)
                break
            items.append(Message(req_id, body))
            used += self._needed
            self._needed = HEADER.size
        return used


def _header_error(tag: int, req_id: int, value: int, max_message: int) -> str | None:
    if tag not in (TOKEN_TAG, MESSAGE_TAG):
        return f"tag {tag}; expected {TOKEN_TAG} or {MESSAGE_TAG}"
    if req_id < 0:
        return f"request id {req_id}; expected 0 or more"
    if tag == TOKEN_TAG and value < 0 and value not in SIGNALS:
        return f"value {value}; expected a token or one of {', '.join(map(str, sorted(SIGNALS)))}"
    if tag == MESSAGE_TAG and not 0 <= value <= max_message:
        return f"a message of {value} bytes; expected 0 to {max_message}"
    return None


def _body(data: bytes, size: int) -> dict[str, Any] | str:
    """A message's map, or what is wrong with it."""
    if any(data[size:]):
        return "a message is filled up with bytes other than zero"
    try:
        body = msgpack.unpackb(data[:size])
    except ValueError as error:
        return f"a message is no MessagePack: {str(error) or type(error).__name__}"
    if isinstance(body, dict) and all(isinstance(key, str) for key in body):
        return body
    return "a message is no map whose keys are strings"
