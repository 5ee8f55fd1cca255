"""One answer's text: cut into pieces that may be sent, and those into reasoning and the answer itself."""

from collections.abc import Sequence

from .channels import ChannelSplitter
from .cutter import Cutter, Delta, Likely
from .thinking import Splitter


class Voice:
    def __init__(self, cutter: Cutter, splitter: Splitter | ChannelSplitter | None) -> None:
        self._cutter = cutter
        self._splitter = splitter

    @property
    def stopped(self) -> str | None:
        return self._cutter.stopped

    @property
    def thinking(self) -> bool:
        return self._splitter is not None and self._splitter.thinking

    def push(self, token: int, likely: Likely | None) -> Sequence[Delta]:
        delta = self._cutter.push(token, likely)
        return self._splitter.push(delta) if self._splitter else (delta,)

    def finish(self) -> Sequence[Delta]:
        """The rest, when the answer has ended; after a stop string there is nothing left in the cutter."""
        delta = Delta("") if self.stopped is not None else self._cutter.finish()
        return self._splitter.finish(delta) if self._splitter else (delta,)
