"""Which tokens a step tries ahead of their turn.

A decoding request's row may have, behind its pending token, what its text will probably go on with: where the last ids
have been before, what followed there (lookup.py; elsewhere this is called prompt lookup decoding), or what the engine
has drafted, if its model has a layer for that (multi-token prediction). The step predicts behind each of them, in one
pass over the weights. A prediction counts as long as all drafted tokens before it were right, and then it is what
single steps would have given, bit for bit: logits depend on nothing but the ids before them, draws on seed and
position. So drafts change how many steps a text takes, never the text.

A drafted token costs a column of the step and is right by chance. Of all rows' guesses the likeliest are taken, as many
as make the step give the most tokens for what it costs: a step with few rows takes many, one with many rows only those
that are nearly certain. How likely a guess is follows from how many ids agree before it, and from how often this
request's guesses were right at such an agreement. What a step costs is a formula, not a measurement: the same commands
make the same steps.

An engine that drafts does so at the end of a step, for the next one. How many tokens it is asked for is chosen by the
same measure: as many as will make that step give the most tokens for its cost and theirs, by how often such tokens of
each request have been right, and by what is looked up anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import islice, takewhile

from .continuing import Continuing
from .guesses import PROPOSED, Guesser
from .plan import Row
from .requests import Request, State

Share = tuple[Request, int]

Offer = tuple[float, int, int]
"""A token that a step may try: how likely it is, negative; how many tokens have to be drafted for it; whose it is."""

LEAST_CHANCE = 0.05
"""Less likely guesses are not looked at."""

NEARLY_SURE = 0.9
"""A step with so many rows that only guesses more likely than this would pay has none."""

MOST_AHEAD = 8
LEAST_AHEAD = 0.2
"""Guesses of a step that are looked at in grammars, in all, and how likely they are at least: each takes some tens of
microseconds, whether it is tried or not."""

ASKED_AGAIN = 16
"""After so many tokens of a request the engine is asked for one more, whatever came of those before."""


class Drafts:
    new_guesser: Callable[[Sequence[int]], Guesser] = Guesser

    def __init__(self, most: int, step_tokens: int, column_cost: float, draft_cost: float = 0.0) -> None:
        """At most `most` tokens are drafted for a row, and decoding rows have at most `step_tokens` in all, with those.
        column_cost, draft_cost: EngineInfo's."""
        self._most = most
        self._step_tokens = step_tokens
        self._column_cost = column_cost
        self._draft_cost = draft_cost

    def rows(self, shares: Sequence[Share], begun: frozenset[Request], continuing: Continuing) -> tuple[Row, ...]:
        """The rows of a step, with what is drafted for them, and what is to be drafted for the next one; or without, if
        it has been begun already, for `begun`, or the next one should be."""
        drafts, worth = self._choose(shares) if self._most else ({}, 0.0)
        asked = self._ask(shares) if self._most and self._draft_cost else {}
        going = continuing.choose(shares, worth)
        is_begun = bool(begun) and all(request in begun for request, _ in shares)
        if is_begun or going or not (drafts or asked):
            return tuple([request.row(count, continues=request in going) for request, count in shares])
        return tuple([request.row(count, drafts.get(request, ()), asked.get(request, 0)) for request, count in shares])

    def propose(self, request: Request, tokens: Sequence[int]) -> None:
        """The engine has drafted these behind all of its output so far."""
        self._guesser(request).propose(tokens)

    def _choose(self, shares: Sequence[Share]) -> tuple[dict[Request, Sequence[int]], float]:
        """What is drafted for whom, and how many steps of one token that should save. Prefills beside them are not
        counted as a cost: in a long step drafts would seem cheap, and first tokens would come later for them."""
        decoders = [request for request, _ in shares if request.state is State.DECODE]
        rows = len(decoders)
        if self._full(rows):
            return {}, 0.0
        offers = []
        for order, request in enumerate(decoders):
            chances = self._chances(request)
            if (first := next(chances, None)) is not None:
                offers.append((-first, order, chances))
        if not offers:
            return {}, 0.0
        counts, worth = self._share_out(offers, rows)
        return {decoders[order]: _drafted(decoders[order], count) for order, count in counts.items()}, worth

    def _ask(self, shares: Sequence[Share]) -> dict[Request, int]:
        """How many tokens the engine is to draft behind whose row, for a step of all that will decode then: for each as
        many as that step will try. Drafting one costs the same for any number of rows. Who is asked for none is asked
        for one from time to time, as drafts may have become better."""
        going = [
            request
            for request, count in shares
            if request.remaining > 1
            and (request.state is State.DECODE or request.position + count == len(request.prompt))
        ]
        rows = len(going)
        if self._full(rows) or rows >= self._step_tokens:
            return {}
        held = sum(request.ahead is not None for request in going)
        useful = {request: count for request in going if (count := self._useful(request, held)) > 0}
        if not useful:
            return {}
        looked_up, drafted = self._offers(useful)
        most, _ = self._most_worth(looked_up, rows, 0)
        asked: Counter[int] = Counter()
        for depth in range(1, max(useful.values()) + 1):
            offers = [offer for offer in drafted if offer[1] <= depth]
            given, taken = self._most_worth(offers, rows, depth)
            if given > most:
                most, asked = given, Counter(order for _, at, order in offers[:taken] if at)
        return {
            request: count
            for order, request in enumerate(useful)
            if (count := asked[order] or int(len(request.output) % ASKED_AGAIN == 0))
        }

    def _offers(self, useful: dict[Request, int]) -> tuple[list[Offer], list[Offer]]:
        """What the next step may try, the likeliest first: if nothing is drafted for it, and if all is. A draft is in
        vain where something likelier was looked up."""
        looked_up, drafted = [], []
        for order, (request, count) in enumerate(useful.items()):
            guesser = self._guesser(request)
            found = [(-chance, 0, order) for chance in islice(guesser.looked_up(), count)]
            promised = [(-chance, depth, order) for depth, chance in enumerate(guesser.promises(count), 1)]
            looked_up += found
            drafted += found if found and found[0] < promised[0] else promised
        return sorted(looked_up), sorted(drafted)

    def _most_worth(self, offers: Sequence[Offer], rows: int, depth: int) -> tuple[float, int]:
        """The most tokens for its cost that a step can give with the first of these, and how many those are."""
        drafting, tokens = self._draft_cost * depth, float(rows)
        most, taken = tokens / (self._cost(rows) + drafting), 0
        for count, (unlikely, _, _) in enumerate(offers[: self._step_tokens - rows], 1):
            tokens -= unlikely
            if (given := tokens / (self._cost(rows + count) + drafting)) > most:
                most, taken = given, count
        return most, taken

    def _useful(self, request: Request, held: int) -> int:
        """How many tokens it can try in its next step, if this one gives it only one; of so many in grammars. A grant
        or a turn that ends now is taken to be renewed: what is drafted is kept until then."""
        grant = request.grant - 1 or min(request.quantum, request.remaining - 1)
        turn = request.turn - 1 or request.quantum
        looked = self._most if request.ahead is None else MOST_AHEAD // held
        return min(self._most, len(PROPOSED), looked, grant - 1, turn - 1)

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

    def _share_out(self, offers: list[tuple[float, int, Iterator[float]]], rows: int) -> tuple[Counter[int], float]:
        """How many tokens are drafted for whom, and how many more steps of one token as many would take without."""
        taken: list[int] = []
        best, tokens = 0, float(rows)
        plain = most = tokens / self._cost(rows)
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
        return Counter(taken[:best]), self._cost(rows + best) * (most / plain - 1)

    def _full(self, rows: int) -> bool:
        """Whether a step of so many rows has no drafts, as only nearly certain ones would pay."""
        return rows * self._column_cost > NEARLY_SURE * self._cost(rows)

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
