"""The loop: lines in, replies out, a step, frames out. The only place where session, engine and boxes meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..protocol import BadLine, Item, PromptFile, Refusal, Start, parse
from .crash import CommandLog
from .engine import Engine, execute
from .inbox import AnyLine, Inbox
from .outbox import Outbox
from .prompts import read_prompt
from .session import Session

LINES_PER_STEP = 1024
"""So that a flood of lines cannot keep the requests from their steps."""


class Loop:
    def __init__(
        self,
        session: Session,
        engine: Engine,
        inbox: Inbox,
        outbox: Outbox,
        clock: Callable[[], float],
        commands: CommandLog,
    ) -> None:
        self._session = session
        self._engine = engine
        self._inbox = inbox
        self._outbox = outbox
        self._clock = clock
        self._commands = commands

    def run(self) -> None:
        """Until the session is done, a signal has come, or nobody reads the stream any more."""
        session, inbox, outbox, clock = self._session, self._inbox, self._outbox, self._clock
        idle = False
        while not session.done and inbox.gone is None:
            inbox.poll(wait=idle)
            if inbox.stop is not None:
                outbox.put(session.shutdown(clock()))
                return
            idle = not self._apply_lines()
            plan = None if outbox.stalled else session.next_step(clock())
            if plan is not None:
                outbox.put(session.finish(plan, execute(self._engine, plan, clock), clock()))
                idle = False

    def _apply_lines(self) -> bool:
        """What may be applied now. True if there is more of it."""
        session, inbox = self._session, self._inbox
        for _ in range(LINES_PER_STEP):
            if session.holding or session.input_ended or self._outbox.full:
                return False
            line = inbox.next_line()
            if line is not None:
                self._outbox.put(self.answer(line))
            elif inbox.ended:
                self._outbox.put(session.end_of_input(self._clock()))
            else:
                return False
        return True

    def answer(self, line: AnyLine) -> list[Item]:
        session = self._session
        self._commands.note(line)
        if isinstance(line, BadLine):
            return session.refuse(line.number, 0, line.code, line.error)
        req_id = 0
        try:
            command = parse(line.text)
            req_id = command.req_id
            if isinstance(command, Start) and isinstance(command.prompt, PromptFile):
                command = replace(command, prompt=read_prompt(command.prompt.path, session.limits.context))
        except Refusal as refusal:
            return session.refuse(line.number, refusal.req_id or req_id, refusal.code, refusal.error)
        return session.apply(command, line.number, self._clock())
