"""Answers as iterators: of pieces for a thread, and for asyncio."""

from collections.abc import AsyncGenerator
from contextlib import suppress
from threading import Thread
from typing import Self

from .answer import Answer, Piece
from .async_stream import AsyncStream
from .detokenizer import Detokenizer
from .errors import DaemonGone, Refused, RequestFailed
from .stop_strings import StopStrings
from .stream import Stream


class Generation(Answer):
    """An iterator of pieces. `close`, leaving `with`, and dropping it before its end cancel the request."""

    def __init__(self, stream: Stream, decoder: Detokenizer | None, strings: StopStrings) -> None:
        super().__init__(stream, decoder, strings)
        self.stream = stream
        self._tokens = stream.tokens()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Piece:
        for token in self._tokens:
            if piece := self._said(token):
                if self.stop_string is not None:
                    self.stream.cancel()
                return piece
        if rest := self._rest():
            return rest
        raise StopIteration

    def close(self) -> None:
        """Cancels, if the request is live, and reads to its end."""
        with suppress(DaemonGone, Refused, RequestFailed):
            self.stream.cancel()
            for _ in self._tokens:
                pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # This may run anywhere, also in the middle of a write, and must not wait for a lock: hence a thread.
        if self.stream.live:
            with suppress(RuntimeError):
                Thread(target=_leave, args=(self.stream,), daemon=True).start()


class AsyncGeneration(Answer):
    """An asynchronous iterable of pieces. `aclose`, leaving `async with` or an iteration, and cancelling the task that
    iterates cancel the request."""

    def __init__(self, stream: AsyncStream, decoder: Detokenizer | None, strings: StopStrings) -> None:
        super().__init__(stream, decoder, strings)
        self.stream = stream

    async def __aiter__(self) -> AsyncGenerator[Piece, None]:
        try:
            while pieces := await self.some():
                for piece in pieces:
                    yield piece
        finally:
            self.stream.abandon()

    async def some(self) -> list[Piece]:
        """All pieces that are there; waits until there is one. Empty after the end."""
        while tokens := await self.stream.some():
            pieces = [piece for token in tokens if (piece := self._said(token))]
            if self.stop_string is not None:
                self.stream.abandon()
            if pieces:
                return pieces
        rest = self._rest()
        return [rest] if rest else []

    async def aclose(self) -> None:
        """Cancels, if the request is live, and reads to its end."""
        await self.stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _leave(stream: Stream) -> None:
    with suppress(DaemonGone, Refused):
        stream.cancel()
