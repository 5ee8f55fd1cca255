"""What a line gives: it is parsed, the files that it names are read or written, and the session applies the command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..protocol import (
    BadLine,
    Command,
    Item,
    Line,
    Load,
    PromptFile,
    Refusal,
    Restore,
    RestoreChain,
    Save,
    Start,
    Trace,
    request_tag,
)
from .engine import Engine
from .execution import execute
from .inbox import AnyLine
from .observers import Observers
from .prompts import read_prompt
from .saved import Loaded
from .session import Session
from .snapshot_files import read_snapshot, take_out, write_snapshot


class Answers:
    def __init__(
        self,
        session: Session,
        engine: Engine,
        clock: Callable[[], float],
        observers: Observers,
        parse: Callable[[Line], Command],
    ) -> None:
        self._session = session
        self._engine = engine
        self._clock = clock
        self._observers = observers
        self._parse = parse

    def answer(self, line: AnyLine) -> tuple[list[Item], float]:
        """The items that follow from it, and when it was applied."""
        session = self._session
        if isinstance(line, BadLine):
            return session.refuse(line.number, line.req_id, line.code, line.error), self._clock()
        req_id = 0
        try:
            command = self._parsed(line)
            req_id = command.req_id
            read = self._read(command)
        except Refusal as refusal:
            return session.refuse(line.number, refusal.req_id or req_id, refusal.code, refusal.error), self._clock()
        now = self._clock()
        items = session.apply(read, line.number, now)
        if isinstance(read, Loaded):
            self.move()  # at once: many files read between two steps would fill the memory
        return items, now

    def refused(self, line: AnyLine, code: str, error: str) -> list[Item]:
        """The refusal of a line, whatever it says."""
        return self._session.refuse(line.number, self._tag(line), code, error)

    def move(self) -> None:
        """Carries out what is to be done to pages and states, without waiting for a step."""
        plan, begun = self._session.moves(), self._clock()
        results = execute(self._engine, plan, self._clock)
        if plan.moves and self._observers.on:
            self._observers.stepped(plan, results, begun, self._clock())

    def _parsed(self, line: Line) -> Command:
        try:
            return self._parse(line)
        except MemoryError:  # a prompt takes many times its line
            raise Refusal("kv_budget", "too little memory for this line", request_tag(line.text)) from None

    def _tag(self, line: AnyLine) -> int:
        if isinstance(line, BadLine):
            return line.req_id
        try:
            return self._parsed(line).req_id
        except Refusal as refusal:
            return refusal.req_id

    def _read(self, command: Command) -> Command | Loaded:
        """The files that a command names are read and written here, so that the session need not."""
        session = self._session
        match command:
            case Start(PromptFile(path)) | Restore(_, PromptFile(path)) | RestoreChain(_, _, PromptFile(path)):
                return replace(command, prompt=read_prompt(path, session.limits.context))
            case Save(name, path):
                self._save(name, path)
            case Load(name, path):
                return Loaded(name, read_snapshot(path, session.info, session.limits), req_id=command.req_id)
            case Trace():
                self._observers.trace(command, session, self._clock())
        return command

    def _save(self, name: str, path: str) -> None:
        """The file is complete before the reply is made."""
        snapshot = self._session.lifecycle.cache.snapshots.find(name)
        self.move()
        write_snapshot(path, take_out(snapshot, self._engine), self._session.info)
