"""A complete answer, whichever API it is for."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Self

from ..speech.cutter import Delta, Likely
from ..speech.tool_calls import Call


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer. `parts` are its texts, thoughts and calls in their order; `reason` is the daemon's: eos, stop
    or length; or calls, if it ended with one; `stopped` the stop string that ended it."""

    parts: tuple[Delta, ...]
    reason: str
    stopped: str | None = None

    @classmethod
    def of(cls, deltas: Iterable[Delta], reason: str, stopped: str | None = None) -> Self:
        """From the pieces that it came in."""
        parts = [_joined(pieces) for _, kind in groupby(deltas, _kind) for pieces in _apart(kind)]
        return cls(tuple(parts), reason, stopped)

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if not part.thought)

    @property
    def thought(self) -> str:
        return "".join(part.text for part in self.parts if part.thought)

    @property
    def likely(self) -> tuple[Likely, ...]:
        return tuple(one for part in self.parts for one in part.likely)

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(part.call for part in self.parts if part.call)


def _kind(delta: Delta) -> tuple[bool, bool]:
    return delta.thought, delta.call is not None


def _apart(deltas: Iterable[Delta]) -> list[list[Delta]]:
    """Calls are not joined."""
    found = list(deltas)
    return [[one] for one in found] if found[0].call else [found]


def _joined(deltas: list[Delta]) -> Delta:
    likely = tuple(one for delta in deltas for one in delta.likely)
    return deltas[0]._replace(text="".join(delta.text for delta in deltas), likely=likely)
