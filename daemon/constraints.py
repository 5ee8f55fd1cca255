"""What holds an output to a grammar, as the pure rooms see it: after each token it says which may come next.

A step gets the set as bits and chooses among them; the daemon never looks into a token itself. The grammar may end
where it allows one of the request's `ends`; those are allowed nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NoReturn, Protocol

from ..protocol import Grammar, Refusal


class NothingFollows(Exception):
    """No token of the vocabulary goes on; the message says why."""


class Constraint(Protocol):
    """One request's output so far, read by its grammar."""

    def allowed(self) -> bytes:
        """A bit for each token, in little-endian words of 32; raises NothingFollows."""

    def follow(self, token: int) -> None:
        """This token, which was allowed and ends nothing, has been chosen."""


Constrain = Callable[[Grammar, Collection[int]], Constraint]
"""A grammar, and the tokens that end the request; refuses what it does not understand."""


def constrain_nothing(grammar: Grammar, ends: Collection[int]) -> NoReturn:
    raise Refusal("unsupported", "grammar: this engine has no texts to hold to a grammar, expected START without it")
