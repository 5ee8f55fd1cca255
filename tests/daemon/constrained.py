"""Constraints without texts, for tests: a grammar's text says in ids what may come."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import deepcopy
from functools import cache

from paceline.daemon.constraints import Ahead, Given, Stuck
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
        self.ends = frozenset(ends)
        self.output: list[int] = []

    def allowed(self) -> bytes | Stuck:
        at = len(self.output)
        tokens = self._sets[at] if at < len(self._sets) else self.ends
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
        for token in self.ends:
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

    def follow(self, given: Sequence[Given]) -> list[Ahead | Stuck]:
        return [self._follow(*one) for one in given]

    @staticmethod
    def _follow(output: Listed, tokens: Sequence[int], guess: Sequence[int], most: int) -> Ahead | Stuck:
        """Drafts the guess as far as it is allowed, and behind it what alone is allowed."""
        for token in tokens:
            output.follow(token)
        found = output.allowed()
        if isinstance(found, Stuck):
            return found
        sets, draft, guessed, ahead = [found], list[int](), 0, deepcopy(output)
        while len(draft) < most:
            number = int.from_bytes(sets[-1], "little")
            if guessed == len(draft) < len(guess) and number >> guess[guessed] & 1:
                token, guessed = guess[guessed], guessed + 1
            elif number & (number - 1) == 0:
                token = number.bit_length() - 1
            else:
                break
            ahead.follow(token)
            found = ahead.allowed()
            if token in ahead.ends or isinstance(found, Stuck):
                guessed = min(guessed, len(draft))
                break
            draft.append(token)
            sets.append(found)
        return Ahead(tuple(sets), tuple(draft), guessed)
