"""Outputs in grammars over a vocabulary of bytes and a few longer tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from paceline.daemon.constraints import Ahead, Given, Stuck
from paceline.daemon.grammars import TextGrammars
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.plan import Pieces
from paceline.protocol import Grammar

TEXTS = [bytes([byte]) for byte in range(256)] + [
    b'{"',
    b'":',
    b'"}',
    b"true",
    b"name",
    b"  ",
    b"<eos>",
    b"<call>",
    b"",
]
EOS, CALL, NOTHING = len(TEXTS) - 3, len(TEXTS) - 2, len(TEXTS) - 1
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


class Texts(NullEngine):
    def __init__(self, texts: Sequence[bytes] = TEXTS) -> None:
        super().__init__()
        self.info = replace(self.info, vocab=len(texts))
        self.texts = texts
        self.asked = 0

    def pieces(self) -> Any:
        self.asked += 1
        return Pieces(self.texts, frozenset({EOS, CALL} if len(self.texts) > CALL else ()))


class Writing:
    """One output."""

    def __init__(self, grammars: TextGrammars, grammar: Grammar, ends: Sequence[int] = (EOS,)) -> None:
        self._grammars = grammars
        self.found: bytes | Stuck
        self.constraint, self.found = grammars.begin(grammar, ends)

    def follow(self, token: int) -> None:
        (found,) = self._grammars.follow([Given(self.constraint, [token])])
        self.found = found if isinstance(found, Stuck) else found.allowed[0]

    def ahead(self, tokens: Sequence[int], guess: Sequence[int], most: int) -> Ahead:
        (found,) = self._grammars.follow([Given(self.constraint, tokens, guess, most)])
        assert isinstance(found, Ahead)
        self.found = found.allowed[0]
        return found


def allowed(output: Writing) -> set[int]:
    bits = output.found
    assert isinstance(bits, bytes) and len(bits) == (len(TEXTS) + 31) // 32 * 4
    found = {token for token in range(8 * len(bits)) if bits[token // 8] >> token % 8 & 1}
    assert max(found) < len(TEXTS) and NOTHING not in found
    return found
