"""One HTTP request's answers, as they are generated side by side.

Whatever happens to the request (its reader gone, too slow, or served) its streams are abandoned at the end: an answer
that is still live then is cancelled before the daemon's next step, and nobody else's."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Final, NamedTuple

from ..async_stream import AsyncStream
from ..errors import DaemonGone, Refused, RequestFailed
from ..received import Token
from .asked import Asked
from .cutter import Cutter, Delta, Likely
from .engine import Engine
from .openai_answers import Counts
from .refused import HttpRefused, refused_by_engine, wrong

MOST_UNSENT: Final = 4096  # pieces that wait for a slow reader


class Ended(NamedTuple):
    """`reason` is the daemon's: eos, stop or length; `stopped` the stop string that ended it."""

    reason: str
    stopped: str | None


class News(NamedTuple):
    """Of the answer of this number."""

    number: int
    what: Delta | Ended


class Run:
    def __init__(
        self, streams: Sequence[AsyncStream], cutters: Sequence[Cutter], prompt_tokens: int, n: int = 1
    ) -> None:
        self._streams = streams
        self._n = n
        self._cutters = cutters
        self._prompt_tokens = prompt_tokens
        self._tokens = 0
        self._cached = 0
        self._unsent: list[News] = []
        self._wake = asyncio.Event()
        self._problem: HttpRefused | None = None

    @classmethod
    async def start(cls, engine: Engine, asked: Asked) -> "Run":
        """When the daemon has taken every answer; raises HttpRefused, and then none is left behind."""
        engine.check()
        prompts = [await asyncio.to_thread(engine.texts.ids, prompt) for prompt in asked.prompts]
        if not all(prompts):
            raise wrong("prompt", "is empty, expected at least one token")
        streams: list[AsyncStream] = []
        try:
            for number in range(len(prompts) * asked.n):
                ids = prompts[number // asked.n]
                total = asked.most or max(1, engine.info["context"] - len(ids))
                streams.append(await engine.client.start(ids, total, **asked.start_options(number)))
        except BaseException as problem:
            for stream in streams:
                stream.abandon()
            if isinstance(problem, Refused | DaemonGone):
                raise refused_by_engine(problem) from None
            raise
        cutters = [Cutter(engine.texts.detokenizer(), asked.stop) for _ in streams]
        return cls(streams, cutters, sum(map(len, prompts)), asked.n)

    @property
    def counts(self) -> Counts:
        """Of a prompt that is answered several times, once; what of it was cached is known at the end."""
        return Counts(self._prompt_tokens, self._tokens, self._cached)

    async def news(self) -> AsyncGenerator[list[News], None]:
        """All that there is, at least one, until every answer has ended; raises HttpRefused."""
        pumps = [asyncio.create_task(self._pump(index)) for index in range(len(self._streams))]
        left = len(pumps)
        try:
            while left:
                await self._wake.wait()
                self._wake.clear()
                news, self._unsent = self._unsent, []
                if news:
                    left -= sum(isinstance(one.what, Ended) for one in news)
                    yield news
                if self._problem:
                    raise self._problem
        finally:
            for pump in pumps:
                pump.cancel()
            self.close()

    def close(self) -> None:
        for stream in self._streams:
            stream.abandon()

    async def _pump(self, index: int) -> None:
        try:
            await self._read(index, self._streams[index], self._cutters[index])
        except HttpRefused as refused:
            self._problem = refused
        except (Refused, RequestFailed, DaemonGone) as problem:
            self._problem = refused_by_engine(problem)
        self._wake.set()

    async def _read(self, index: int, stream: AsyncStream, cutter: Cutter) -> None:
        while tokens := await stream.some():
            for token in tokens:
                self._tokens += 1
                self._put(index, cutter.push(token.id, _likely(token)))
                if cutter.stopped is not None:
                    break
            self._wake.set()
            if cutter.stopped is not None:
                break
        else:
            self._put(index, cutter.finish())
        await stream.aclose()
        end = stream.end or {}
        reason = "stop" if cutter.stopped is not None else end.get("reason", "cancelled")
        if reason == "cancelled":
            raise HttpRefused(503, "the server is shutting down", code="shutting_down")
        if index % self._n == 0:
            self._cached += end.get("cached_tokens") or 0
        self._unsent.append(News(index, Ended(reason, cutter.stopped)))

    def _put(self, index: int, delta: Delta) -> None:
        if delta.text or delta.likely:
            if len(self._unsent) >= MOST_UNSENT:
                self.close()
                raise HttpRefused(503, "the answer was not read fast enough", code="slow_reader")
            self._unsent.append(News(index, delta))


def _likely(token: Token) -> Likely | None:
    told = token.logprobs
    if told is None:
        return None
    return Likely(token.id, told["logprob"], tuple((other, logprob) for other, logprob in told["top"]))
