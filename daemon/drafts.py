"""Which tokens a step tries ahead of their turn.

A decoding request's row may have, behind its pending token, what its text will probably go on with: where the last ids
have been before, what followed there (lookup.py; elsewhere this is called prompt lookup decoding). The step predicts
behind each of them, in one pass over the weights. A prediction counts as long as all drafted tokens before it were
right, and then it is what single steps would have given, bit for bit: logits depend on nothing but the ids before
them, draws on seed and position. So drafts change how many steps a text takes, never the text.

A drafted token costs a column of the step and is right by chance. Of all rows' guesses the likeliest are taken, as many
as make the step give the most tokens for what it costs: a step with few rows takes many, one with many rows only those
that are nearly certain. How likely a guess is follows from how many ids agree before it, and from how often this
request's guesses were right at such an agreement. What a step costs is a formula, not a measurement: the same commands
make the same steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import islice, takewhile

from .guesses import Guesser
from .plan import Row
from .requests import Request, State

Share = tuple[Request, int]

LEAST_CHANCE = 0.05
"""Less likely guesses are not looked at."""

NEARLY_SURE = 0.9
"""A step with so many rows that only guesses more likely than this would pay has none."""

MOST_AHEAD = 8
LEAST_AHEAD = 0.2
"""Guesses of a step that are looked at in grammars, in all, and how likely they are at least: each takes some tens of
microseconds, whether it is tried or not."""


class Drafts:
    new_guesser: Callable[[Sequence[int]], Guesser] = Guesser

    def __init__(self, most: int, step_tokens: int, column_cost: float) -> None:
        """At most `most` tokens are drafted for a row, and decoding rows have at most `step_tokens` in all, with those.
        column_cost: EngineInfo's."""
        self._most = most
        self._step_tokens = step_tokens
        self._column_cost = column_cost

    def rows(self, shares: Sequence[Share]) -> tuple[Row, ...]:
        """The rows of a step, with what is drafted for them."""
        drafts = self._choose(shares) if self._most else {}
        if not drafts:
            return tuple([request.row(count) for request, count in shares])
        return tuple([request.row(count, draft=drafts.get(request, ())) for request, count in shares])

    def _choose(self, shares: Sequence[Share]) -> dict[Request, Sequence[int]]:
        """What is drafted for whom. Prefills beside them are not counted as a cost: in a long step drafts would seem
        cheap, and first tokens would come later for them."""
        decoders = [request for request, _ in shares if request.state is State.DECODE]
        rows = len(decoders)
        if rows * self._column_cost > NEARLY_SURE * self._cost(rows):
            return {}
        offers = []
        for order, request in enumerate(decoders):
            chances = self._chances(request)
            if (first := next(chances, None)) is not None:
                offers.append((-first, order, chances))
        if not offers:
            return {}
        counts = self._share_out(offers, rows)
        return {decoders[order]: _drafted(decoders[order], count) for order, count in counts.items()}

    def ahead(self, request: Request, outputs: int) -> tuple[Sequence[int], int]:
        """Of one of so many outputs that are held to grammars: how it may go on, as far as it is worth looking that up
        in its own, and how many tokens of any kind are."""
        most = min(self._most, MOST_AHEAD // outputs, request.grant - 1)
        if most <= 0:
            return (), 0
        guesser = self._guesser(request)
        likely = takewhile(lambda chance: chance > LEAST_AHEAD, islice(guesser.chances(), most))
        return guesser.guess(sum(1 for _ in likely)), most

    def _chances(self, request: Request) -> Iterator[float]:
        """Of its guesses, as far as they may become tokens in this step."""
        most = min(self._most, request.grant - 1, request.turn - 1)
        if most <= 0:
            return iter(())
        guesser, ahead = self._guesser(request), request.ahead
        if ahead is None:
            return islice(guesser.chances(), most)
        return islice(guesser.chances_with(ahead.forced), min(most, len(ahead.draft)))

    def _guesser(self, request: Request) -> Guesser:
        """It knows all of the request's text."""
        guesser = request.guesser
        if guesser is None:
            guesser = request.guesser = self.new_guesser((*request.before, *request.prompt, *request.output))
            request.guessed = len(request.output)
        while request.guessed < len(request.output):
            guesser.add(request.output[request.guessed])
            request.guessed += 1
        return guesser

    def _share_out(self, offers: list[tuple[float, int, Iterator[float]]], rows: int) -> Counter[int]:
        """How many tokens are drafted for whom."""
        taken: list[int] = []
        best, tokens = 0, float(rows)
        most = tokens / self._cost(rows)
        heapify(offers)
        while offers and len(taken) < self._step_tokens - rows:
            unlikely, order, chances = offers[0]
            taken.append(order)
            tokens -= unlikely
            if (given := tokens / self._cost(rows + len(taken))) > most:
                best, most = len(taken), given
            chance = next(chances, 0.0)
            if chance > LEAST_CHANCE:
                heapreplace(offers, (-chance, order, chances))
            else:
                heappop(offers)
        return Counter(taken[:best])

    def _cost(self, tokens: int) -> float:
        """Of a step with so many, in steps of one token."""
        return 1 + self._column_cost * (_computed(tokens) - 1)


def _computed(tokens: int) -> int:
    """Columns that kernels compute for so many: 1 to 6, 8, or a multiple of 4 (native/cpu/integer_product.h)."""
    return tokens if tokens <= 6 else 8 if tokens <= 8 else -(-tokens // 4) * 4


def _drafted(request: Request, count: int) -> Sequence[int]:
    """Nothing can follow a token that ends the request, so neither it nor what is behind it is worth a try."""
    if request.ahead is not None:
        return request.ahead.draft[:count]
    assert request.guesser is not None
    draft = request.guesser.guess(count)
    end = next((index for index, token in enumerate(draft) if token in request.ends), count)
    return draft[:end]
