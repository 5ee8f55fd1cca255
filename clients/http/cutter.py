"""An answer's text as it may be sent: whole characters only, and nothing that may yet turn out to be a stop string.

Tokens and text do not end at the same places. A token's log probability is told with the piece of text that its own
text begins in, and not at all if that lies behind a stop string."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ..stop_strings import StopStrings


class Likely(NamedTuple):
    """A token's log probability (natural; None if nothing stands before it), and those of the likeliest at its
    place. `unsaid` is how many of its first bytes are no part of the text, as all of a begin token's."""

    token: int
    logprob: float | None
    top: tuple[tuple[int, float], ...]
    unsaid: int = 0

    @classmethod
    def of(cls, token: int, told: Mapping[str, Any]) -> "Likely":
        """As the daemon tells it."""
        return cls(token, told["logprob"], tuple((other, logprob) for other, logprob in told["top"]))


class Delta(NamedTuple):
    """What an answer goes on with; `thought` is text that it thinks and does not say."""

    text: str
    likely: tuple[Likely, ...] = ()
    thought: bool = False


class Decoder(Protocol):
    def push(self, token: int) -> str: ...
    def flush(self) -> str: ...


class Cutter:
    """One answer's. `stopped` is the stop string that ended it: nothing more will come then."""

    def __init__(self, decoder: Decoder, stops: Sequence[str]) -> None:
        self._decoder = decoder
        self._stops = StopStrings(stops)
        self._decoded = 0  # characters
        self._sent = 0
        self._likely: deque[tuple[int, Likely]] = deque()  # and the place where each one's text begins

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
