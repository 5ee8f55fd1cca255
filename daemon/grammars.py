"""Grammars of outputs, from the daemon's side: a process of its own compiles and follows them (grammar_worker.py).

It is started for the first grammar, and told what the model's tokens stand for; that takes about a second where there
are 150,000. One that does not answer in time, or dies, is replaced, and outputs that are not at fault go on in the next
one: it reads again what they have been given so far. So a grammar that takes too much ends one request.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from multiprocessing.connection import Connection
from typing import Any, Final
from weakref import finalize

from ..protocol import Grammar, Refusal
from .constraints import NO_TEXTS, Ahead, Given, Stuck
from .engine import Engine
from .grammar_worker import BEGIN, FOLLOW, FORGET

SECONDS: Final = 2.0
"""For an answer; a usual one takes a millisecond."""

READING_SECONDS: Final = 60.0
LONGEST: Final = 1 << 18  # characters of a grammar
KILLERS: Final = 16
PLACE: Final = re.compile(r"^(at )?\d+\(\d+\): ")  # means something only where we have not written what is around it
TOO_MUCH: Final = "the grammar takes too much time or memory"


class WorkerLost(Exception):
    """It has died, or did not answer in time and was killed."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Output:
    """A request's output in a grammar: what it has been given so far, and the worker that knows."""

    key: int
    lark: str
    ends: tuple[int, ...]
    tokens: list[int] = field(default_factory=list)
    looks_ahead: bool = True  # until a worker was lost over it, or over one beside it
    worker: Worker | None = None


class Worker:
    """Raises Refusal if it cannot be had."""

    def __init__(self, vocabulary: tuple[Sequence[bytes], Collection[int], int], seconds: float) -> None:
        self._seconds = seconds
        self._forgotten: list[int] = []
        try:
            ours, theirs = socket.socketpair()
            self._connection = Connection(ours.detach())
            command = [sys.executable, "-m", f"{__package__}.grammar_worker", str(theirs.fileno())]
            null = subprocess.DEVNULL
            with theirs:
                self._process = subprocess.Popen(
                    command, pass_fds=[theirs.fileno()], stdin=null, stdout=null, stderr=null, start_new_session=True
                )
        except OSError as error:
            raise Refusal("unsupported", f"grammar: their process does not start ({error.strerror})") from None
        try:
            problem = self._answer(vocabulary, READING_SECONDS)
        except (EOFError, OSError):
            problem = "their process does not start"
        if problem is not None:
            self.kill()
            raise Refusal("unsupported", f"grammar: {problem}")

    def ask(self, message: tuple[Any, ...]) -> Any:
        """Raises WorkerLost."""
        try:
            if self._forgotten:
                forgotten, self._forgotten = self._forgotten, []
                self._answer((FORGET, forgotten), self._seconds)
            return self._answer(message, self._seconds)
        except (EOFError, OSError):
            self.kill()
            raise WorkerLost from None

    def forget(self, key: int) -> None:
        """With the next question. May be called at any time."""
        self._forgotten.append(key)

    def kill(self) -> None:
        self._connection.close()
        self._process.kill()
        self._process.wait()

    def _answer(self, message: tuple[Any, ...], seconds: float) -> Any:
        self._connection.send(message)
        if not self._connection.poll(seconds):
            raise OSError
        return self._connection.recv()


class TextGrammars:
    """For one engine. With several `threads`, outputs are looked at side by side. That is for steps on a device: where
    this processor computes them, threads that wait for the next one would be disturbed."""

    def __init__(self, engine: Engine, threads: int = 1, seconds: float = SECONDS) -> None:
        self._engine = engine
        self._threads = threads
        self._seconds = seconds
        self._vocabulary: tuple[list[bytes], list[int]] | None = None
        self._worker: Worker | None = None
        self._keys = count()
        self._killers: deque[str] = deque(maxlen=KILLERS)  # so that each stops the others once

    def begin(self, grammar: Grammar, ends: Collection[int]) -> tuple[Output, bytes]:
        if len(grammar.text) > LONGEST:
            raise Refusal("bad_argument", f"grammar: has {len(grammar.text)} characters, expected at most {LONGEST}")
        try:
            lark = grammar.text if grammar.kind == "lark" else f"start: {grammar.rule}"
        except RecursionError:
            raise Refusal("bad_argument", "grammar: its schema is nested too deep") from None
        if lark in self._killers:
            raise Refusal("bad_argument", f"grammar: {TOO_MUCH}")
        output = Output(next(self._keys), lark, tuple(ends))
        try:
            found = self._restored(output)
        except WorkerLost:
            self._killers.append(lark)
            raise Refusal("bad_argument", f"grammar: {TOO_MUCH}") from None
        if isinstance(found, str):
            reason = found if grammar.kind == "lark" else PLACE.sub("", found)
            raise Refusal("bad_argument", f"grammar: {reason}")
        return output, found

    def follow(self, given: Sequence[Given]) -> Sequence[Ahead | Stuck]:
        for output, tokens, _, _ in given:
            output.tokens += tokens
        worker = self._worker
        if worker is not None and all(one.constraint.worker is worker for one in given):
            with suppress(WorkerLost):
                asked = [
                    (one.constraint.key, one.tokens, one.guess, one.most * one.constraint.looks_ahead) for one in given
                ]
                found = worker.ask((FOLLOW, asked))
                return [Stuck(one) if isinstance(one, str) else Ahead(*one) for one in found]
            self._worker = None
            for one in given:
                one.constraint.looks_ahead = False
        return [self._alone(one.constraint) for one in given]

    def close(self) -> None:
        if self._worker is not None:
            self._worker.kill()

    def _alone(self, output: Output) -> Ahead | Stuck:
        """In another worker, as the last one was lost; with nothing ahead, which may be why."""
        try:
            found = self._restored(output)
        except WorkerLost:
            return Stuck(TOO_MUCH)
        except Refusal as refusal:
            return Stuck(refusal.error)
        return Stuck(found) if isinstance(found, str) else Ahead((found,))

    def _restored(self, output: Output) -> bytes | str:
        """What it may be given next, all that it has been given being read by the worker of now. Raises WorkerLost."""
        worker = self._worker = self._worker or self._started()
        output.worker = worker
        finalize(output, worker.forget, output.key)
        try:
            found = worker.ask((BEGIN, output.key, output.lark, output.ends))
            for token in output.tokens:
                (found,) = worker.ask((FOLLOW, [(output.key, [token], (), 0)]))
                if isinstance(found, str):
                    break
                found = found[0][0]
            return found  # type: ignore[no-any-return]
        except WorkerLost:
            self._worker = None
            raise

    def _started(self) -> Worker:
        if self._vocabulary is None:
            pieces = self._engine.pieces()
            if pieces is None:
                raise Refusal("unsupported", NO_TEXTS)
            vocab = self._engine.info.vocab
            texts = [*pieces.texts[:vocab], *[b""] * (vocab - len(pieces.texts))]
            self._vocabulary = texts, [sign for sign in pieces.signs if sign < vocab]
        return Worker((*self._vocabulary, self._threads), self._seconds)
