"""The `paceline` command: one parser, one function per subcommand; what a subcommand needs is imported when it runs."""

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from .encode import add_encode_arguments, encode

UNREADABLE: Final = 66
UNAVAILABLE: Final = 69
INTERRUPTED: Final = 130

ABOUT: Final = """\
A decode engine that you talk to through a pipe: commands in, tagged token frames out,
many requests at once in fair turns."""

EXAMPLES: Final = """\
examples:
  printf 'REQ 1 START ids:%s 32\\n' "$(paceline encode 'Once upon a time')" | paceline daemon | paceline frames --text

  # two requests side by side, in turns of four tokens
  { printf 'REQ 1 START ids:%s 24 4\\n' "$(paceline encode --chat 'Name three rivers.')"
    printf 'REQ 2 START ids:%s 24 4\\n' "$(paceline encode 'The sea is')"
    echo SCHED_DRAIN; } | paceline daemon | paceline frames --text

  # no model: every token is a hash of those before it
  printf 'REQ 1 START ids:1,2,3 8\\nSTATS\\n' | paceline daemon --engine null | paceline frames

`paceline COMMAND --help` says more. In the daemon, HELP lists what can be written to it."""

ENCODE: Final = "Prints the token ids of TEXT on one line, joined by commas: what START takes after `ids:`."
ENCODE_EXAMPLES: Final = """\
examples:
  paceline encode 'Once upon a time'                      6403,1980,253,655
  paceline encode --chat --system 'Be brief.' 'Hello!'    with the model's chat template around it
  paceline encode - < letter.txt                          a whole file, its last newline too"""

FRAMES: Final = """\
Reads a tagged frame stream on stdin and prints a line per frame, as the daemon's --stream text would:
`-2 4 1234` is token 1234 of request 4, `-3 4 {...}` a message. With --text it prints the decoded words,
each request's under its own label, as they come, and a line of figures at the end of each request."""
FRAMES_EXAMPLES: Final = """\
examples:
  paceline daemon < commands | paceline frames
  paceline daemon < commands | tee saved.frames | paceline frames --text
  paceline frames < saved.frames"""


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        arguments = _parser(words[:1]).parse_args(words, Namespace(words=words))
        run: Callable[[Namespace], int] = arguments.run
        return run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # whoever read our output has seen enough; what is left in the buffer must not be tried again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser(first: Sequence[str]) -> ArgumentParser:
    parser = ArgumentParser(
        "paceline", description=ABOUT, epilog=EXAMPLES, formatter_class=RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"paceline {_version()}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(
        name: str, run: Callable[[Namespace], int], brief: str, about: str = "", examples: str = ""
    ) -> ArgumentParser:
        added = commands.add_parser(
            name,
            help=brief,
            description=about,
            epilog=examples,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        added.set_defaults(run=run)
        return added

    daemon = command("daemon", _daemon, "serve a model: commands on stdin, frames on stdout")
    if first == ["daemon"]:
        from ..daemon.config import add_daemon_arguments

        add_daemon_arguments(daemon)
    server = command("serve", _serve, "serve a model over HTTP, as OpenAI and Anthropic do")
    if first == ["serve"]:
        from ..daemon.config import add_daemon_arguments
        from .http.flags import SERVE, SERVE_EXAMPLES, add_serve_arguments

        add_serve_arguments(server)
        add_daemon_arguments(server)
        server.description, server.epilog = SERVE, SERVE_EXAMPLES
    add_encode_arguments(command("encode", _encode, "text to token ids", ENCODE, ENCODE_EXAMPLES))
    frames = command("frames", _frames, "a frame stream to readable lines, or to text", FRAMES, FRAMES_EXAMPLES)
    frames.add_argument("--text", action="store_true", help="decoded words instead of frames")
    frames.add_argument("--model", metavar="M", help="the model to decode with (default: the one the stream names)")
    return parser


def _daemon(arguments: Namespace) -> int:
    from ..daemon.config import read_config
    from ..daemon.main import run

    return run(read_config(arguments))


def _serve(arguments: Namespace) -> int:
    if arguments.stream or arguments.stream_fd != 1:
        print("paceline serve: --stream and --stream-fd are not for serve: it reads the daemon itself", file=sys.stderr)
        return 2
    try:
        from .http.serve import serve
    except ModuleNotFoundError as missing:
        print(f"paceline serve: {missing.name} is not installed: pip install 'paceline[http]'", file=sys.stderr)
        return UNAVAILABLE
    return serve(arguments, arguments.words[1:])


def _encode(arguments: Namespace) -> int:
    from ..native.weights import ModelUnavailable, ModelUnreadable

    try:
        return encode(arguments)
    except ModelUnreadable as problem:
        print(f"paceline encode: {problem}", file=sys.stderr)
        return UNREADABLE
    except ModelUnavailable as problem:
        print(f"paceline encode: {problem}", file=sys.stderr)
        return UNAVAILABLE


def _frames(arguments: Namespace) -> int:
    from .frames import frames

    return frames(arguments)


def _version() -> str:
    try:
        return version("paceline")
    except PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())
