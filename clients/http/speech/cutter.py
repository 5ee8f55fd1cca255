"""An answer's text as it may be sent: whole characters only, and nothing that may still turn out to be part of a stop
string.

Tokens and pieces of text do not end at the same places. A token's log probability goes with the piece that its own text
begins in, and is dropped if that lies after a stop string."""

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...detokenizer import Decoder
from ...stop_strings import StopStrings
from .tool_calls import Call


class Likely(NamedTuple):
    """A token's natural log probability (None if nothing comes before it), and those of the likeliest tokens at its
    position. `unsaid` is how many of its leading bytes are not part of the text, such as all those of a begin token."""

    token: int
    logprob: float | None
    top: tuple[tuple[int, float], ...]
    unsaid: int = 0

    @classmethod
    def of(cls, token: int, told: Mapping[str, Any]) -> "Likely":
        """As the daemon sends it."""
        return cls(token, told["logprob"], tuple((other, logprob) for other, logprob in told["top"]))


class Delta(NamedTuple):
    """The next piece of an answer; with `thought`, its text is reasoning and not the answer itself. A `call` of a tool
    comes without text."""

    text: str
    likely: tuple[Likely, ...] = ()
    thought: bool = False
    call: Call | None = None


class Told:
    """Log probabilities that came, until a piece of text is sent that they can go with."""

    def __init__(self) -> None:
        self._likely: tuple[Likely, ...] = ()

    def add(self, likely: tuple[Likely, ...]) -> None:
        self._likely += likely

    def with_first(self, parts: list[Delta]) -> list[Delta]:
        if parts and self._likely:
            parts[0] = parts[0]._replace(likely=self._likely)
            self._likely = ()
        return parts

    def rest(self, parts: list[Delta], thought: bool = False) -> list[Delta]:
        """The last parts: with a piece of their own for log probabilities, if there is no other."""
        return self.with_first(parts or ([Delta("", (), thought)] if self._likely else []))


class Cutter:
    """For one answer. `stopped` is the stop string that ended it: nothing more comes after that."""

    def __init__(self, decoder: Decoder, stops: StopStrings) -> None:
        self._decoder = decoder
        self._stops = stops
        self._decoded = 0  # characters
        self._sent = 0
        self._likely: deque[tuple[int, Likely]] = deque()  # and the offset at which each one's text begins

    @property
    def stopped(self) -> str | None:
        return self._stops.found

    def push(self, token: int, likely: Likely | None = None) -> Delta:
        if likely:
            self._likely.append((self._decoded, likely))
        return self._send(self._go_on(self._decoder.push(token)))

    def finish(self) -> Delta:
        """The rest, when the answer has ended."""
        delta = self._send(self._go_on(self._decoder.flush()) + self._stops.flush())
        if self.stopped is not None:
            return delta
        return Delta(delta.text, (*delta.likely, *(one for _, one in self._likely)))

    def _go_on(self, text: str) -> str:
        self._decoded += len(text)
        return self._stops.push(text)

    def _send(self, text: str) -> Delta:
        self._sent += len(text)
        told = []
        while self._likely and self._likely[0][0] < self._sent:
            told.append(self._likely.popleft()[1])
        return Delta(text, tuple(told))
