"""The bytes that the token ids of a vocabulary stand for.

A byte-level vocabulary writes every byte as one printable character. One of SentencePiece's kind writes a blank as ▁,
and has tokens of one byte each for a character that no other token has.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gguf

from .text_ends import CONTROL

USER_DEFINED, UNKNOWN, UNUSED = (int(gguf.TokenType[name]) for name in ("USER_DEFINED", "UNKNOWN", "UNUSED"))
SIGN = re.compile(rb"<[^<>\s]+>|\[[^\[\]\s]+\]")
BLANK = "▁"
BYTE = re.compile(r"<0x([0-9A-F]{2})>")


@dataclass(frozen=True, slots=True)
class Pieces:
    """What the token ids of a model stand for, [vocab]."""

    texts: Sequence[bytes]  # id -> bytes; b"" where an id stands for nothing
    marks: frozenset[int]  # ids of control, user-defined and added tokens, which tokenizers match whole
    control: frozenset[int]  # ids that never stand for text

    def padded(self, vocab: int) -> Pieces:
        """With at least `vocab` texts: a model may have more ids than its tokenizer."""
        return Pieces((*self.texts, *[b""] * (vocab - len(self.texts))), self.marks, self.control)

    @property
    def signs(self) -> frozenset[int]:
        """What means something else than its text: control tokens, and of the others that are matched whole those that
        look like a mark (<think>). The rest is text: Gemma's lines and blanks."""
        return self.control | {mark for mark in self.marks if SIGN.fullmatch(self.texts[mark])}


def gguf_pieces(values: Mapping[str, Any]) -> Pieces:
    """Of the key/values of a GGUF file, as many as it lists tokens. Raises ValueError, in one sentence."""
    tokens, types = token_list(values, "tokens", str), token_list(values, "token_type", int)
    kinds = list(zip(range(len(tokens)), types, strict=False))  # types may be missing
    marks = frozenset(number for number, kind in kinds if kind in (CONTROL, USER_DEFINED))
    control = frozenset(number for number, kind in kinds if kind in (CONTROL, UNKNOWN, UNUSED))
    match values.get("tokenizer.ggml.model", "none"):
        case "gpt2":
            return Pieces(byte_pieces(tokens, marks), marks, control)
        case "llama" | "gemma4":
            return Pieces(blank_pieces(tokens), marks, control)
        case model:
            raise ValueError(f"its tokenizer model is {model!r}, supported are 'gpt2', 'llama' and 'gemma4'")


def token_list(values: Mapping[str, Any], name: str, kind: type) -> list[Any]:
    """The list tokenizer.ggml.`name`, empty if it is missing. Raises ValueError."""
    found = values.get(f"tokenizer.ggml.{name}", [])
    if not isinstance(found, list) or not all(isinstance(one, kind) for one in found):
        raise ValueError(f"its tokenizer.ggml.{name} is no list of {kind.__name__}")
    return found


def byte_pieces(tokens: Sequence[str], marks: Collection[int]) -> list[bytes]:
    """Each token's bytes in a byte-level vocabulary; the tokens in `marks` are written as they are."""
    byte_of = {ord(character): byte for byte, character in _alphabet()}
    pieces = []
    for number, token in enumerate(tokens):
        codes = [byte_of.get(ord(character), -1) for character in token]
        pieces.append(token.encode("utf-8", "replace") if number in marks or -1 in codes else bytes(codes))
    return pieces


def blank_pieces(tokens: Sequence[str]) -> list[bytes]:
    """Each token's bytes in a vocabulary of SentencePiece's kind: <0x0A> is the byte 10."""
    pieces = []
    for token in tokens:
        byte = BYTE.fullmatch(token)
        pieces.append(bytes([int(byte[1], 16)]) if byte else token.replace(BLANK, " ").encode("utf-8", "replace"))
    return pieces


def _alphabet() -> Iterator[tuple[int, str]]:
    """GPT-2's spelling of the 256 bytes: a printable Latin-1 character stands for itself, the others are numbered from
    U+0100 on."""
    spare = 0x100
    for byte in range(256):
        if 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xAC or byte >= 0xAE:
            yield byte, chr(byte)
        else:
            yield byte, chr(spare)
            spare += 1
