"""An answer's text as it may be sent: whole characters only, and nothing that may yet turn out to be a stop string.

Tokens and text do not end at the same places. A token's log probability is told with the piece of text that its own
text begins in, and not at all if that lies behind a stop string."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Likely(NamedTuple):
    """A token's log probability (natural), and those of the likeliest at its place."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]


class Delta(NamedTuple):
    """What an answer goes on with."""

    text: str
    likely: tuple[Likely, ...] = ()


class Decoder(Protocol):
    def push(self, token: int) -> str: ...
    def flush(self) -> str: ...


class Cutter:
    """One answer's. `stopped` is the stop string that ended it: nothing more will come then."""

    def __init__(self, decoder: Decoder, stops: Sequence[str]) -> None:
        self.stopped: str | None = None
        self._decoder = decoder
        self._stops = stops
        self._longest = max(map(len, stops), default=0)
        self._held = ""
        self._sent = 0  # characters
        self._likely: deque[tuple[int, Likely]] = deque()  # and the place where each one's text begins

    def push(self, token: int, likely: Likely | None = None) -> Delta:
        if likely:
            self._likely.append((self._sent + len(self._held), likely))
        return self._go_on(self._decoder.push(token))

    def finish(self) -> Delta:
        """The rest, when the answer has ended."""
        if self.stopped is not None:
            return Delta("")
        found = self._go_on(self._decoder.flush())
        if self.stopped is not None:
            return found
        rest, self._held = self._held, ""
        return Delta(found.text + rest, (*found.likely, *(one for _, one in self._likely)))

    def _go_on(self, text: str) -> Delta:
        if not self._stops:
            return self._send(self._held + text, "")
        whole = self._held + text
        places = [(place, stop) for stop in self._stops if (place := whole.find(stop)) >= 0]
        if places:
            place, self.stopped = min(places, key=lambda found: (found[0], -len(found[1])))
            return self._send(whole[:place], "")
        held = self._begun(whole)
        return self._send(whole[: len(whole) - held], whole[len(whole) - held :])

    def _begun(self, text: str) -> int:
        """How many characters at the end may be the beginning of a stop string."""
        for length in range(min(len(text), self._longest - 1), 0, -1):
            end = text[-length:]
            if any(stop.startswith(end) for stop in self._stops):
                return length
        return 0

    def _send(self, text: str, held: str) -> Delta:
        self._sent += len(text)
        self._held = held
        told = []
        while self._likely and self._likely[0][0] < self._sent:
            told.append(self._likely.popleft()[1])
        return Delta(text, tuple(told))
