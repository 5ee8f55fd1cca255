"""Those who watch the loop: the trace and the log. They are shown steps and items, change nothing in the session, and
fail no request: only a TRACE may be refused.

While `on` is false nobody watches, and the loop makes no calls.
"""

from __future__ import annotations

from collections.abc import Callable

from ..protocol import Item, Refusal, Trace
from .plan import Plan, StepResult
from .request_log import RequestLog
from .sentences import reason_of, shorten
from .session import Session
from .timeline import Timeline
from .trace_file import TraceFile


class Observers:
    def __init__(self, log: Callable[[str], None] = lambda text: None, requests: RequestLog | None = None) -> None:
        self._log = log
        self._requests = requests
        self._trace: tuple[Timeline, TraceFile] | None = None
        self._lost: str | None = None  # why the last trace ended too early
        self._retried: str | None = None  # why the last failed step failed
        self.on = requests is not None

    def trace(self, command: Trace, session: Session, now: float) -> None:
        """Begins a trace or ends it. Raises Refusal."""
        if command.path is not None:
            self._begin(command.path, session, now)
        elif not self.close(now):
            raise Refusal("bad_argument", f"'off': {self._lost or 'no trace is on; expected TRACE on <path> first'}")

    def stepped(self, plan: Plan, results: list[StepResult], begun: float, ended: float) -> None:
        """Called before `saw` gets the items of the step."""
        if self._trace is not None:
            timeline, file = self._trace
            self._guard(file, lambda: file.add(timeline.step(plan, results, begun, ended), ended))

    def retried(self, cause: str, step: int) -> None:
        """A step failed as a whole and was computed row by row. A cause that stays the same is logged once."""
        if cause != self._retried:
            self._retried = cause
            self._log(f"paceline: step {step} failed ({cause}), and its rows were computed one by one")

    def saw(self, items: list[Item], now: float) -> None:
        if self._requests is not None:
            for line in self._requests.saw(items, now):
                self._log(line)
        if self._trace is not None:
            timeline, file = self._trace
            self._guard(file, lambda: file.add(timeline.saw(items, now), now))

    def flush(self) -> None:
        """Before the daemon sleeps."""
        if self._trace is not None:
            _, file = self._trace
            self._guard(file, file.flush)

    def close(self, now: float) -> bool:
        """Ends a trace; True if there was one and all of it was written."""
        if self._trace is None:
            return False
        timeline, file = self._trace
        self._guard(file, lambda: file.close(timeline.closing(now), now))
        self._forget_trace()
        return self._lost is None

    def _begin(self, path: str, session: Session, now: float) -> None:
        if self._trace is not None:
            raise Refusal(
                "bad_argument", f"'on': a trace to {shorten(self._trace[1].path)} is on; expected TRACE off first"
            )
        timeline = Timeline(session.info.model, session.limits.slots, session.counters.steps, now)
        try:
            file = TraceFile(path, timeline.opening(session.live.values()), now)
        except (OSError, ValueError) as error:
            raise Refusal(
                "bad_argument", f"path {shorten(path)}: {reason_of(error)}; expected a file that can be written"
            ) from None
        self._trace, self._lost, self.on = (timeline, file), None, True

    def _guard(self, file: TraceFile, write: Callable[[], None]) -> None:
        """A write error ends the trace, not the daemon."""
        try:
            write()
        except OSError as error:
            self._lost = f"the trace to {shorten(file.path)} has ended: {error.strerror}"
            self._log(f"paceline: {self._lost}")
            file.abandon()
            self._forget_trace()

    def _forget_trace(self) -> None:
        self._trace, self.on = None, self._requests is not None
