"""One request's tokens, as they come: for asyncio, and for a thread."""

from asyncio import Event, Future
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, suppress
from typing import Any, NamedTuple, Self

from ..protocol import FAILED, TERMINALS, YIELD, Frame, Item, Message
from .desk import Body
from .errors import DaemonGone, Refused, RequestFailed
from .loop_thread import LoopThread

Post = Callable[[str], "Future[Body]"]


class Token(NamedTuple):
    """`logprobs` is the event that came before the token, None unless START asked for it."""

    id: int
    logprobs: Body | None


class AsyncStream:
    """`async for` gives token ids until the request ends, however it ends, and raises RequestFailed if it failed.

    Leaving an iteration before the end, and cancelling the task that is in it, cancels the request; so does leaving
    `async with stream`. `turn` and `some` leave the request alone. One task at a time may read a stream.

    `reply` is the answer to its START; `end` is the end event, None until the terminal was read; `events` are the
    others, without the log probabilities, which `tokens` and `some` give; `live` is False as soon as the terminal has
    come, read or not."""

    def __init__(self, req_id: int, post: Post) -> None:
        self.req_id = req_id
        self.reply: Body = {}
        self.end: Body | None = None
        self.events: list[Body] = []
        self.live = True
        self.over = False  # the terminal was read
        self._post = post
        self._arrived: deque[Item | DaemonGone] = deque()
        self._arrival = Event()
        self._logprobs: Body | None = None  # of the next token
        self._problem: Exception | None = None
        self._ends_come = self._ends_read = 0  # of turns; the one is the desk's, the other the reader's

    def deliver(self, item: Item | DaemonGone) -> None:
        """For the desk: called when an item comes, perhaps long before it is read."""
        if isinstance(item, DaemonGone) or (isinstance(item, Frame) and item.value in TERMINALS):
            self.live = False
        self._ends_come += _ends_turn(item)
        self._arrived.append(item)
        self._arrival.set()

    def abandon(self) -> None:
        """Cancels without waiting for the reply."""
        if self.live:
            with suppress(DaemonGone):
                self._post(f"CANCEL {self.req_id}")

    async def __aiter__(self) -> AsyncGenerator[int, None]:
        async with aclosing(self.tokens()) as tokens:
            async for token in tokens:
                yield token.id

    async def tokens(self) -> AsyncGenerator[Token, None]:
        """The tokens, each with the log probabilities that came with it."""
        async with aclosing(self.frames()) as frames:
            async for frame in frames:
                if frame.value >= 0:
                    yield self.token(frame)

    async def frames(self) -> AsyncGenerator[Frame, None]:
        """Every frame that is left: tokens, YIELD marks, and the terminal as the last one."""
        try:
            while not self.over:
                yield await self.next()
        finally:
            self.abandon()

    async def some(self) -> list[Token]:
        """All tokens that have come and were not read yet; waits until there is one. Empty after the end."""
        tokens: list[Token] = []
        while not tokens and not self.over:
            frame: Frame | None = await self.next()
            while frame:
                tokens += [self.token(frame)] if frame.value >= 0 else []
                frame = self.read()
        return tokens

    async def turn(self) -> list[int]:
        """The tokens up to the next YIELD or the end (then `end` is set); empty after the end. If it is cancelled while
        it waits, they are still there to be read."""
        tokens: list[int] = []
        while not self.over and self._ends_come == self._ends_read:
            await self.more()
        while not self.over and (frame := await self.next()).value != YIELD:
            tokens += [frame.value] if frame.value >= 0 else []
        return tokens

    async def proceed(self, count: int) -> Body:
        """Grants the request `count` more tokens of its total; raises Refused."""
        return await self._post(f"REQ {self.req_id} CONTINUE {count}")

    async def cancel(self) -> bool:
        """Ends the request before the daemon's next step; what was emitted before still comes. False: it had ended
        already."""
        try:
            if self.live:
                await self._post(f"CANCEL {self.req_id}")
                return True
        except Refused as refused:
            if refused.code != "not_active":
                raise
        return False

    async def aclose(self) -> None:
        """Cancels, if the request is live, and reads to its end."""
        self.abandon()
        with suppress(DaemonGone, RequestFailed):
            while not self.over:
                await self.next()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def next(self) -> Frame:
        """Waits for the next frame; if there is none, raises what ended the stream."""
        while (frame := self.read()) is None:
            await self.more()
        return frame

    async def more(self) -> None:
        """Waits until something has come since the last call; if nothing will, raises what ended the stream."""
        if self._problem:
            self.over = isinstance(self._problem, RequestFailed)  # which is told once
            raise self._problem.with_traceback(None)
        await self._arrival.wait()
        self._arrival.clear()

    def read(self) -> Frame | None:
        """The next frame that is to be seen, if one is there."""
        while self._arrived:
            item = self._arrived.popleft()
            self._ends_read += _ends_turn(item)
            match item:
                case Frame(value=value) as frame:
                    if value != FAILED:
                        self.over = value in TERMINALS
                        return frame
                    end = self.end or {}
                    self._problem = RequestFailed(end.get("code", "failed"), end.get("error", "no reason was given"))
                case Message(body={"event": "end"} as body):
                    self.end = body
                case Message(body={"event": "logprobs"} as body):
                    self._logprobs = body  # not kept: of a long answer they are megabytes
                case Message(body=body):
                    self.events.append(body)
                case DaemonGone() as gone:
                    self._problem = gone
        return None

    def token(self, frame: Frame) -> Token:
        """The token of a frame that was just read."""
        logprobs, self._logprobs = self._logprobs, None
        return Token(frame.value, logprobs)


def _ends_turn(item: Item | DaemonGone) -> bool:
    return isinstance(item, DaemonGone) or (
        isinstance(item, Frame) and (item.value == YIELD or item.value in TERMINALS)
    )


class Stream:
    """An AsyncStream for threads: iterating gives token ids until the request ends, and raises RequestFailed if it
    failed. Leaving an iteration leaves the request alone; leaving `with stream` cancels it.

    A request that is parked (its grant is spent and nobody regrants) makes an iteration wait: `turn` and
    `frames` show when that is so. One thread at a time may read a stream; each stream may have its own."""

    req_id: int
    reply: Body
    end: Body | None
    events: list[Body]
    live: bool

    def __init__(self, stream: AsyncStream, thread: LoopThread) -> None:
        self._stream = stream
        self._thread = thread

    def __getattr__(self, name: str) -> Any:
        if name in Stream.__annotations__:
            return getattr(self._stream, name)
        raise AttributeError(f"a Stream has no attribute {name!r}")

    def __iter__(self) -> Iterator[int]:
        return (frame.value for frame in self.frames() if frame.value >= 0)

    def tokens(self) -> Iterator[Token]:
        """The tokens, each with the log probabilities that came with it."""
        return (self._stream.token(frame) for frame in self.frames() if frame.value >= 0)

    def frames(self) -> Iterator[Frame]:
        """Every frame that is left: tokens, YIELD marks, and the terminal as the last one."""
        while not self._stream.over:
            while (frame := self._stream.read()) is None:  # read here: an interrupted wait takes no frame along
                self._thread.call(self._stream.more())
            yield frame

    def turn(self) -> list[int]:
        """The tokens up to the next YIELD or the end (then `end` is set); empty after the end."""
        return self._thread.call(self._stream.turn())

    def proceed(self, count: int) -> Body:
        """Grants the request `count` more tokens of its total; raises Refused."""
        return self._thread.call(self._stream.proceed(count))

    def cancel(self) -> bool:
        """Ends the request before the daemon's next step; what was emitted before still comes. False: it had ended
        already."""
        return self._thread.call(self._stream.cancel())

    def abandon(self) -> None:
        """Cancels without waiting for anything."""
        self._thread.later(self._stream.abandon)

    def close(self) -> None:
        """Cancels, if the request is live, and reads to its end."""
        self._thread.call(self._stream.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
