"""Finds where a text has been before: what followed there is a guess at what follows here.

The match finder of LZ77 (hash chains): for each pair of neighbouring ids the position behind its last occurrence, and
for each position the one before with the same hash. A text that goes on as guessed needs no search.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

SHORTEST = 2
"""Ids that must agree for a match."""

LONGEST = 16
"""Ids that are compared: more agreement makes no better guess."""

TRIES = 16
"""Places that a search looks at, the last ones first."""

PIECE = 1024
"""Ids that are entered at once: some 0.3 ms."""

LEAST_BUCKETS = 256
_FIRST, _SECOND = 0x9E3779B1, 0x85EBCA77  # spread pairs over the buckets
_SHIFT = 15  # bits from here on are mixed well


class Lookup:
    """Takes 16 to 24 bytes for each id. Of a long text, PIECE ids are entered with each id that is added, so that
    nobody waits for all of them; until they are in, nothing is found."""

    def __init__(self, ids: Iterable[int]) -> None:
        self._ids = array("i", ids)
        self._source = 0  # position of the guess for the next id; 0: there is none
        self.agreement = 0
        """How many of the last ids agree with those before the guess, up to LONGEST; 0: there is no guess."""
        self._begin()
        self._enter(PIECE)
        self._search()

    def add(self, token: int) -> bool:
        """The text goes on with this id. Returns whether that was the guess."""
        ids = self._ids
        right = self._source > 0 and ids[self._source] == token
        ids.append(token)
        if len(ids) > len(self._heads):
            self._begin()
        self._enter(PIECE)
        if right:
            self._source += 1
            self.agreement = min(self.agreement + 1, LONGEST)
        else:
            self._search()
        return right

    def guess(self, count: int) -> list[int]:
        """The next `count` ids, if the text goes on as it did before: where that reaches the end, from there again.
        Empty where it has not been before."""
        if not self._source:
            return []
        period = len(self._ids) - self._source
        return [self._ids[self._source + index % period] for index in range(count)]

    def _begin(self) -> None:
        """Anew, with at least as many buckets as ids."""
        size = max(LEAST_BUCKETS, 1 << len(self._ids).bit_length() + 1)
        self._mask = size - 1
        self._heads = array("i", [0]) * size
        self._chain = array("i")  # of the ids that are entered
        self._bucket = 0  # of the last two of them

    def _enter(self, most: int) -> None:
        """After this the pairs of ids before each position that is entered can be found."""
        ids, heads, chain, mask, bucket = self._ids, self._heads, self._chain, self._mask, self._bucket
        for position in range(len(chain), min(len(ids), len(chain) + most)):
            if position < SHORTEST:
                chain.append(0)
            else:
                chain.append(heads[bucket])
                heads[bucket] = position
            if position:
                bucket = (ids[position - 1] * _FIRST + ids[position] * _SECOND) >> _SHIFT & mask
        self._bucket = bucket

    def _search(self) -> None:
        self._source = self.agreement = 0
        ids, end = self._ids, len(self._ids)
        if end < SHORTEST or len(self._chain) < end:
            return
        place, source, longest = self._heads[self._bucket], 0, SHORTEST - 1
        for _ in range(TRIES):
            if not place or longest == LONGEST:
                break
            length, most = 0, min(place, LONGEST)
            while length < most and ids[place - 1 - length] == ids[end - 1 - length]:
                length += 1
            if length > longest:
                source, longest = place, length
            place = self._chain[place]
        if source:
            self._source, self.agreement = source, longest
