"""One HTTP request's answers, generated side by side.

However the request ends (its client gone, too slow, or served), its streams are abandoned: an answer that is still live
is cancelled before the daemon's next step, and nobody else's."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Final, NamedTuple

from ..errors import DaemonGone, Refused, RequestFailed
from ..stream import AsyncStream
from .asked import Asked
from .cutter import Cutter, Delta, Likely
from .echo import echo_all
from .engine import Engine
from .metrics import Observed
from .openai_answers import Counts
from .refused import HttpRefused, refused_by_engine, wrong
from .thinking import Splitter

MOST_UNSENT: Final = 4096  # pieces that wait for a slow reader
MOST_SAID: Final = 200  # characters of what is wrong with a request
_log: Final = logging.getLogger(__name__)


class Ended(NamedTuple):
    """`reason` is the daemon's: eos, stop or length; `stopped` the stop string that ended it."""

    reason: str
    stopped: str | None


class News(NamedTuple):
    """What is new of the answer of this number."""

    number: int
    what: Delta | Ended


class Voice:
    """One answer's text: cut into pieces that may be sent, and those into reasoning and the answer itself."""

    def __init__(self, cutter: Cutter, splitter: Splitter | None) -> None:
        self._cutter = cutter
        self._splitter = splitter

    @property
    def stopped(self) -> str | None:
        return self._cutter.stopped

    @property
    def thinking(self) -> bool:
        return self._splitter is not None and self._splitter.thinking

    def push(self, token: int, likely: Likely | None) -> Sequence[Delta]:
        delta = self._cutter.push(token, likely)
        return self._splitter.push(delta) if self._splitter else (delta,)

    def finish(self) -> Sequence[Delta]:
        """The rest, when the answer has ended; after a stop string there is nothing left in the cutter."""
        delta = Delta("") if self.stopped is not None else self._cutter.finish()
        return self._splitter.finish(delta) if self._splitter else (delta,)


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
        """Returns once the daemon has accepted every answer; raises HttpRefused, and then none is left behind. Echoes
        are computed before: the answers would hold the slots that this needs. `queue_tokens` is how many prompt tokens
        may wait for a slot, `default_tokens` the limit of an answer whose request does not say: without it, and where
        there is no room for so many, it is what there is room for."""
        until = asyncio.get_running_loop().time() + seconds
        engine.check()
        texts, room = engine.texts, engine.info["most_positions"]
        texts.checked([token for token, _ in asked.options.get("logit_bias", ())], "logit_bias")
        prompts = [await asyncio.to_thread(texts.read, prompt) for prompt in asked.prompts]
        for given in prompts:
            if not given.ids:
                raise wrong(given.param, "is empty, expected at least one token")
            if len(given.ids) >= room:
                raise wrong(
                    given.param, f"has {len(given.ids)} tokens, there is room for {room}", "context_length_exceeded"
                )
        try:
            async with asyncio.timeout_at(until):
                echoes = await echo_all(engine, asked, [given.ids for given in prompts])
        except TimeoutError:
            raise _too_long(seconds) from None
        except (Refused, RequestFailed, DaemonGone) as problem:
            raise refused_by_engine(problem) from None
        streams: list[AsyncStream] = []
        try:
            async with asyncio.timeout_at(until):  # the daemon may be busy with a step, or stuck
                for number in range(len(prompts) * asked.n if asked.most != 0 else 0):
                    ids = prompts[number // asked.n].ids
                    total = asked.most or min(default_tokens or room, room - len(ids))
                    streams.append(await engine.client.start(ids, total, **asked.start_options(number)))
        except BaseException as problem:
            for stream in streams:
                stream.abandon()
            if isinstance(problem, TimeoutError):
                raise _too_long(seconds) from None
            if isinstance(problem, Refused | DaemonGone):
                raise _refused(problem, engine, asked, [len(given.ids) for given in prompts], queue_tokens) from None
            if isinstance(problem, ValueError):  # what no line to the daemon can express
                raise HttpRefused(400, f"the engine cannot take this request: {problem}"[:MOST_SAID]) from None
            raise
        voices = [Voice(texts.cutter(asked.stop), given.splitter()) for given in prompts for _ in range(asked.n)]
        observed = engine.observed
        return cls(asked, streams, voices, sum(len(given.ids) for given in prompts), echoes, observed, seconds, until)

    @property
    def req_ids(self) -> list[int]:
        """The daemon's, of the answers in their order."""
        return [stream.req_id for stream in self._streams]

    @property
    def counts(self) -> Counts:
        """A prompt that is answered several times counts once; how much of it was cached is known at the end."""
        return Counts(self._prompt_tokens, self._tokens, self._cached, self._thought)

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
        self._end(_too_long(self._seconds))
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
        while voice.stopped is None and (tokens := await stream.some()):
            await self._check_reader()
            for token in tokens:
                self._tokens += 1
                self._put(index, voice.push(token.id, Likely.of(token.id, token.logprobs) if token.logprobs else None))
                self._thought += voice.thinking
                if voice.stopped is not None:
                    break
            self._wake.set()
        self._put(index, voice.finish())
        if voice.stopped is not None:
            self._observed.stop(stream.req_id)
        await stream.aclose()
        end = stream.end or {}
        reason = "stop" if voice.stopped is not None else end.get("reason", "cancelled")
        if reason == "cancelled":
            raise HttpRefused(503, "the server is shutting down", code="shutting_down")
        if index % self._n == 0:
            self._cached += end.get("cached_tokens") or 0
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
            if delta.text or delta.likely:
                self._unsent.append(News(index, delta))


def _refused(
    problem: Refused | DaemonGone, engine: Engine, asked: Asked, sizes: Sequence[int], queue_tokens: int
) -> HttpRefused:
    """Answers for which there would be no room even in an idle daemon must not be retried, so these are a 400. `sizes`
    are those of the prompts, in tokens."""
    if isinstance(problem, Refused) and problem.code == "queue_full":
        field, slots = "n" if asked.n > 1 else "prompt", engine.info["slots"]
        answers = [size for size in sizes for _ in range(asked.n)]
        if len(answers) > (most := slots + engine.queue):
            return wrong(field, f"{len(answers)} answers, expected at most {most}, the slots and the queue")
        if (waiting := sum(answers[slots:])) > queue_tokens:
            return wrong(
                field,
                f"{len(answers)} answers, {slots} of them at once: the others would wait with {waiting} tokens of "
                f"prompt, expected at most {queue_tokens}",
            )
    return refused_by_engine(problem)


def _too_long(seconds: float) -> HttpRefused:
    return HttpRefused(504, f"the answer took more than {seconds:g} seconds", code="timeout")
