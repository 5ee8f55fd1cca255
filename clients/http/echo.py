"""The echo that a request may ask for before its answer: the prompt, with the log probabilities of its tokens.

The daemon reports log probabilities only of tokens that it generates. So each token of the prompt is generated once
more, by a request for one token after the text that precedes it, under a logit bias that nothing outweighs. They are
taken from the model's own logits, before any bias, so they are what the same token would have had in an answer. All
these prompts share a prefix that is computed once: each costs a row of one step, except for models with recurrent
layers, which can continue from kept states only."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ..errors import Refused
from ..start_line import StartOptions
from .engine import Engine
from .refused import HttpRefused, wrong
from .requests.asked import Asked, Chat, Ids, Text
from .speech.cutter import Delta, Likely

BIAS: Final = 1e6
MOST_SCORED: Final = 2048  # tokens of the prompts of a request


async def echo_all(engine: Engine, asked: Asked, ids: Sequence[Sequence[int]]) -> list[Delta]:
    """The echo of each prompt, whose tokens are `ids`; empty if none is asked for. Raises HttpRefused, Refused,
    RequestFailed, DaemonGone; after that, or when cancelled, none of its requests goes on."""
    if not asked.echo:
        return []
    if asked.logprobs is not None and (size := sum(map(len, ids))) > MOST_SCORED:
        raise wrong("echo", f"with logprobs of {size} tokens of prompt, expected at most {MOST_SCORED}")
    prompts = zip(asked.prompts, ids, strict=True)
    return [await _echo(engine, asked, prompt, own) for prompt, own in prompts if not isinstance(prompt, Chat)]


async def _echo(engine: Engine, asked: Asked, prompt: Text | Ids, ids: Sequence[int]) -> Delta:
    """Looks at as many of its tokens at once as there are slots."""
    texts = engine.texts
    text = prompt.text if isinstance(prompt, Text) else texts.decode(ids)
    if asked.logprobs is None:
        return Delta(text)
    told = [Likely(token, None, ()) for token in ids]  # nothing stands before the first

    async def look(places: Iterator[int]) -> None:
        for place in places:
            told[place] = await _likely(engine, ids[: place + 1], max(1, asked.logprobs or 0))

    await look(iter([len(ids) - 1] if len(ids) > 1 else []))  # alone and first: it computes what the others share
    places = iter(range(1, len(ids) - 1))
    workers = [asyncio.create_task(look(places)) for _ in range(engine.info["slots"])]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.wait(workers)
    return Delta(text, tuple(_unsaid(told, text, texts.spell) if isinstance(prompt, Text) else told))


def _unsaid(told: Sequence[Likely], text: str, spell: Callable[[int], bytes]) -> Iterator[Likely]:
    """Sets `unsaid`: a tokenizer may begin with what is not in the text, a begin token or a blank."""
    spelled, said = b"".join(spell(one.token) for one in told), text.encode()
    left = len(spelled) - len(said) if spelled.endswith(said) else 0
    for one in told:
        unsaid = min(left, len(spell(one.token)))
        left -= unsaid
        yield one._replace(unsaid=unsaid)


async def _likely(engine: Engine, ids: Sequence[int], top: int) -> Likely:
    """Of the last id, given the others."""
    number = engine.client.free_id()
    engine.observed.leave_out(number)
    options: StartOptions = {"logit_bias": [(ids[-1], BIAS)], "logprobs": top, "ignore_eos": True, "req_id": number}
    try:
        stream = await engine.client.start(ids[:-1], 1, **options)
    except Refused:
        engine.observed.count_again(number)
        raise
    try:
        tokens = await stream.some()
    finally:
        stream.abandon()
    if not tokens:
        raise HttpRefused(503, "the server is shutting down", code="shutting_down")
    token = tokens[0]
    if token.id != ids[-1] or token.logprobs is None:
        raise HttpRefused(400, "echo: with logprobs is not supported by this engine", "echo", "unsupported_parameter")
    return Likely.of(token.id, token.logprobs)
