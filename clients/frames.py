"""`paceline frames`: reads a frame stream on stdin and prints it for people."""

import os
import select
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from typing import Final

from ..protocol import BrokenStream, FrameReader, encode_text
from .decoded import decoded
from .frames_view import Decoder, TextView

ABOUT: Final = """\
Reads a tagged frame stream on stdin and prints a line per frame, as the daemon's --stream text would:
`-2 4 1234` is token 1234 of request 4, `-3 4 {...}` a message. With --text it prints the decoded words,
each request's under its own label, as they come, and a line of figures at the end of each request."""
EXAMPLES: Final = """\
examples:
  paceline daemon < commands | paceline frames
  paceline daemon < commands | tee saved.frames | paceline frames --text
  paceline frames < saved.frames"""
PIECE: Final = 1 << 16
IDLE_SECONDS: Final = 0.1


class Lenient:
    """A decoder of a model that may not be the stream's: an id that it does not have is shown as it is."""

    def __init__(self, decoder: Decoder, tell: Callable[[ValueError], object]) -> None:
        self._decoder = decoder
        self._tell = tell

    def push(self, token: int) -> str:
        try:
            return self._decoder.push(token)
        except ValueError as problem:
            self._tell(problem)
            return f"{self._decoder.flush()}[{token}]"

    def flush(self) -> str:
        return self._decoder.flush()


class IdDecoder:
    """For streams without a tokenizer (--engine null): the ids themselves."""

    def push(self, token: int) -> str:
        return f"{token} "

    def flush(self) -> str:
        return ""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--text", action="store_true", help="decoded words instead of frames")
    parser.add_argument("--model", metavar="M", help="the model to decode with (default: the one the stream names)")


def run(arguments: Namespace) -> int:
    """Exit code: 0, or 1 for a stream that is cut off or no frame stream."""
    _second_interrupt_counts()
    reader = FrameReader()
    view = TextView(lambda path: open_model(arguments.model or path)) if arguments.text else None
    problem: BrokenStream | None = None
    try:
        for data in _pieces(lambda: bool(view and view.waiting)):
            if view and not data:
                _write(view.idle())
            for item in decoded(reader, data):
                _write(view.show(item) if view else encode_text([item]))
            sys.stdout.buffer.flush()
        reader.close()
    except BrokenStream as broken:
        problem = broken
    finally:
        if view:
            _write(view.close())
        sys.stdout.buffer.flush()
    if problem:
        print(f"paceline frames: the frame stream is broken at {problem}", file=sys.stderr)
    return 1 if problem else 0


def open_model(path: str | None) -> Callable[[], Decoder]:
    """A function that makes a decoder for a request. A model that cannot be read, or lacks an id, is reported once, and
    ids are shown."""
    if not path:
        return IdDecoder
    from ..native.weights import ModelUnreadable
    from .model_text import open_tokenizer

    try:
        tokenizer = open_tokenizer(path)
    except ModelUnreadable as problem:
        print(f"paceline frames: {problem}; token ids follow instead", file=sys.stderr)
        return IdDecoder
    told: list[ValueError] = []

    def tell(problem: ValueError) -> None:
        if not told:
            print(f"paceline frames: {problem}, in {path}: is it another model's stream?", file=sys.stderr)
            told.append(problem)

    return lambda: Lenient(tokenizer.detokenizer(), tell)


def _pieces(waiting: Callable[[], bool]) -> Iterator[bytes]:
    """What comes on stdin, as it comes; an empty piece if `waiting` and nothing came for a moment."""
    stdin = sys.stdin.fileno()
    while True:
        if waiting() and not select.select([stdin], [], [], IDLE_SECONDS)[0]:
            yield b""
        elif data := os.read(stdin, PIECE):
            yield data
        else:
            return


def _second_interrupt_counts() -> None:
    """Ignores the first Ctrl-C, which goes to the whole pipeline: the daemon ends its requests, and its last frames are
    worth reading."""
    signal.signal(signal.SIGINT, lambda *_: signal.signal(signal.SIGINT, signal.default_int_handler))


def _write(text: str | bytes) -> None:
    sys.stdout.buffer.write(text.encode("utf-8", "replace") if isinstance(text, str) else text)
