"""What precedes an answer: its prompt is read, checked against the room that there is, and started together with the
others of its request."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ...protocol import Grammar
from ..errors import DaemonGone, Refused, RequestFailed
from ..stream import AsyncStream
from .echo import echo_all
from .engine import Engine
from .refused import ContextExceeded, HttpRefused, refused_by_engine, wrong
from .requests.asked import Asked
from .requests.formats import GRAMMAR, grammar_refused
from .requests.holds import Hold
from .speech.cutter import Delta
from .texts import Given

MOST_SAID: Final = 200  # characters of what is wrong with a request


class Begun(NamedTuple):
    """`echoes` are what the answers to each prompt begin with, `until` is the deadline by the loop's clock."""

    prompts: Sequence[Given]
    echoes: Sequence[Delta]
    streams: Sequence[AsyncStream]
    until: float


async def begin(
    engine: Engine, asked: Asked, seconds: float, queue_tokens: int = 1 << 20, default_tokens: int | None = None
) -> Begun:
    """Returns once the daemon has accepted every answer; raises HttpRefused, and then none is left behind. Echoes are
    computed before: the answers would hold the slots that this needs. `queue_tokens` is how many prompt tokens may wait
    for a slot, `default_tokens` the limit of an answer whose request does not say: without it, and where there is no
    room for so many, it is what there is room for."""
    until = asyncio.get_running_loop().time() + seconds
    engine.check()
    texts = engine.texts
    texts.checked([token for token, _ in asked.options.get("logit_bias", ())], "logit_bias")
    prompts = [await asyncio.to_thread(texts.read, prompt) for prompt in asked.prompts]
    predicted = await asyncio.to_thread(texts.predicted, asked.prediction) if asked.prediction else []
    answers = [given for given in prompts for _ in range(asked.n)] if asked.most != 0 else []
    _check_prompts(prompts, asked, engine.info)
    too_many = _too_many(engine, asked, [len(given.ids) + len(predicted) for given in answers], queue_tokens)
    if too_many and not engine.coalesces:
        raise too_many
    try:
        async with asyncio.timeout_at(until):  # the daemon may be busy with a step, or stuck
            echoes = await echo_all(engine, asked, [given.ids for given in prompts])
            streams = await _start_held(engine, asked, answers, predicted, default_tokens)
    except TimeoutError:
        raise too_long(seconds) from None
    except (Refused, RequestFailed, DaemonGone) as problem:
        if too_many and isinstance(problem, Refused) and problem.code == "queue_full":
            raise too_many from None
        if isinstance(problem, Refused) and problem.error.startswith(GRAMMAR):
            raise grammar_refused(asked.format, problem.error) from None
        raise refused_by_engine(problem, asked.limit) from None
    return Begun(prompts, echoes, streams, until)


def _check_prompts(prompts: Sequence[Given], asked: Asked, info: Mapping[str, Any]) -> None:
    room, cached = info["most_positions"], info["most_positions"] < info["context"]
    for given in prompts:
        if not given.ids:
            raise wrong(given.param, "is empty, expected at least one token")
        if len(given.ids) >= room:
            raise ContextExceeded(given.param, len(given.ids), None, room, cached=cached)
        if asked.most and len(given.ids) + asked.most > room:
            raise ContextExceeded(asked.limit, len(given.ids), asked.most, room, cached=cached)


def _too_many(engine: Engine, asked: Asked, answers: Sequence[int], queue_tokens: int) -> HttpRefused | None:
    """For what even an idle daemon has no room, and what must not be retried then; equal ones may share a row where it
    coalesces. `answers` are the sizes of their prompts and predictions, in tokens."""
    field, slots = "n" if asked.n > 1 else "prompt", engine.info["slots"]
    if len(answers) > (most := slots + engine.queue):
        return wrong(field, f"{len(answers)} answers, expected at most {most}, the slots and the queue")
    if (waiting := sum(answers[slots:])) > queue_tokens:
        return wrong(
            field,
            f"{len(answers)} answers, {slots} of them at once: the others would wait with {waiting} tokens of prompt, "
            f"expected at most {queue_tokens}",
        )
    return None


async def _start_held(
    engine: Engine, asked: Asked, answers: Sequence[Given], predicted: Sequence[int], default_tokens: int | None
) -> list[AsyncStream]:
    """Held to the grammars that are theirs; to looser ones as long as these are refused and may be loosened, be it here
    or by the daemon."""

    def grammars(hold: Hold) -> list[Grammar | None]:
        each = {id(given): engine.texts.grammar(given, asked.format, hold) for given in answers[:: asked.n]}
        return [each[id(given)] for given in answers]

    refused: Refused | HttpRefused | None = None
    tried: list[Grammar | None] | None = None
    for hold in Hold:
        try:
            if (held := grammars(hold)) == tried:
                continue
            tried = held
            return await _start(engine, asked, answers, held, predicted, default_tokens)
        except Refused as problem:
            if not problem.error.startswith(GRAMMAR):
                raise
            refused = problem
        except HttpRefused as problem:
            if problem.param != "tools":
                raise
            refused = problem
    assert refused
    raise refused


async def _start(
    engine: Engine,
    asked: Asked,
    answers: Sequence[Given],
    grammars: Sequence[Grammar | None],
    predicted: Sequence[int],
    default_tokens: int | None,
) -> list[AsyncStream]:
    """All of them or none; a start that is cancelled takes its request back by itself."""
    room = engine.info["most_positions"]
    starts = []
    for number, (given, grammar) in enumerate(zip(answers, grammars, strict=True)):
        total = asked.most or min(default_tokens or room, room - len(given.ids))
        options = asked.start_options(number) | ({"grammar": grammar} if grammar else {})
        options |= {"predict": tuple(predicted)} if predicted else {}
        starts.append(asyncio.create_task(engine.client.start(given.ids, total, **options)))
    try:
        await asyncio.gather(*starts, return_exceptions=True)
        return [start.result() for start in starts]
    except BaseException as problem:
        for start in starts:
            if not start.cancelled() and not start.exception():
                start.result().abandon()
        if isinstance(problem, ValueError):  # what no line to the daemon can express
            raise HttpRefused(400, f"the engine cannot take this request: {problem}"[:MOST_SAID]) from None
        raise


def too_long(seconds: float) -> HttpRefused:
    return HttpRefused(504, f"the answer took more than {seconds:g} seconds", code="timeout")
