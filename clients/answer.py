"""What generate returns: the pieces of an answer, for asyncio and for threads, and in the end how it ended."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Generic, NamedTuple, Self, TypeVar

from .detokenizer import Decoder
from .stop_strings import StopStrings
from .stream import AsyncStream, Stream, Token

Prompt = str | Sequence[int] | Sequence[Mapping[str, Any]]  # a text, ids, or chat messages
Stops = str | Sequence[str | int]  # strings and token ids
S = TypeVar("S", bound=AsyncStream | Stream)


class Piece(NamedTuple):
    """One token, and the text that is safe to show since the last one: whole characters, and nothing that may still be
    part of a stop string. `logprob` and `top` (pairs of id and log probability) are set if `logprobs` was asked for.
    The last piece may be text that was held back; its token is None."""

    token: int | None
    text: str
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


class Answer(Generic[S]):
    """`stop_string` is the one that ended it, if any."""

    def __init__(self, stream: S, decoder: Decoder | None, strings: StopStrings) -> None:
        self.stream = stream
        self.decoder = decoder
        self.strings = strings

    @property
    def finish_reason(self) -> str | None:
        """eos, stop (a token or a string), length, cancelled or failed; None until the end was read."""
        end = self.stream.end
        return None if end is None else "stop" if self.stop_string is not None else str(end["reason"])

    @property
    def stop_string(self) -> str | None:
        return self.strings.found

    @property
    def usage(self) -> dict[str, int]:
        """prompt_tokens, tokens (what was emitted) and cached_tokens; empty until the end was read."""
        return self._of_end("prompt_tokens", "tokens", "cached_tokens")

    @property
    def timings(self) -> dict[str, float | None]:
        """queue_ms, ttft_ms, and prompt_tps and tps in tokens per second; empty until the end was read."""
        return self._of_end("queue_ms", "ttft_ms", "prompt_tps", "tps")

    def _of_end(self, *names: str) -> dict[str, Any]:
        end = self.stream.end or {}
        return {name: end[name] for name in names if name in end}

    def _said(self, token: Token) -> Piece | None:
        """None for what comes after a stop string; the piece that completes one is the last, and cancels the
        request."""
        if self.stop_string is not None:
            return None
        text = self.strings.push(self.decoder.push(token.id)) if self.decoder else ""
        if self.stop_string is not None:
            self.stream.abandon()
        told = token.logprobs or {}
        return Piece(token.id, text, told.get("logprob"), tuple((one, chance) for one, chance in told.get("top", ())))

    def _rest(self) -> Piece | None:
        """The text that was still held back at the end; None if asked again."""
        text = self.strings.push(self.decoder.flush() if self.decoder else "") + self.strings.flush()
        return Piece(None, text) if text else None


class Generation(Answer[Stream]):
    """An iterator of pieces. `close`, leaving `with`, and dropping it before its end cancel the request."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Piece:
        for token in self.stream.tokens():
            if piece := self._said(token):
                return piece
        if rest := self._rest():
            return rest
        raise StopIteration

    def close(self) -> None:
        """Cancels, if the request is live, and reads to its end."""
        self.stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.stream.abandon()


class AsyncGeneration(Answer[AsyncStream]):
    """An asynchronous iterable of pieces. `aclose`, leaving `async with` or an iteration, and cancelling the task that
    iterates cancel the request."""

    async def __aiter__(self) -> AsyncGenerator[Piece, None]:
        async with aclosing(self.stream.tokens()) as tokens:
            async for token in tokens:
                if piece := self._said(token):
                    yield piece
        if rest := self._rest():
            yield rest

    async def aclose(self) -> None:
        """Cancels, if the request is live, and reads to its end."""
        await self.stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
