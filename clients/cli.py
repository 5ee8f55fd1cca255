"""The `paceline` command: a parser and a function for each subcommand; what one needs is imported when it runs."""

import errno
import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Final, cast

Run = Callable[[Namespace], int]

UNREADABLE: Final = 66
UNAVAILABLE: Final = 69
UNWRITABLE: Final = 74
OUTPUT_ERRORS: Final = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
INTERRUPTED: Final = 130

ABOUT: Final = """\
A decode engine that you talk to through a pipe: commands in, tagged token frames out,
many requests at once in fair turns."""

EXAMPLES: Final = """\
examples:
  paceline run -n 64 'Name three rivers.'
  paceline serve                                    OpenAI's and Anthropic's APIs on http://127.0.0.1:8080

  printf 'REQ 1 START ids:%s 32\\n' "$(paceline encode 'Once upon a time')" | paceline daemon | paceline frames --text

  # two requests side by side, in turns of four tokens
  { printf 'REQ 1 START ids:%s 24 4\\n' "$(paceline encode --chat 'Name three rivers.')"
    printf 'REQ 2 START ids:%s 24 4\\n' "$(paceline encode 'The sea is')"
    echo SCHED_DRAIN; } | paceline daemon | paceline frames --text

  # no model: every token is a hash of those before it
  printf 'REQ 1 START ids:1,2,3 8\\nSTATS\\n' | paceline daemon --engine null | paceline frames

`paceline COMMAND --help` says more. In the daemon, HELP lists what can be written to it."""

COMMANDS: Final = {
    "run": "answer a prompt",
    "serve": "serve a model over HTTP, as OpenAI and Anthropic do",
    "daemon": "serve a model: commands on stdin, frames on stdout",
    "encode": "text to token ids",
    "frames": "a frame stream to readable lines, or to text",
    "models": "what is in the cache; fetch the demo model",
    "bench": "how fast a model is on this machine",
    "completion": "a script for your shell that completes all this",
}
OF_A_MODEL: Final = ("run", "encode", "models", "bench")


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] != ["daemon"]:  # which handles its descriptors itself
        closed = sys.stdout is None
        _open_missing()
        if closed and words[:1] != ["serve"]:  # which writes only its help there
            print("paceline: standard output is closed", file=sys.stderr)
            return UNWRITABLE
    try:
        arguments = make_parser(words[0] if words else None).parse_args(words, Namespace(words=words))
        run: Run = arguments.run
        code = run(arguments)
        if sys.stdout:
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as problem:
        if problem.errno not in OUTPUT_ERRORS:
            raise
        # what is left in the buffer must not be tried again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(problem, BrokenPipeError):  # whoever read our output has seen enough
            return 0
        print(f"paceline: {problem}", file=sys.stderr)
        return UNWRITABLE
    finally:
        _drop_unread_errors()


def _drop_unread_errors() -> None:
    """Whoever read our errors may be gone. What is left of them must not be tried again at exit, which would be 120."""
    try:
        if sys.stderr:
            sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _open_missing() -> None:
    """Opens standard streams that our parent has closed: their numbers must not become another file's."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def make_parser(meant: str | None = None, everything: bool = False) -> ArgumentParser:
    """With the arguments of the command `meant`, or of every one."""
    parser = ArgumentParser(
        "paceline", description=ABOUT, epilog=EXAMPLES, formatter_class=RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"paceline {_version()}")
    added = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, brief in COMMANDS.items():
        below = added.add_parser(name, help=brief, formatter_class=RawDescriptionHelpFormatter, allow_abbrev=False)
        if everything or name == meant:
            below.set_defaults(run=_describe(name, below))
    return parser


def _describe(name: str, parser: ArgumentParser) -> Run:
    """Adds the command's arguments; returns the function that runs it."""
    if name == "daemon":
        from ..daemon.flags import add_daemon_arguments

        add_daemon_arguments(parser)
        return _daemon
    if name == "serve":
        from ..daemon.flags import add_daemon_arguments
        from .http.flags import SERVE, SERVE_EXAMPLES, add_serve_arguments

        add_serve_arguments(parser)
        add_daemon_arguments(parser, served=True)
        parser.description, parser.epilog = SERVE, SERVE_EXAMPLES
        return _serve
    module = import_module(f".{name}", __package__)
    module.add_arguments(parser)
    parser.description, parser.epilog = module.ABOUT, module.EXAMPLES
    return partial(_with_model, name, module.run) if name in OF_A_MODEL else cast(Run, module.run)


def _daemon(arguments: Namespace) -> int:
    from ..daemon.flags import read_config
    from ..daemon.main import run

    return run(read_config(arguments))


def _serve(arguments: Namespace) -> int:
    from ..daemon.flags import read_config

    if vars(arguments).keys() & {"stream", "stream_fd"}:
        print("paceline serve: --stream and --stream-fd are not for serve: it reads the daemon itself", file=sys.stderr)
        return 2
    try:
        from .http.serve import serve
    except ModuleNotFoundError as missing:
        print(f"paceline serve: {missing.name} is not installed: pip install 'paceline[http]'", file=sys.stderr)
        return UNAVAILABLE
    asked = read_config(arguments)
    arguments.queue, arguments.queue_tokens = asked.queue, asked.queue_tokens  # the proxy's bounds, too
    return serve(arguments, arguments.words[1:])


def _with_model(name: str, run: Run, arguments: Namespace) -> int:
    try:
        return run(arguments)
    except Exception as problem:
        from ..native.weights import ModelUnavailable, ModelUnreadable  # so late: `run` starts a daemon before it

        if not isinstance(problem, ModelUnreadable | ModelUnavailable):
            raise
        print(f"paceline {name}: {problem}", file=sys.stderr)
        return UNREADABLE if isinstance(problem, ModelUnreadable) else UNAVAILABLE


def _version() -> str:
    try:
        return version("paceline")
    except PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())
