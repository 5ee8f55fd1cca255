"""What holds outputs to grammars, as the pure rooms see it: after each token it says which may come next.

A step gets the set as bits and chooses among them; the daemon never looks into a token itself. A grammar may end where
it allows one of the request's `ends`; those are allowed nowhere else.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple, Protocol

from ..protocol import Grammar, Refusal

NO_TEXTS: Final = "grammar: this engine has no texts to hold to a grammar, expected START without it"
Constraint = Any
"""One request's output so far, read by its grammar: whatever made it knows."""


class Stuck(NamedTuple):
    """No token goes on; `error` says why."""

    error: str


class Given(NamedTuple):
    """An output has been given these tokens, which were allowed and ended nothing, and may go on with `guess`. Up to
    `most` further tokens are of use."""

    constraint: Constraint
    tokens: Sequence[int]
    guess: Sequence[int] = ()
    most: int = 0


class Ahead(NamedTuple):
    """What may come next, and what may come behind each token of a draft, which has no token that ends the request:
    bits of as many sets as the draft has tokens, and one. Tokens from the `forced`-th on are no guess: the text has to
    go on with theirs."""

    allowed: tuple[bytes, ...]
    draft: tuple[int, ...] = ()
    forced: int = 0


class Grammars(Protocol):
    def begin(self, grammar: Grammar, ends: Collection[int]) -> tuple[Constraint, bytes]:
        """For a request that these tokens end: a bit for each token that may be its first, in little-endian words of
        32. Raises Refusal for what is not understood."""

    def follow(self, given: Sequence[Given]) -> Sequence[Ahead | Stuck]:
        """What each may be given next, and a draft for each, as far as its guess is allowed or its text is forced."""


class NoGrammars:
    """For an engine whose tokens are no texts."""

    def begin(self, grammar: Grammar, ends: Collection[int]) -> tuple[Constraint, bytes]:
        raise Refusal("unsupported", NO_TEXTS)

    def follow(self, given: Sequence[Given]) -> Sequence[Ahead | Stuck]:
        return []  # none has begun
