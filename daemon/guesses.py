"""How one request's text goes on, by what it has been or has to be, or as the engine drafts it, and how good such
guesses are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from .lookup import LONGEST, Lookup

CHANCES = (0.3, 0.45, 0.6, 0.75, 0.85, 0.9, 0.8)
"""How often a guess is right where 2, 3, 4, 5 to 7, 8 to 15, or 16 ids and more agree, before anything is known of a
request. Chat answers of small models, summaries and edited code have 0.5, 0.7, 0.8 and above; these are cautious. The
last is that of a forced text, which may be cut into other tokens."""

PROPOSED = (0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6)
"""How often the first token of a proposal is right, the second if the first is, and so on, before anything is known of
a request. Of layers that draft 0.8 and above is told for the first; these are cautious, too. No proposal is longer."""

TRIALS = 4
"""So many guesses of its own count as much as CHANCES and PROPOSED."""

REMEMBERED = 64
"""After so many tokens of proposals what was learned of them counts half, as an engine may get better or worse in the
course of a text."""

FORCED = 6
_FIRST = len(CHANCES)  # the kind of a proposal's first token; the next kinds are those behind it
_KINDS = (0, 0, 0, 1, 2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 5)  # by agreement, 0 to LONGEST


class Guesser:
    """Guesses how one text goes on, and learns how good it is at that. What the engine has drafted is a proposal: a
    guess like one that was looked up, and the likelier of the two is made. It holds as long as the text goes on with
    it, so that a step that tries less than all of it, or nothing, leaves the rest."""

    def __init__(self, ids: Sequence[int]) -> None:
        self._lookup = Lookup(ids)
        self._right = [chance * TRIALS for chance in (*CHANCES, *PROPOSED)]
        self._tried = [float(TRIALS)] * len(self._right)
        self._proposal: Sequence[int] = ()
        self._proven = 0  # so many of its tokens, and not all

    def propose(self, tokens: Sequence[int]) -> None:
        """The text may go on with these from here."""
        self._proposal, self._proven = tokens, 0

    def add(self, token: int) -> None:
        if self._proposal:
            self._prove(token)
        agreement = self._lookup.agreement
        right = self._lookup.add(token)
        if agreement:
            self._note(_KINDS[agreement], right)

    def note_forced(self, right: bool) -> None:
        """How a token was cut from a text that is known."""
        self._note(FORCED, right)

    def guess(self, count: int) -> list[int]:
        if self._proposal and self._believed():
            return [*self._proposal[self._proven : self._proven + count]]
        return self._lookup.guess(count)

    def chances(self) -> Iterator[float]:
        """That the first guess is right, that the first two are, and so on, without end where it was looked up; nothing
        if there is none."""
        if self._proposal and self._believed():
            yield from self._promised(self._proven, len(self._proposal))
        else:
            yield from self.looked_up()

    def looked_up(self) -> Iterator[float]:
        """The same of what was looked up alone."""
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

    def promises(self, count: int) -> list[float]:
        """Chances of so many tokens that the engine has not drafted yet."""
        return [*self._promised(0, count)]

    def _believed(self) -> bool:
        """Whether nothing likelier than the proposal was looked up."""
        agreement = self._lookup.agreement
        return not agreement or self._chance(_FIRST + self._proven) >= self._chance(_KINDS[agreement])

    def _prove(self, token: int) -> None:
        """A token that is not the proposed one says nothing of those behind it."""
        right = self._proposal[self._proven] == token
        kind = _FIRST + self._proven
        self._note(kind, right)
        if self._tried[kind] > REMEMBERED:
            self._tried[kind] /= 2
            self._right[kind] /= 2
        self._proven += 1
        if not right or self._proven == len(self._proposal):
            self._proposal = ()

    def _promised(self, first: int, end: int) -> Iterator[float]:
        """Chances of a proposal's tokens from this one on."""
        chance = 1.0
        for kind in range(_FIRST + first, _FIRST + end):
            chance *= self._right[kind] / self._tried[kind]
            yield chance

    def _chance(self, kind: int) -> float:
        return self._right[kind] / self._tried[kind]

    def _note(self, kind: int, right: bool) -> None:
        self._tried[kind] += 1
        self._right[kind] += right
