"""How one request's text goes on, by what it has been or has to be, and how good such guesses are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from .lookup import LONGEST, Lookup

CHANCES = (0.3, 0.45, 0.6, 0.75, 0.85, 0.9, 0.8)
"""How often a guess is right where 2, 3, 4, 5 to 7, 8 to 15, or 16 ids and more agree, before anything is known of a
request. Chat answers of small models, summaries and edited code have 0.5, 0.7, 0.8 and above; these are cautious. The
last is that of a forced text, which may be cut into other tokens."""

TRIALS = 4
"""So many guesses of its own count as much as CHANCES."""

FORCED = 6
_KINDS = (0, 0, 0, 1, 2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 5)  # by agreement, 0 to LONGEST


class Guesser:
    """Guesses how one text goes on, and learns how good it is at that."""

    def __init__(self, ids: Sequence[int]) -> None:
        self._lookup = Lookup(ids)
        self._right = [chance * TRIALS for chance in CHANCES]
        self._tried = [TRIALS] * len(CHANCES)

    def add(self, token: int) -> None:
        agreement = self._lookup.agreement
        right = self._lookup.add(token)
        if agreement:
            self._note(_KINDS[agreement], right)

    def note_forced(self, right: bool) -> None:
        """How a token was cut from a text that is known."""
        self._note(FORCED, right)

    def guess(self, count: int) -> list[int]:
        return self._lookup.guess(count)

    def chances(self) -> Iterator[float]:
        """That the first guess is right, that the first two are, and so on without end; nothing if there is none."""
        chance, agreement = 1.0, self._lookup.agreement
        while agreement:
            chance *= self._chance(_KINDS[agreement])
            yield chance
            agreement = min(agreement + 1, LONGEST)

    def chances_with(self, guessed: int) -> Iterator[float]:
        """The same where only the first `guessed` tokens are guesses, and forced ones follow them."""
        chance = 1.0
        for chance in islice(self.chances(), guessed):
            yield chance
        while True:
            chance *= self._chance(FORCED)
            yield chance

    def _chance(self, kind: int) -> float:
        return self._right[kind] / self._tried[kind]

    def _note(self, kind: int, right: bool) -> None:
        self._tried[kind] += 1
        self._right[kind] += right
