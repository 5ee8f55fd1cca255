"""`paceline run`: one prompt, answered on stdout as it comes."""

import asyncio
import json
import os
import stat
import sys
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .encode import decoded, read_text

if TYPE_CHECKING:
    from ..protocol import Grammar
    from .answer import AsyncGeneration
    from .async_client import AsyncClient

ABOUT: Final = """\
Answers PROMPT and prints the answer as it comes. PROMPT goes into the model's chat template, as the user's turn; what
comes through a pipe on standard input goes behind it, or is the prompt if there is no PROMPT. Ctrl-C cancels."""
EXAMPLES: Final = """\
examples:
  paceline run -n 64 'Name three rivers.'
  paceline run --model M.gguf --temp 0.8 --seed 7 -n 200 'Write a poem about rivers.'
  paceline run 'Sum this up in a sentence:' < letter.txt
  paceline run --json-schema person.json 'Who wrote Emma?'   JSON, and nothing else
  paceline run --raw -n 32 'Once upon a time'              the text goes on, without a chat template

exit codes:
  0 done   2 usage, or the daemon refused it   66 model unreadable   69 demo model cannot be fetched
  70 the daemon failed   74 the output cannot be written   130 Ctrl-C"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("prompt", nargs="*", metavar="PROMPT", help="joined by blanks")
    parser.add_argument(
        "--model", metavar="M", help="a GGUF file or a Hugging Face folder (default: the demo model, fetched once)"
    )
    parser.add_argument("--system", metavar="S", help="the system message")
    parser.add_argument("--raw", action="store_true", help="PROMPT as it is, without the chat template")
    parser.add_argument(
        "-n",
        "--max-tokens",
        type=int,
        metavar="N",
        help="most tokens of the answer (default: what there is room for)",
    )
    parser.add_argument(
        "--stop", action="append", default=[], metavar="S", help="a text that ends the answer (more than once)"
    )
    sampling = parser.add_argument_group("sampling (default: always the likeliest token)")
    sampling.add_argument("--temp", type=float, metavar="T", help="temperature; 0 is the likeliest token")
    sampling.add_argument("--top-k", type=int, metavar="K", help="among the K likeliest")
    sampling.add_argument("--top-p", type=float, metavar="P", help="among the likeliest that make up P")
    sampling.add_argument("--min-p", type=float, metavar="P", help="among those with P times the likeliest's chance")
    sampling.add_argument("--seed", type=int, metavar="N", help="the same seed gives the same answer")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json-schema", metavar="S", help="the answer is JSON by this schema, or by the one in a file")
    form.add_argument("--regex", metavar="R", help="the answer is a match of this regular expression")
    engine = parser.add_argument_group("engine")
    engine.add_argument(
        "--max-ctx", type=int, metavar="N", help="most tokens, prompt and answer (default: at most 4096)"
    )
    engine.add_argument(
        "--threads", type=int, metavar="N", help="threads of the engine (default: the cores it may use)"
    )


def run(arguments: Namespace) -> int:
    """The exit code. Raises ModelUnreadable, KeyboardInterrupt."""
    if isinstance(sys.stdout, TextIOWrapper):  # if its encoding is not UTF-8, lose a letter, not the answer
        sys.stdout.reconfigure(errors="replace")
    try:
        text = _prompt(arguments.prompt)
    except UnicodeDecodeError as problem:
        print(f"paceline run: the prompt is not UTF-8: {problem}", file=sys.stderr)
        return 2
    if arguments.prompt and arguments.prompt[0].endswith(".gguf") and Path(arguments.prompt[0]).is_file():
        print(f"paceline run: {arguments.prompt[0]} is a file: expected --model before it", file=sys.stderr)
        return 2
    if not text:
        print("paceline run: no prompt, expected PROMPT or a text on standard input", file=sys.stderr)
        return 2
    if arguments.system is not None and arguments.raw:
        print("paceline run: --system does not go with --raw", file=sys.stderr)
        return 2
    if arguments.max_tokens is not None and arguments.max_tokens < 1:
        print(f"paceline run: --max-tokens: {arguments.max_tokens}, expected at least 1", file=sys.stderr)
        return 2
    try:
        grammar = _grammar(arguments.json_schema, arguments.regex)
    except ValueError as problem:
        print(f"paceline run: {problem}", file=sys.stderr)
        return 2
    from .own_daemon import with_daemon

    words = ["--slots", "1"]
    for name in ("max_ctx", "threads"):
        if (value := getattr(arguments, name)) is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    words += ["--", arguments.model] if arguments.model is not None else []  # found by the daemon, which begins sooner
    return with_daemon("run", words, lambda client: _answer(client, arguments, text, grammar))


async def _answer(client: "AsyncClient", arguments: Namespace, text: str, grammar: "Grammar | None") -> None:
    from .errors import RequestFailed
    from .own_daemon import show_prefill

    await asyncio.to_thread(import_module, ".model_text", __package__)  # while the daemon loads
    names = ("temp", "top_k", "top_p", "min_p", "seed")
    options: Any = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    options |= {"grammar": grammar} if grammar else {}
    prompt = text if arguments.raw else _messages(arguments.system, text)
    answer = await client.generate(prompt, arguments.max_tokens, stop=arguments.stop, **options)
    prefilling = asyncio.create_task(show_prefill(client, answer.stream))
    ending = "\n"
    try:
        async with answer:
            async for piece in answer:
                await _stop(prefilling)
                _write(piece.text)
                ending = piece.text[-1:] or ending
    finally:
        await _stop(prefilling)
    if ending != "\n":
        _write("\n")
    if answer.finish_reason == "cancelled":
        raise RequestFailed("cancelled", "the daemon was told to end")
    if sys.stderr.isatty():
        print(_figures(answer), file=sys.stderr)


async def _stop(prefilling: "asyncio.Task[None]") -> None:
    """Takes its bar away. If it found the daemon dead, reading the answer will report that."""
    prefilling.cancel()
    await asyncio.gather(prefilling, return_exceptions=True)


def _grammar(schema: str | None, regex: str | None) -> "Grammar | None":
    """Raises ValueError."""
    from ..protocol import Grammar

    if regex is not None:
        return Grammar("regex", decoded(regex))
    if schema is None:
        return None
    try:
        text = schema if schema.lstrip().startswith("{") else Path(schema).read_text(encoding="utf-8")
        found = json.loads(text)
        if not isinstance(found, dict):
            raise ValueError("it is no object")
        return Grammar.json(found)
    except OSError as problem:
        raise ValueError(f"--json-schema: {schema}: {problem.strerror}, expected an object or a file") from None
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"--json-schema: {problem}") from None


def _messages(system: str | None, text: str) -> list[dict[str, str]]:
    first = [{"role": "system", "content": system}] if system is not None else []
    return [*first, {"role": "user", "content": text}]


def _prompt(words: list[str]) -> str:
    parts = [read_text(words) if words else ""]
    if words != ["-"] and _is_piped():
        parts.append(read_text(["-"]))
    return "\n\n".join(part for part in parts if part.strip())


def _is_piped() -> bool:
    """Whether standard input holds a text that was meant for us."""
    with suppress(OSError):
        kind = os.fstat(0).st_mode
        return stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)
    return False


def _write(text: str) -> None:
    """A model's output must not move a terminal's cursor; a pipe gets it as it is."""
    from .frames_view import PICTURES

    sys.stdout.write(text.translate(PICTURES) if sys.stdout.isatty() else text)
    sys.stdout.flush()


def _figures(answer: "AsyncGeneration") -> str:
    speed, first = answer.timings["tps"], answer.timings["ttft_ms"]
    said = [f"{answer.usage['prompt_tokens']} + {answer.usage['tokens']} tokens"]
    said += [f"first token after {first:.0f} ms"] if first is not None else []
    said += [f"{speed:.1f} tokens per second"] if speed is not None else []
    return " · ".join([*said, str(answer.finish_reason)])
