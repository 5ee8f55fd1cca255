"""One HTTP request's answers, generated side by side.

However the request ends (its client gone, too slow, or served), its streams are abandoned: an answer that is still live
is cancelled before the daemon's next step, and nobody else's."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from ..errors import DaemonGone, Refused, RequestFailed
from ..stream import AsyncStream
from .engine import Engine
from .metrics import Observed
from .news import Counts, Ended, News
from .refused import HttpRefused, refused_by_engine
from .requests.asked import Asked
from .speech.cutter import Delta, Likely
from .speech.voice import Voice
from .starting import begin, too_long

MOST_UNSENT: Final = 4096  # pieces that wait for a slow reader
_log: Final = logging.getLogger(__name__)


class Run:
    """`echoes` are what the answers to each prompt begin with. `seconds` is how long it may take in all, `until` the
    deadline by the loop's clock."""

    def __init__(
        self,
        asked: Asked,
        streams: Sequence[AsyncStream],
        voices: Sequence[Voice],
        prompt_tokens: int,
        echoes: Sequence[Delta],
        observed: Observed,
        seconds: float,
        until: float,
    ) -> None:
        self._streams = streams
        self._n = asked.n
        self._streamed = asked.stream
        self._voices = voices
        self._echoes = echoes
        self._observed = observed
        self._prompt_tokens = prompt_tokens
        self._tokens = 0
        self._thought = 0
        self._cached = 0
        self._tried = self._right = 0
        self._unsent: list[News] = []
        self._taken = 0  # how often all of them were taken
        self._wake = asyncio.Event()
        self._problem: HttpRefused | None = None
        self._late = asyncio.get_running_loop().call_at(until, self._take_too_long)
        self._seconds = seconds

    @classmethod
    async def start(
        cls,
        engine: Engine,
        asked: Asked,
        seconds: float,
        queue_tokens: int = 1 << 20,
        default_tokens: int | None = None,
    ) -> "Run":
        """As `begin` in starting.py, and raises what it raises."""
        begun = await begin(engine, asked, seconds, queue_tokens, default_tokens)
        texts = engine.texts
        voices = [texts.voice(given, asked.stop) for given in begun.prompts for _ in range(asked.n)]
        prompt_tokens = sum(len(given.ids) for given in begun.prompts)
        return cls(asked, begun.streams, voices, prompt_tokens, begun.echoes, engine.observed, seconds, begun.until)

    @property
    def req_ids(self) -> list[int]:
        """The daemon's, of the answers in their order."""
        return [stream.req_id for stream in self._streams]

    @property
    def counts(self) -> Counts:
        """A prompt that is answered several times counts once; how much of it was cached is known at the end."""
        return Counts(self._prompt_tokens, self._tokens, self._cached, self._thought, self._tried, self._right)

    async def news(self) -> AsyncGenerator[list[News], None]:
        """Yields all that there is, at least one at a time, until every answer has ended; raises HttpRefused."""
        for place, delta in enumerate(self._echoes):
            yield [News(place * self._n + index, delta) for index in range(self._n)]
        if not self._streams:  # nothing but the echoes was asked for
            yield [News(index, Ended("length", None)) for index in range(len(self._voices))]
        pumps = [asyncio.create_task(self._pump(index)) for index in range(len(self._streams))]
        left = len(pumps)
        try:
            while left:
                await self._wake.wait()
                self._wake.clear()
                news, self._unsent = self._unsent, []
                self._taken += 1
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
        self._late.cancel()
        for stream in self._streams:
            stream.abandon()

    def _take_too_long(self) -> None:
        self._end(too_long(self._seconds))
        self._wake.set()

    async def _pump(self, index: int) -> None:
        try:
            await self._read(index, self._streams[index], self._voices[index])
        except HttpRefused as refused:
            self._end(refused)
        except (Refused, RequestFailed, DaemonGone) as problem:
            self._end(refused_by_engine(problem))
        except Exception:
            _log.exception("an answer broke off")
            self._end(HttpRefused(500, "something is wrong in the proxy; its log says more"))
        self._wake.set()

    def _end(self, refused: HttpRefused) -> None:
        """Keeps the first problem: it cancels the other answers, which then report that they were cancelled."""
        self._problem = self._problem or refused

    async def _read(self, index: int, stream: AsyncStream, voice: Voice) -> None:
        while not voice.done and (tokens := await stream.some()):
            await self._check_reader()
            for token in tokens:
                self._tokens += 1
                self._put(index, voice.push(token.id, Likely.of(token.id, token.logprobs) if token.logprobs else None))
                self._thought += voice.thinking
                if voice.done:
                    break
            self._wake.set()
        ended_here = voice.done  # before its stream has
        self._put(index, voice.finish())
        ended_here = ended_here or voice.stopped is not None
        if ended_here:
            self._observed.stop(stream.req_id)
        await stream.aclose()
        end = stream.end or {}
        reason = "stop" if ended_here else end.get("reason", "cancelled")
        if reason == "cancelled":
            raise HttpRefused(503, "the server is shutting down", code="shutting_down")
        if voice.called and voice.stopped is None and reason != "length":
            reason = "calls"
        if index % self._n == 0:
            self._cached += end.get("cached_tokens") or 0
        self._tried += end.get("drafted", 0)
        self._right += end.get("drafted_right", 0)
        self._unsent.append(News(index, Ended(reason, voice.stopped)))

    async def _check_reader(self) -> None:
        """Unsent pieces count against a slow client only once the task that sends them has had a turn: any number may
        come in one turn."""
        if self._streamed and len(self._unsent) >= MOST_UNSENT:
            taken = self._taken
            await asyncio.sleep(0)
            if taken == self._taken:
                self.close()
                raise HttpRefused(503, "the answer was not read fast enough", code="slow_reader")

    def _put(self, index: int, deltas: Sequence[Delta]) -> None:
        for delta in deltas:
            if delta.text or delta.likely or delta.call:
                self._unsent.append(News(index, delta))
