"""Finds stop strings in a text that comes in pieces, wherever it is cut."""

from collections.abc import Sequence


class StopStrings:
    """What push and flush return, joined, is the text up to the first stop string: the one that is complete first; of
    those that end at the same character, the longest. `found` is that one, None before."""

    def __init__(self, stops: Sequence[str] = ()) -> None:
        if "" in stops:
            raise ValueError("a stop string is empty, expected one character at least")
        self._stops = tuple(stops)
        self._held = ""
        self.found: str | None = None

    def push(self, text: str) -> str:
        """The text that is safe to show now: none of it is, or can still become, part of a stop string. After one was
        found there is none."""
        if self.found is not None:
            return ""
        if not self._stops:
            return text
        text = self._held + text
        places = [(at + len(stop), at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if places:
            _, safe, self.found = min(places)
            self._held = ""
        else:
            safe = len(text) - self._could_begin_one(text)
            self._held = text[safe:]
        return text[:safe]

    def flush(self) -> str:
        """The text that was held back, as it is no stop string after all."""
        held, self._held = self._held, ""
        return held

    def _could_begin_one(self, text: str) -> int:
        """How many characters at the end of `text` are the beginning of a stop string."""
        most = min(len(text), max(map(len, self._stops), default=1) - 1)
        return next((n for n in range(most, 0, -1) if any(stop.startswith(text[-n:]) for stop in self._stops)), 0)


class Searched(StopStrings):
    """Of a text that comes from where `strings` are looked for already."""

    def __init__(self, strings: StopStrings) -> None:
        super().__init__()
        self._strings = strings

    def push(self, text: str) -> str:
        self.found = self._strings.found
        return text
