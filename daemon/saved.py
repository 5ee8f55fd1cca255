"""A snapshot as a file: bytes in, values out. Every byte is covered by the checksum at its end.

    PACESNAP   8 bytes
    version    uint32, little-endian, as all numbers here
    length     uint32, of the header
    header     MessagePack map: fingerprint, model, ids, first, pages, page_bytes, state_bytes
    pages      one after the other
    state      if there is one, as Engine.read_state gives it: its position, int64, then the state itself
    checksum   SHA-256 of all that comes before, 32 bytes

A file of another model, of the same model with another cache type, or of a machine that rounds differently is refused
by its fingerprint. A correct checksum says only that the file is complete: whoever wrote it could have written
anything, so everything in the header is checked against the rest and against this engine.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, BinaryIO, Final

import msgpack  # type: ignore[import-untyped]

from .limits import pages_for
from .plan import PAGE, EngineInfo
from .sentences import shorten

MAGIC: Final = b"PACESNAP"
VERSION: Final = 1
_FRONT: Final = struct.Struct("<8sII")
_CHECKSUM: Final = 32
_POSITION: Final = 8  # bytes of a state's position, before it
_PIECE: Final = 1 << 20  # bytes read at once of what is only checksummed
_KINDS: Final = {
    "fingerprint": (str, "a text"),
    "model": (str, "a text"),
    "ids": (list, "a list"),
    "first": (int, "a whole number"),
    "pages": (int, "a whole number"),
    "page_bytes": (int, "a whole number"),
    "state_bytes": (int, "a whole number"),
}


class Damaged(Exception):
    """The file is not a snapshot of ours, or incomplete, or not for this model; the message says which."""


@dataclass(frozen=True, slots=True)
class Saved:
    """`pages` hold the positions from the page of `first` on, to the end of `ids`."""

    ids: tuple[int, ...]
    first: int
    pages: tuple[bytes, ...]
    state: bytes | None


@dataclass(frozen=True, slots=True)
class Loaded:
    """LOAD, once its file has been read."""

    name: str
    saved: Saved
    _: KW_ONLY
    req_id: int = 0


def encode(saved: Saved, info: EngineInfo) -> Iterator[bytes]:
    """The pieces of the file, in order."""
    header = msgpack.packb(
        {
            "fingerprint": info.fingerprint,
            "model": info.model,
            "ids": saved.ids,
            "first": saved.first,
            "pages": len(saved.pages),
            "page_bytes": info.page_bytes,
            "state_bytes": 0 if saved.state is None else len(saved.state),
        }
    )
    digest = hashlib.sha256()
    pieces: Sequence[bytes] = (_FRONT.pack(MAGIC, VERSION, len(header)), header, *saved.pages, saved.state or b"")
    for piece in pieces:
        digest.update(piece)
        yield piece
    yield digest.digest()


def decode(file: BinaryIO, size: int, info: EngineInfo) -> Saved:
    """Reads the `size` bytes of a file, once, and keeps no second copy of them. Raises Damaged."""
    body = _Body(file, size - _CHECKSUM)
    if body.left < _FRONT.size:
        raise Damaged("it is no snapshot of ours: expected a file that SAVE has written")
    magic, version, length = _FRONT.unpack(body.take(_FRONT.size))
    if magic != MAGIC:
        raise Damaged("it is no snapshot of ours: expected a file that SAVE has written")
    if version != VERSION:
        raise Damaged(f"it has version {version}: expected {VERSION}")
    try:
        if length > body.left:
            raise Damaged(f"its header has {length} bytes, and only {body.left} are there")
        header = _read_header(body.take(length), info)
        _check_shape(header, body.left, info)
    except Damaged:
        body.check()  # an incomplete file is reported as such, whatever it seems to say
        raise
    pages = tuple([body.take(info.page_bytes) for _ in range(header["pages"])])
    state = body.take(header["state_bytes"]) or None
    body.check()
    ids = tuple(header["ids"])
    position = len(ids) if state is None else int.from_bytes(state[:_POSITION], "little", signed=True)
    if position != len(ids):
        raise Damaged(f"its state is of position {position}: expected {len(ids)}, the number of its ids")
    return Saved(ids, header["first"], pages, state)


class _Body:
    """All of a file but its checksum, read from front to end; `left` bytes are still to come."""

    def __init__(self, file: BinaryIO, left: int) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.left = left

    def take(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise Damaged("it was cut off while it was read")
        self._digest.update(data)
        self.left -= count
        return data

    def check(self) -> None:
        """Reads what is left; Damaged if the checksum behind it is wrong."""
        while self.left:
            self.take(min(self.left, _PIECE))
        if self._file.read(_CHECKSUM) != self._digest.digest():
            raise Damaged("its checksum is wrong: it was cut off or changed after it was saved")


def _read_header(data: bytes, info: EngineInfo) -> dict[str, Any]:
    """The header of a file that was saved from this model; the type of every value is checked."""
    try:
        header = msgpack.unpackb(data)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise Damaged(f"its header is no MessagePack ({type(error).__name__})") from None
    if not isinstance(header, dict):
        raise Damaged("its header is no map")
    for name, (kind, words) in _KINDS.items():
        if type(header.get(name)) is not kind:
            raise Damaged(f"its header is wrong: expected {name} to be {words}")
    if header["fingerprint"] != info.fingerprint or header["page_bytes"] != info.page_bytes:
        model = shorten(header["model"])
        raise Damaged(f"it was saved of another model, type of cache or GPU ({model}), not of this one")
    return header


def _check_shape(header: dict[str, Any], left: int, info: EngineInfo) -> None:
    """What the header says must agree with itself, with the `left` bytes behind it, and with this engine."""
    ids, first = header["ids"], header["first"]
    if not {type(token) for token in ids} <= {int} or (ids and not 0 <= min(ids) <= max(ids) < info.vocab):
        raise Damaged(f"its header is wrong: expected ids from 0 to {info.vocab - 1}")
    if len(ids) > info.context:
        raise Damaged(f"it ends at position {len(ids)}, past the context of {info.context}")
    last = 0 if info.state_bytes or not ids else len(ids) - 1
    if not 0 <= first <= last:
        raise Damaged(f"its header is wrong: first is {first}, expected 0 to {last}")
    pages = pages_for(len(ids)) - first // PAGE
    state_bytes = _POSITION + info.state_bytes if ids and info.state_bytes else 0
    for name, expected in (("pages", pages), ("state_bytes", state_bytes)):
        if header[name] != expected:
            raise Damaged(f"its header is wrong: {name} is {header[name]}, expected {expected} for {len(ids)} ids")
    if left != pages * info.page_bytes + state_bytes:
        expected = pages * info.page_bytes + state_bytes
        raise Damaged(f"{left} bytes come after its header: expected {expected} for {pages} pages")
