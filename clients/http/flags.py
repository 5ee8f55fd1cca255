"""The flags of `paceline serve`: its own, and the daemon's, which go on to it."""

import os
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path
from string import whitespace
from typing import Final

SERVE: Final = """\
Serves a model over HTTP, in the way of OpenAI's API and of Anthropic's: /v1/chat/completions, /v1/completions,
/v1/responses, /v1/messages, /v1/models, /tokenize, /detokenize, /slots, /health and /metrics. One daemon does the work;
its flags are taken too and go on to it. Listens on this machine only, unless --host says otherwise."""
SERVE_EXAMPLES: Final = """\
examples:
  paceline serve                                     the demo model on http://127.0.0.1:8080
  paceline serve M.gguf --slots 16 --max-ctx 8192    sixteen requests at once, 8192 tokens each
  PACELINE_API_KEY=secret paceline serve --host 0.0.0.0 --port 80

  curl http://127.0.0.1:8080/v1/chat/completions -H 'content-type: application/json' \\
    -d '{"messages": [{"role": "user", "content": "Name three rivers."}],
         "max_tokens": 64, "stream": true}'

exit codes:
  0 done   2 usage   3 the port is taken   69 the extra http is not installed   70 the model could not be loaded"""
LONGEST: Final = 1e6  # seconds


def daemon_words(words: Sequence[str]) -> list[str]:
    """The daemon's command line: what in `words` is not the proxy's is the daemon's, and overrides the defaults set
    here. The log has a line for each request that has ended, even without a terminal."""
    own = ArgumentParser(add_help=False, allow_abbrev=False)
    add_serve_arguments(own)
    return ["--auto", "--log", "text", *own.parse_known_args(words)[1]]


def add_serve_arguments(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("HTTP")
    group.add_argument(
        "--host", type=_host, default="127.0.0.1", metavar="H", help="address to listen on (default 127.0.0.1)"
    )
    group.add_argument("--port", type=_port, default=8080, metavar="N", help="0 is any that is free (default 8080)")
    group.add_argument(
        "--api-key",
        type=_key,
        default=os.environ.get("PACELINE_API_KEY"),
        metavar="K",
        help="what clients must send, but for /health (default: $PACELINE_API_KEY, or nothing)",
    )
    group.add_argument(
        "--model-name",
        type=_name,
        metavar="NAME",
        help="what the model is called (default: as its file, without .gguf)",
    )
    group.add_argument(
        "--chat-template",
        type=_template,
        metavar="FILE",
        help="a chat template (Jinja) in place of the model's, as for a model whose own offers no tools",
    )
    group.add_argument(
        "--cors",
        action="append",
        type=_origin,
        default=[],
        metavar="ORIGIN",
        help="web pages from there may call (more than once, or *)",
    )
    group.add_argument("--max-body", type=_count, default=8 << 20, metavar="BYTES", help="largest body (default 8 MiB)")
    group.add_argument(
        "--max-connections",
        type=_count,
        default=1024,
        metavar="N",
        help="how many may have a request at once; more get 503 (default 1024)",
    )
    group.add_argument(
        "--max-seconds",
        type=_some_seconds,
        default=3600.0,
        metavar="S",
        help="longest time for an answer; what takes longer is cancelled (default 3600)",
    )
    group.add_argument(
        "--default-max-tokens",
        type=_count,
        metavar="N",
        help="most tokens of a chat's answer if its request does not say (default: what the context has room for)",
    )
    group.add_argument("--restart", action="store_true", help="start the daemon again if it dies, as often as it takes")
    group.add_argument(
        "--grace", type=_seconds, default=30.0, metavar="S", help="seconds to finish at SIGTERM (default 30)"
    )


def _host(word: str) -> str:
    """An empty one, as from a variable that is not set, would mean every interface, which is hardly intended."""
    if not word.strip():
        raise ArgumentTypeError("it is empty, expected an address; 0.0.0.0 is every one of this machine")
    return word


def _key(word: str) -> str:
    """Without the blanks around it, which no header can hold. An empty one would let everybody in, while whoever gave
    it meant to keep somebody out."""
    if not (key := word.strip(whitespace)):
        raise ArgumentTypeError("it is empty, expected a key; without --api-key and PACELINE_API_KEY none is asked for")
    return key


def _name(word: str) -> str:
    if not word.strip() or not word.isprintable():
        raise ArgumentTypeError(f"{word!r}: expected a name")
    return word


def _template(word: str) -> str:
    """The source, which is not empty."""
    from ..chat import ChatTemplate

    try:
        source = Path(word).read_text(encoding="utf-8")
        ChatTemplate(source)
    except OSError as problem:
        raise ArgumentTypeError(f"{word}: {problem.strerror}, expected a file") from None
    except ValueError as problem:  # not UTF-8 either
        raise ArgumentTypeError(f"{word}: {problem}") from None
    if not source.strip():
        raise ArgumentTypeError(f"{word}: it is empty, expected a template")
    return source


def _port(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and int(word) < 65536):
        raise ArgumentTypeError(f"{word!r}: expected 0 to 65535")
    return int(word)


def _seconds(word: str) -> float:
    try:
        seconds = float(word)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST:
        raise ArgumentTypeError(f"{word!r}: expected seconds, from 0 to {LONGEST:g}")
    return seconds


def _some_seconds(word: str) -> float:
    if not (seconds := _seconds(word)):
        raise ArgumentTypeError(f"{word!r}: expected more than 0 seconds")
    return seconds


def _origin(word: str) -> str:
    """As a browser names it: in lower case, without a path, not even a slash, and without the port that its scheme
    implies. Any other would never match."""
    scheme, mark, host = word.partition("://")
    implied = {"http": ":80", "https": ":443"}.get(scheme, "/")
    named = bool(scheme and mark and host) and word == word.lower() and "/" not in host and not host.endswith(implied)
    if word not in ("*", "null") and not named:
        raise ArgumentTypeError(f"{word!r}: expected an origin as browsers name it, https://example.org, or *")
    return word


def _count(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and int(word) > 0):
        raise ArgumentTypeError(f"{word!r}: expected a whole number from 1 on")
    return int(word)
