"""A snapshot as a file: bytes in, values out. Every byte is under the checksum at its end.

    PACESNAP   8 bytes
    version    uint32, little-endian, as all numbers here
    length     uint32, of the header
    header     MessagePack map: fingerprint, model, ids, first, pages, page_bytes, state_bytes
    pages      one after the other
    state      if there is one
    checksum   SHA-256 of all that comes before, 32 bytes

A file of another model, or of the same with another type of cache, is refused by its fingerprint.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]

from .plan import EngineInfo

MAGIC: Final = b"PACESNAP"
VERSION: Final = 1
_LONGEST_HEADER: Final = 1 << 28
_FRONT: Final = struct.Struct("<8sII")


class Damaged(Exception):
    """The file is none of ours, or not whole, or not for this model; the message says which."""


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


def decode(data: bytes, info: EngineInfo) -> Saved:
    """Raises Damaged."""
    if len(data) < _FRONT.size + hashlib.sha256().digest_size or data[:8] != MAGIC:
        raise Damaged("it is no snapshot of ours: expected a file that SAVE has written")
    _, version, length = _FRONT.unpack_from(data)
    if version != VERSION:
        raise Damaged(f"it has version {version}: expected {VERSION}")
    if hashlib.sha256(data[:-32]).digest() != data[-32:]:
        raise Damaged("its checksum is wrong: it was cut off or changed after it was saved")
    body = memoryview(data)[_FRONT.size : -32]
    header = _header(bytes(body[:length]))
    if header["fingerprint"] != info.fingerprint or header["page_bytes"] != info.page_bytes:
        raise Damaged(f"it was saved of another model or another type of cache ({header['model']}), not of this one")
    rest = body[length:]
    split = header["pages"] * info.page_bytes
    pages = tuple(bytes(rest[begin : begin + info.page_bytes]) for begin in range(0, split, info.page_bytes))
    state = bytes(rest[split:]) if header["state_bytes"] else None
    return Saved(tuple(header["ids"]), header["first"], pages, state)


def _header(data: bytes) -> dict[str, Any]:
    """Whoever wrote the checksum wrote the header too, so this only guards against a wrong version of us."""
    header: dict[str, Any] = msgpack.unpackb(data)
    return header
