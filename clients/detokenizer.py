"""Token ids back to text. Each id of a byte-level vocabulary stands for some bytes, and all of them together are the
answer's text in UTF-8.

A character may be spread over several ids, so a stream of ids goes through a Detokenizer, which holds back a
character until its last byte is there."""

import codecs
from collections.abc import Iterable, Sequence
from typing import Protocol


class Decoder(Protocol):
    """Ids to text, for one answer."""

    def push(self, token: int) -> str: ...
    def flush(self) -> str: ...


class Detokenizer:
    """Turns ids into text one at a time; what push and flush return, joined, is what decode returns."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """The text that this id completes: perhaps none, never a part of a character."""
        return self._utf8.decode(_piece(self._pieces, token))

    def piece(self, token: int) -> bytes:
        """The bytes of an id, independent of what was pushed."""
        return _piece(self._pieces, token)

    def flush(self) -> str:
        """What is left at the end: an incomplete character shows as U+FFFD."""
        return self._utf8.decode(b"", final=True)


def decode(pieces: Sequence[bytes], ids: Iterable[int]) -> str:
    """The text of `ids`; bytes that are no UTF-8 show as U+FFFD."""
    return b"".join(_piece(pieces, token) for token in ids).decode("utf-8", "replace")


def _piece(pieces: Sequence[bytes], token: int) -> bytes:
    if not 0 <= token < len(pieces):
        raise ValueError(f"{token} is no token id, expected 0 to {len(pieces) - 1}")
    return pieces[token]
