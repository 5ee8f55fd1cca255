"""Constraints without texts, for tests: a grammar's text says in ids what may come."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache

from paceline.daemon.constraints import Stuck
from paceline.daemon.null_engine import mix
from paceline.protocol import Grammar, Refusal

ANY_THIRD = 'grammar={"lark":"any_third"}'


def bits(tokens: Collection[int], vocab: int) -> bytes:
    number = sum(1 << token for token in set(tokens))
    return number.to_bytes((vocab + 31) // 32 * 4, "little")


class Listed:
    """ "1,2;3": first 1 or 2, then 3, then an end. A stretch without ids is one that nothing follows."""

    def __init__(self, text: str, vocab: int, ends: Collection[int]) -> None:
        self._sets = [[int(token) for token in part.split(",") if token] for part in text.split(";")]
        self._vocab = vocab
        self._ends = ends
        self.output: list[int] = []

    def allowed(self) -> bytes | Stuck:
        at = len(self.output)
        tokens = self._sets[at] if at < len(self._sets) else self._ends
        if not tokens:
            return Stuck(f"nothing follows {self.output}")
        return bits(tokens, self._vocab)

    def follow(self, token: int) -> None:
        self.output.append(token)


@cache
def residues(vocab: int) -> tuple[int, ...]:
    """As numbers whose bits are tokens: those that leave 0, 1 and 2 when divided by 3."""
    return tuple(sum(1 << token for token in range(start, vocab, 3)) for start in range(3))


class AnyThird(Listed):
    """A third of the vocabulary, one that depends on the output so far; none of the ends."""

    def __init__(self, vocab: int, ends: Collection[int]) -> None:
        super().__init__("", vocab, ends)
        self._state = 0

    def allowed(self) -> bytes:
        number = residues(self._vocab)[self._state % 3]
        for token in self._ends:
            number &= ~(1 << token)
        return number.to_bytes((self._vocab + 31) // 32 * 4, "little")

    def follow(self, token: int) -> None:
        super().follow(token)
        self._state = mix(self._state, token)


class ListedGrammars:
    def __init__(self, vocab: int) -> None:
        self._vocab = vocab

    def begin(self, grammar: Grammar, ends: Collection[int]) -> tuple[Listed, bytes]:
        if grammar.kind != "lark":
            raise Refusal("bad_argument", f"grammar: {grammar.kind} is not of these tests")
        any_third = grammar.text == "any_third"
        output = AnyThird(self._vocab, ends) if any_third else Listed(grammar.text, self._vocab, ends)
        found = output.allowed()
        if isinstance(found, Stuck):
            raise Refusal("bad_argument", f"grammar: {found.error}")
        return output, found

    def follow(self, chosen: Sequence[tuple[Listed, int]]) -> list[bytes | Stuck]:
        for output, token in chosen:
            output.follow(token)
        return [output.allowed() for output, _ in chosen]
