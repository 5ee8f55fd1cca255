"""The loop: lines in, replies out, a step, frames out. The only place where session, engine, inbox and outbox meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from ..protocol import Command, Item, Line, Message, parse
from .answers import Answers
from .crash import CommandLog
from .engine import Engine
from .execution import execute
from .idle_check import IdleCheck
from .inbox import AnyLine, Inbox
from .observers import Observers
from .outbox import Outbox
from .plan import PlanKind
from .session import Session

LINES_PER_STEP = 1024
"""So that a flood of lines cannot keep the requests from their steps."""

MOST_MOVES = 64
"""Moves that may wait for the next step: each may hold the ids of a whole context."""

LAST_SECONDS, QUIET_SECONDS = 1.0, 0.1
"""After a fatal error: how long later lines are still answered, and after how much silence no more are expected."""


class Loop:
    def __init__(
        self,
        session: Session,
        engine: Engine,
        inbox: Inbox,
        outbox: Outbox,
        clock: Callable[[], float],
        commands: CommandLog,
        observers: Observers | None = None,
        parse: Callable[[Line], Command] = lambda line: parse(line.text),
        give_back: Callable[[], object] = lambda: None,
    ) -> None:
        self._session = session
        self._engine = engine
        self._inbox = inbox
        self._outbox = outbox
        self._clock = clock
        self._commands = commands
        self._idle_check = IdleCheck()
        self._give_back = give_back
        self._observers = observers or Observers()
        self._answers = Answers(session, engine, clock, self._observers, parse)
        self._untold: tuple[list[Item], float] | None = None  # items of the last step, and when it ended
        self._at_hand: AnyLine | None = None  # the line whose reply is not made yet
        self._broken: Exception | None = None  # raised by `_tell` while a device computed
        self._left = LINES_PER_STEP  # lines that may be applied before the next step
        self._elsewhere = engine.meanwhile(self._tell_meanwhile)

    def run(self) -> None:
        """Runs until the session is done, a signal has come, or nobody reads the stream any more."""
        session, inbox, outbox, clock, observers = (
            self._session,
            self._inbox,
            self._outbox,
            self._clock,
            self._observers,
        )
        idle = False
        while not session.done and inbox.gone is None:
            until_check = None
            if idle:
                until_check = self._check()
                if observers.on:
                    observers.flush()
            if not inbox.poll(wait=idle, timeout=until_check):
                continue
            self._idle_check.want()
            if inbox.stop is not None:
                now = clock()
                self.put(session.shutdown(now), now)
                return
            idle = not self._apply_lines()
            begun = clock()
            plan = None if outbox.stalled else session.next_step(begun)
            if plan is None or plan.kind is PlanKind.STEP:  # not a plan that a line has asked for
                self._left = LINES_PER_STEP
            if plan is None:
                self._tell()
                continue
            results = execute(self._engine, plan, clock)
            ended = clock()
            if self._broken is not None:
                raise self._broken
            self._tell()  # unless that was done during the step
            if plan.kind is not PlanKind.PROBE:  # a probe is no step, and its reply holds its errors
                for step, result in enumerate(results, session.counters.steps + 1):
                    if result.retried is not None:
                        observers.retried(result.retried, step)
            if observers.on:
                observers.stepped(plan, results, begun, ended)
            self._untold = session.finish(plan, results, ended), ended
            if not self._elsewhere:
                self._tell()
            idle = False
        self._tell()

    def fail(self, error: str, code: str) -> None:
        """After a fatal error: every request ends FAILED, the line at hand and those that wait are refused."""
        now, ended = self._clock(), self._session.input_ended
        items = self._session.fail_all(error, now, code)
        at_hand = self._at_hand
        begun = [] if at_hand is None or _replied(items, at_hand.number) else [at_hand]
        self.put(items, now)  # before anything that may break again
        for line in chain(begun, () if ended else self._rest(now + LAST_SECONDS)):
            self.put(self._answers.refused(line, code, error), now)

    def _rest(self, until: float) -> Iterator[AnyLine]:
        """The lines that wait, and those that follow them, as long as somebody may read the replies."""
        inbox, more = self._inbox, True
        inbox.poll(wait=False)
        while more:
            while (line := inbox.next_line()) is not None:
                yield line
            if inbox.ended or inbox.gone or inbox.stop is not None or self._outbox.full or self._clock() >= until:
                return
            more = inbox.poll(wait=True, timeout=QUIET_SECONDS)

    def put(self, items: list[Item], now: float) -> None:
        """Puts items into the stream, behind those of the last step, and shows them to the observers."""
        self._tell()
        self._put(items, now)

    def _put(self, items: list[Item], now: float) -> None:
        self._outbox.put(items)
        if self._observers.on:
            self._observers.saw(items, now)

    def _tell(self) -> None:
        """Puts what the last step gave. Where a device computes, this is done while it computes the next."""
        untold, self._untold = self._untold, None
        if untold is not None:
            self._put(*untold)

    def _tell_meanwhile(self) -> None:
        """Called within an engine's step, where an exception would be taken for a failure of its rows."""
        try:
            self._tell()
        except Exception as error:
            self._broken = error

    def _check(self) -> float | None:
        """Checks the invariants and returns freed memory, if that is due and there is nothing else to do. In how many
        seconds it will be due, if it is not yet."""
        wait = self._idle_check.wait(self._clock())
        if wait == 0.0 and not self._inbox.waiting:
            self._session.check()
            self._give_back()
            self._idle_check.made(self._clock())
            return None
        return wait

    def _apply_lines(self) -> bool:
        """Applies the lines that may be applied now. True if there are more of them."""
        session, inbox = self._session, self._inbox
        while not inbox.leaving.is_set():
            if session.idle:  # no request is waiting for a step
                self._left = LINES_PER_STEP
            if session.holding or session.input_ended or self._outbox.full:
                return False
            if not self._left:
                return True
            line = inbox.next_line()
            if line is not None:
                self._left -= 1
                self.put(*self.answer(line))
                if len(session.lifecycle.cache.moves) > MOST_MOVES:
                    self._answers.move()
            elif inbox.ended:
                now = self._clock()
                self.put(session.end_of_input(now), now)
            else:
                return False
        return True

    def answer(self, line: AnyLine) -> tuple[list[Item], float]:
        """What a line gives, and when it was applied: observers measure from the same moment as the session."""
        self._at_hand = line
        self._tell()
        self._commands.note(line)
        answer = self._answers.answer(line)
        self._at_hand = None
        return answer


def _replied(items: list[Item], line: int) -> bool:
    return any(isinstance(item, Message) and item.body.get("re") == line for item in items)
