"""Four requests share one daemon: their words appear side by side, in fair turns, and each gets the tokens it gets
alone.

    python scripts/demo.py                         # the demo model, fetched the first time
    python scripts/demo.py --model model.gguf --quantum 4
    python scripts/demo.py --engine null           # no model: made-up tokens, shown as numbers

On a terminal there is a column for each request; in a pipe a labelled line for each turn. Afterwards each request runs
once more, alone and in another slot. Exit code: 0, or 1 if any token or logit differed.
"""

import shutil
import sys
import textwrap
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any
from unicodedata import combining, east_asian_width

from paceline.clients import Client, DaemonGone, Refused, RequestFailed
from paceline.clients.frames import IdDecoder
from paceline.clients.frames_view import PICTURES, Decoder
from paceline.clients.model_text import open_chat_template, open_tokenizer
from paceline.clients.tokenizer import Vocabulary
from paceline.daemon.flag_words import at_least
from paceline.native.weights import ModelUnavailable, ModelUnreadable, find_model
from paceline.protocol import TERMINALS, Frame, Item, Message

SLOTS = 4
FRAMES_PER_SECOND = 20
NARROWEST = 18
STORY = """\
The ferry left at six, before the fog had lifted. Nobody spoke. A boy with a red scarf counted the gulls on the rail,
lost count, and began again. His grandmother held the basket in her lap with both hands, as though the sea might ask
for it back. When the engine stopped, halfway across, the captain came out and looked at the water for a long time.
Then he laughed, and pointed: on the roof of the wheelhouse sat a cat, wet and furious, that had not been there when
they left."""


@dataclass(slots=True)
class Request:
    """One request: what is asked, and what came of it in company and alone."""

    name: str
    ids: list[int]
    total: int
    options: dict[str, Any]
    decoder: Decoder
    text: str = ""
    shown: int = 0  # characters of text that a pipe has seen
    tokens: list[int] = field(default_factory=list)
    turns: int = 0
    slot: int = 0
    end: dict[str, Any] = field(default_factory=dict)
    alone: list[int] = field(default_factory=list)
    alone_slot: int = 0
    alone_end: dict[str, Any] = field(default_factory=dict)


def make_requests(model: str | None) -> list[Request]:
    if model is None:
        made = [[7], [2] * 40, list(range(1, 200)), [5, 4, 3]]
        return [Request(f"request {n + 1}", ids, 24 + 16 * n, {}, IdDecoder()) for n, ids in enumerate(made)]
    tokenizer = open_tokenizer(model)
    chat = chat_of(model, tokenizer)

    def request(name: str, ids: list[int], total: int, **options: Any) -> Request:
        return Request(name, ids, total, options, tokenizer.detokenizer())

    return [
        request("a beginning", tokenizer.encode("Once upon a time"), 112),
        request("a question", chat("Why is the sky blue? Answer in two sentences."), 96),
        request("a story", chat(f"{STORY}\n\nSum this story up in one sentence."), 80),
        request("a poem, sampled", chat("Write a short poem about rivers."), 128, temp=0.8, top_p=0.95, seed=2024),
    ]


def chat_of(model: str, tokenizer: Vocabulary) -> Callable[[str], list[int]]:
    """Puts a text into the model's chat template; a model without one continues the text itself."""
    try:
        template = open_chat_template(model)
    except ModelUnreadable:
        return tokenizer.encode
    return lambda text: tokenizer.encode_rendered(template.render([{"role": "user", "content": text}]))


def run_together(
    client: Client, requests: list[Request], quantum: int, items: SimpleQueue[Item | DaemonGone], board: "Board"
) -> float:
    """Runs all at once; returns the seconds it took. `items` is what the client sees, in the order in which the daemon
    sent it."""
    begin = time.monotonic()
    by_id: dict[int, Request] = {}
    for request in requests:
        stream = client.start(request.ids, request.total, quantum, hash=True, **request.options)
        request.slot = stream.reply["slot"]
        by_id[stream.req_id] = request
    client.command("SCHED_DRAIN")
    live = len(requests)
    while live:
        match items.get():
            case Frame(req_id, value) if value >= 0:
                request = by_id[req_id]
                request.tokens.append(value)
                request.text += request.decoder.push(value)
                board.refresh()
            case Frame(req_id, value):
                request = by_id[req_id]
                live -= value in TERMINALS
                request.text += request.decoder.flush() if value in TERMINALS else ""
                board.turn(request)
            case Message(req_id, {"event": "end"} as body):
                by_id[req_id].end = body
            case DaemonGone() as gone:
                raise gone
    seconds = time.monotonic() - begin
    board.refresh(at_once=True)
    return seconds


def run_alone(client: Client, request: Request) -> None:
    """Runs it again from the start, alone and in another slot."""
    slot = (request.slot + 1) % SLOTS
    stream = client.start(request.ids, request.total, hash=True, slot=slot, **request.options)
    request.alone, request.alone_slot, request.alone_end = list(stream), slot, stream.end or {}


@dataclass(slots=True)
class Board:
    """The requests on the screen: columns that are drawn over themselves, or a line for each turn."""

    requests: list[Request]
    columns: bool
    drawn_rows: int = 0
    drawn_at: float = 0.0

    def turn(self, request: Request) -> None:
        """The end of a request's turn."""
        request.turns += 1
        text = request.text[request.shown :]
        if self.columns or not text:
            return
        request.shown = len(request.text)
        piece = text.replace("\n", "⏎").translate(PICTURES)
        print(f"{request.name:<16}turn {request.turns:>2} │ {piece}", flush=True)

    def refresh(self, at_once: bool = False) -> None:
        now = time.monotonic()
        if not self.columns or (now - self.drawn_at < 1 / FRAMES_PER_SECOND and not at_once):
            return
        self.drawn_at = now
        size = shutil.get_terminal_size()
        width = (size.columns - 3 * (len(self.requests) - 1)) // len(self.requests)
        height = max(4, min(16, size.lines - 12))
        cells = [self._column(request, width, height) for request in self.requests]
        lines = [" │ ".join(row) for row in zip(*cells, strict=True)]
        lines.insert(1, "─┼─".join("─" * width for _ in self.requests))
        up = f"\x1b[{self.drawn_rows}A" if self.drawn_rows else ""
        print(up + "".join(f"\r\x1b[2K{line}\n" for line in lines), end="", flush=True)
        self.drawn_rows = len(lines)

    def _column(self, request: Request, width: int, height: int) -> list[str]:
        lines: list[str] = []
        for paragraph in request.text.translate(PICTURES).expandtabs(4).split("\n"):
            lines += textwrap.wrap(paragraph, width) or [""]
        head = f"{request.name} ({len(request.tokens)}/{request.total})"
        rows = [head, *lines[-height:]]
        return [fitted(row, width) for row in rows + [""] * (height + 1 - len(rows))]


def fitted(line: str, width: int) -> str:
    """Cut or padded to exactly `width` cells of a terminal."""
    kept, used = "", 0
    for character in line:
        cells = 0 if combining(character) else 2 if east_asian_width(character) in "WF" else 1
        if used + cells > width:
            break
        kept, used = kept + character, used + cells
    return kept + " " * (width - used)


def compare(requests: list[Request], seconds: float, seconds_alone: float) -> bool:
    """Prints the figures; true if all are the same."""
    print(f"\n{'request':<16}{'prompt':>7}{'tokens':>7}{'first token':>13}{'tok/s':>8}   compared with a run alone")
    same = True
    for request in requests:
        tokens = request.tokens == request.alone
        logits = request.end.get("logits_sha256") == request.alone_end.get("logits_sha256") is not None
        same = same and tokens and logits
        verdict = f"slot {request.slot} and {request.alone_slot}: {'same' if tokens else 'OTHER'} tokens"
        verdict += f", {'same' if logits else 'OTHER'} logits ({str(request.end.get('logits_sha256'))[:8]})"
        print(
            f"{request.name:<16}{request.end['prompt_tokens']:>7}{len(request.tokens):>7}"
            f"{number(request.end['ttft_ms']):>10} ms{number(request.end['tps']):>8}   {verdict}"
        )
    count = sum(len(request.tokens) for request in requests)
    print(f"\n{count} tokens: together in {seconds:.2f} s, one request after the other in {seconds_alone:.2f} s")
    return same


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def read_arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--model", metavar="M", help="a GGUF file or a Hugging Face folder (default: the demo model)")
    parser.add_argument("--engine", default="cpu", help="cpu, reference or null, as the daemon's (default cpu)")
    parser.add_argument("--quantum", type=at_least(1), default=8, metavar="N", help="tokens in a turn (default 8)")
    parser.add_argument("--threads", metavar="N", help="threads of the engine (default: the cores it may use)")
    parser.add_argument("--lines", action="store_true", help="a line for each turn, on a terminal too")
    return parser.parse_args()


def demo(arguments: Namespace) -> int:
    model = None if arguments.engine == "null" else str(find_model(arguments.model))
    requests = make_requests(model)
    wide = shutil.get_terminal_size().columns >= len(requests) * (NARROWEST + 3)
    board = Board(requests, columns=sys.stdout.isatty() and wide and not arguments.lines)
    words = [*([model] if model else []), "--engine", arguments.engine, "--target-cache-slots", str(SLOTS)]
    words += ["--threads", arguments.threads] if arguments.threads else []
    items: SimpleQueue[Item | DaemonGone] = SimpleQueue()
    with Client.spawn(words, watch=items.put) as client:
        ready = client.ready
        print(f"{ready['model']} on {ready['device']}: {len(requests)} requests, turns of {arguments.quantum} tokens\n")
        seconds = run_together(client, requests, arguments.quantum, items, board)
        begin = time.monotonic()
        for request in requests:
            run_alone(client, request)
        return 0 if compare(requests, seconds, time.monotonic() - begin) else 1


def main() -> int:
    try:
        return demo(read_arguments())
    except (DaemonGone, Refused, RequestFailed, ModelUnreadable, ModelUnavailable) as problem:
        print(f"demo: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
