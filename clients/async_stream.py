"""One request's tokens, as they come, for asyncio."""

from asyncio import Event, Future
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Any, Self

from ..protocol import YIELD, Frame, Item
from .errors import DaemonGone, Refused
from .received import Received, Token

Body = dict[str, Any]


class AsyncStream(Received):
    """`async for` gives token ids until the request ends, however it ends, and raises RequestFailed if it failed.

    Leaving an iteration before the end, and cancelling the task that is in it, cancels the request; so does leaving
    `async with stream`. `turn` and `some` leave the request alone. One task at a time may read a stream."""

    def __init__(self, req_id: int, post: Callable[[str], "Future[Body]"]) -> None:
        super().__init__(req_id)
        self._post = post
        self._arrived: deque[Item | DaemonGone] = deque()
        self._wake = Event()

    async def __aiter__(self) -> AsyncGenerator[int, None]:
        async with aclosing(self.tokens()) as tokens:
            async for token in tokens:
                yield token.id

    async def tokens(self) -> AsyncGenerator[Token, None]:
        """The tokens, each with the log probabilities that were told of it."""
        try:
            while some := await self.some():
                for token in some:
                    yield token
        finally:
            self.abandon()

    async def frames(self) -> AsyncGenerator[Frame, None]:
        """Every frame that is left: tokens, YIELD marks, and the terminal as the last one."""
        try:
            while not self._over:
                yield await self._next()
        finally:
            self.abandon()

    async def some(self) -> list[Token]:
        """All tokens that have come and were not read yet; waits until there is one. Empty after the end."""
        tokens: list[Token] = []
        while not tokens and not self._over and not self._problem:
            await self._arrival()
            while self._arrived:
                frame = self._read(self._arrived.popleft())
                if frame and frame.value >= 0:
                    tokens.append(self._token(frame))
        if self._problem and not tokens:
            raise self._problem
        return tokens

    async def turn(self) -> list[int]:
        """The tokens up to the next YIELD or the end (then `end` is set); empty after the end."""
        tokens: list[int] = []
        while not self._over and (frame := await self._next()).value != YIELD:
            if frame.value >= 0:
                tokens.append(frame.value)
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

    def abandon(self) -> None:
        """Cancels without waiting for the reply."""
        if self.live:
            with suppress(DaemonGone):
                self._post(f"CANCEL {self.req_id}")

    async def aclose(self) -> None:
        """Cancels, if the request is live, and reads to its end."""
        self.abandon()
        with suppress(Exception):
            while not self._over:
                await self._next()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def deliver(self, item: Item | DaemonGone) -> None:
        """For the client: takes what arrived for this request, or why nothing more will."""
        self._note(item)
        self._arrived.append(item)
        self._wake.set()

    async def _arrival(self) -> None:
        if not self._arrived:
            self._wake.clear()
            await self._wake.wait()

    async def _next(self) -> Frame:
        while self._problem is None:
            await self._arrival()
            if frame := self._read(self._arrived.popleft()):
                return frame
        raise self._problem
