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


class Grammars(Protocol):
    def begin(self, grammar: Grammar, ends: Collection[int]) -> tuple[Constraint, bytes]:
        """For a request that these tokens end: a bit for each token that may be its first, in little-endian words of
        32. Raises Refusal for what is not understood."""

    def follow(self, chosen: Sequence[tuple[Constraint, int]]) -> Sequence[bytes | Stuck]:
        """Each has been given this token, which was allowed and ended nothing. What each may be given next."""


class NoGrammars:
    """For an engine whose tokens are no texts."""

    def begin(self, grammar: Grammar, ends: Collection[int]) -> tuple[Constraint, bytes]:
        raise Refusal("unsupported", NO_TEXTS)

    def follow(self, chosen: Sequence[tuple[Constraint, int]]) -> Sequence[bytes | Stuck]:
        return []  # none has begun
