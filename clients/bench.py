"""`paceline bench`: how fast a model is on this machine, in a short table."""

import json
import random
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from asyncio import gather
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from .async_client import AsyncClient

ABOUT: Final = """\
Measures MODEL through a real daemon and its pipe: how fast a prompt is computed, and how fast 1, 4 and 16 requests go
on from it together. Every prompt is different and computed whole. The table shows the median of the rounds, and the
slowest and the fastest: what else runs on the machine at the same time shows there."""
EXAMPLES: Final = """\
examples:
  paceline bench                                  the demo model, prompts of 512 tokens
  paceline bench M.gguf --context 4096 --rows 1,8
  paceline bench M.gguf --json > before.json"""
SEED: Final = 1


class Figure(NamedTuple):
    """`speeds` are tokens per second of all rows together, one for each round; 0 rows means the prefill."""

    rows: int
    speeds: list[float]


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a GGUF file or a Hugging Face folder (default: the demo model, fetched once)",
    )
    parser.add_argument("--context", type=_count, default=512, metavar="N", help="tokens of a prompt (default 512)")
    parser.add_argument("--rows", type=_counts, default=[1, 4, 16], metavar="N[,N]", help="default: 1,4,16")
    parser.add_argument("--tokens", type=_count, default=32, metavar="N", help="per row and round (default 32)")
    parser.add_argument("--rounds", type=_count, default=3, metavar="N", help="of each (default 3)")
    parser.add_argument("--threads", type=_count, metavar="N", help="of the engine (default: the cores it may use)")
    parser.add_argument("--json", action="store_true", help="all figures, and what they were measured on")


def run(arguments: Namespace) -> int:
    """The exit code. Raises ModelUnavailable, ModelUnreadable."""
    from ..native.weights import find_model
    from .own_daemon import with_daemon

    room = arguments.context + 1 + arguments.tokens * arguments.rounds
    words = [
        str(find_model(arguments.model)),
        "--slots",
        str(max(arguments.rows)),
        "--max-ctx",
        str(room),
        "--no-reuse",
    ]
    words += ["--threads", str(arguments.threads)] if arguments.threads else []
    return with_daemon("bench", words, lambda client: _bench(client, arguments))


async def _bench(client: "AsyncClient", arguments: Namespace) -> None:
    from tqdm import tqdm

    ready = await client.ready
    chance = random.Random(SEED)
    steps = arguments.rounds + sum(rows + arguments.rounds for rows in arguments.rows)
    figures = []
    with tqdm(total=steps, desc="measuring", leave=False, disable=not sys.stderr.isatty()) as bar:
        speeds = [await _prefill(client, _prompt(chance, ready, arguments), bar) for _ in range(arguments.rounds)]
        figures.append(Figure(0, speeds))
        for rows in arguments.rows:
            prompts = [_prompt(chance, ready, arguments) for _ in range(rows)]
            figures.append(Figure(rows, await _decode(client, prompts, arguments, bar)))
    if arguments.json:
        print(json.dumps(_facts(ready, arguments) | {"figures": [figure._asdict() for figure in figures]}, indent=2))
    else:
        print(_table(ready, arguments, figures), end="")


async def _prefill(client: "AsyncClient", prompt: list[int], bar: Any) -> float:
    begun = time.perf_counter()
    stream = await client.start(prompt, 1, ignore_eos=True)
    await stream.turn()
    bar.update()
    return len(prompt) / (time.perf_counter() - begun)


async def _decode(client: "AsyncClient", prompts: list[list[int]], arguments: Namespace, bar: Any) -> list[float]:
    """The speed of each round, which begins and ends with all requests parked."""
    total, speeds = 1 + arguments.tokens * arguments.rounds, []
    streams = []
    for prompt in prompts:
        streams.append(await client.start(prompt, total, 1, ignore_eos=True))
        await streams[-1].turn()
        bar.update()
    for _ in range(arguments.rounds):
        begun = time.perf_counter()
        await client.commands(*(f"REQ {stream.req_id} CONTINUE {arguments.tokens}" for stream in streams))
        turns = await gather(*(stream.turn() for stream in streams))
        speeds.append(sum(map(len, turns)) / (time.perf_counter() - begun))
        bar.update()
    return speeds


def _prompt(chance: random.Random, ready: dict[str, Any], arguments: Namespace) -> list[int]:
    return [chance.randrange(ready["vocab"]) for _ in range(arguments.context)]


def _facts(ready: dict[str, Any], arguments: Namespace) -> dict[str, Any]:
    asked = {name: getattr(arguments, name) for name in ("context", "tokens", "rounds")}
    return {name: ready[name] for name in ("version", "model", "path", "architecture", "device")} | asked


def _table(ready: dict[str, Any], arguments: Namespace, figures: list[Figure]) -> str:
    lines = [f"{Path(ready['path']).name} on {ready['device']}, prompts of {arguments.context} tokens"]
    lines += ["", f"{'tokens per second':<20}{'median':>9}{'slowest':>9}{'fastest':>9}{'per row':>9}"]
    for rows, speeds in figures:
        name = "prefill" if rows == 0 else "1 row" if rows == 1 else f"{rows} rows"
        three = "".join(f"{speed:>9,.0f}" for speed in (median(speeds), min(speeds), max(speeds)))
        lines.append(f"{name:<20}{three}" + (f"{median(speeds) / rows:>9,.1f}" if rows else ""))
    return "\n".join(lines) + "\n"


def _count(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and int(word) > 0):
        raise ArgumentTypeError(f"{word!r}: expected a whole number from 1 on")
    return int(word)


def _counts(words: str) -> list[int]:
    return [_count(word) for word in words.split(",")]
