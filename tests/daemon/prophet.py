"""A guesser for the null engine, whose rule it knows: mostly right where nobody draws, sometimes wrong on purpose. How
often, how far it dares, and whether it listens to what the engine drafts, depends on the text alone, so that a run can
be repeated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paceline.daemon.guesses import Guesser
from paceline.daemon.null_engine import VOCABULARY, mix, mix_all


class Prophet(Guesser):
    def __init__(self, ids: Sequence[int], modulus: int = VOCABULARY) -> None:
        super().__init__(ids)
        self._state, self._modulus = mix_all(ids), modulus

    def add(self, token: int) -> None:
        super().add(token)
        self._state = mix(self._state, token)

    def guess(self, count: int) -> list[int]:
        if self._listens():
            return super().guess(count)
        state, found = self._state, []
        for _ in range(count):
            token = state % VOCABULARY % self._modulus
            if state >> 60 < 3:
                token = (token + 1) % self._modulus
            found.append(token)
            state = mix(state, token)
        return found

    def chances(self) -> Iterator[float]:
        return super().chances() if self._listens() else iter([1.0] * (self._state >> 40 & 7))

    def _listens(self) -> bool:
        return bool(self._proposal) and self._state >> 44 & 3 > 0


class Told(Guesser):
    """Knows how some texts go on, from runs alone; of others it knows nothing."""

    def __init__(self, ids: Sequence[int], texts: Sequence[Sequence[int]], vocab: int) -> None:
        super().__init__(ids)
        self._count, self._vocab = len(ids), vocab
        self._text = next((text for text in texts if [*text[: len(ids)]] == [*ids]), [*ids])
        self._state = mix_all(ids)

    def add(self, token: int) -> None:
        super().add(token)
        self._count, self._state = self._count + 1, mix(self._state, token)

    def guess(self, count: int) -> list[int]:
        if self._listens():
            return super().guess(count)
        ahead = self._text[self._count : self._count + count]
        wrong = self._state >> 50 & 7
        return [(token + (index == wrong)) % self._vocab for index, token in enumerate(ahead)]

    def chances(self) -> Iterator[float]:
        if self._listens():
            return super().chances()
        return iter([1.0] * min(self._state >> 40 & 15, len(self._text) - self._count))

    def _listens(self) -> bool:
        return bool(self._proposal) and self._state >> 44 & 1 > 0
