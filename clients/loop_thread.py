"""An event loop in a thread of its own, for callers that have none."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, TypeVar
from weakref import finalize

T = TypeVar("T")
LATE_SECONDS = 5.0


class LoopThread:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._open = True
        self._asking = Lock()  # whoever asked before the end gets an answer
        self._thread = Thread(target=_run, args=[self._loop], name="paceline client", daemon=True)  # it holds no `self`
        self._thread.start()

    def when_dropped(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Once nobody refers to this object any more, the loop does this work, which must not refer to it either, and
        ends. When the interpreter exits, nothing of this is done."""
        finalize(self, _end, self._loop, work).atexit = False

    def call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """The result of `work`, or TimeoutError; work that nobody waits for any more is cancelled. After `close`, when
        nothing can take long any more, it runs in a loop of its own."""
        if os.getpid() != self._process:  # a fork lacks its parent's threads, and would wait for ever
            work.close()
            raise RuntimeError("this client belongs to the process that made it: expected one made after the fork")
        with self._asking:
            asked = asyncio.run_coroutine_threadsafe(work, self._loop) if self._open else None
        if asked is None:
            return _run_apart(work)
        try:
            return asked.result(timeout)
        finally:
            asked.cancel()

    def later(self, callback: Callable[[], object]) -> None:
        """Never blocks, not even on a lock: for finalizers."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(callback)

    def close(self) -> None:
        with self._asking:
            self._open = False
        self.later(self._loop.stop)
        self._thread.join()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    while tasks := asyncio.all_tasks(loop):
        _, late = loop.run_until_complete(asyncio.wait(tasks, timeout=LATE_SECONDS))
        for task in late:
            task.cancel()
    loop.close()


def _end(loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Never blocks, not even on a lock: garbage collection may run in the middle of anything, on the loop's thread
    too."""

    async def last() -> None:
        try:
            await work()
        finally:
            loop.stop()

    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(lambda: loop.create_task(last()))


def _run_apart(work: Coroutine[Any, Any, T]) -> T:
    """In a thread of its own, since the caller's may have a running loop, as a notebook's has."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(asyncio.run(work))
        except BaseException as problem:
            done.set_exception(problem)

    Thread(target=run, daemon=True).start()
    return done.result()
