"""One answer's text: cut into pieces that may be sent, and those into reasoning, calls of tools and what is said."""

from collections.abc import Sequence

from .call_splitter import CallSplitter
from .channels import ChannelSplitter
from .cutter import Cutter, Delta, Likely
from .thinking import Splitter


class Voice:
    """`called` is whether it has called a tool."""

    def __init__(
        self, cutter: Cutter, thoughts: Splitter | ChannelSplitter | None = None, calls: CallSplitter | None = None
    ) -> None:
        self._cutter = cutter
        self._thoughts = thoughts
        self._calls = calls
        self.called = False

    @property
    def stopped(self) -> str | None:
        """The stop string that ended it."""
        return self._cutter.stopped

    @property
    def done(self) -> bool:
        """Nothing more is to come."""
        thoughts, calls = self._thoughts, self._calls
        return self.stopped is not None or bool((thoughts and thoughts.done) or (calls and calls.done))

    @property
    def thinking(self) -> bool:
        return self._thoughts is not None and self._thoughts.thinking

    def push(self, token: int, likely: Likely | None) -> Sequence[Delta]:
        delta = self._cutter.push(token, likely)
        if not self._thoughts and not self._calls:  # most answers, and each of their tokens comes here
            return (delta,)
        parts = self._thoughts.push(delta) if self._thoughts else [delta]
        return self._noted([part for one in parts for part in self._calls.push(one)] if self._calls else parts)

    def finish(self) -> Sequence[Delta]:
        """The rest, when the answer has ended; after a stop string there is nothing left in the cutter."""
        delta = Delta("") if self.stopped is not None else self._cutter.finish()
        parts = self._thoughts.finish(delta) if self._thoughts else [delta]
        if self._calls:
            parts = [*(part for one in parts for part in self._calls.push(one)), *self._calls.finish(Delta(""))]
        return self._noted(parts)

    def _noted(self, parts: Sequence[Delta]) -> Sequence[Delta]:
        self.called = self.called or any(part.call for part in parts)
        return parts
