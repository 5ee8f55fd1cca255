"""`paceline encode`: text to token ids, the way START wants them."""

import sys
from argparse import ArgumentParser, Namespace
from typing import Final

ABOUT: Final = "Prints the token ids of TEXT on one line, joined by commas: what START takes after `ids:`."
EXAMPLES: Final = """\
examples:
  paceline encode 'Once upon a time'                      6403,1980,253,655
  paceline encode --chat --system 'Be brief.' 'Hello!'    with the model's chat template around it
  paceline encode - < letter.txt                          a whole file, its last newline too"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "text", nargs="+", metavar="TEXT", help="joined by blanks; a single - reads standard input whole"
    )
    parser.add_argument(
        "--model", metavar="M", help="a GGUF file or a Hugging Face folder (default: the demo model, fetched once)"
    )
    parser.add_argument(
        "--chat", action="store_true", help="put TEXT into the model's chat template, as the user's turn"
    )
    parser.add_argument("--system", metavar="S", help="with --chat: the system message")
    parser.add_argument("--plain", action="store_true", help="control tokens spelled out in TEXT are plain text")


def run(arguments: Namespace) -> int:
    """Exit code: 0, or 2 for text that cannot be encoded. Raises ModelUnreadable, ModelUnavailable."""
    if arguments.system is not None and not arguments.chat:
        return _refuse("--system goes with --chat")
    if arguments.plain and arguments.chat:
        return _refuse("--plain does not go with --chat: a chat template is made of control tokens")
    try:
        text = read_text(arguments.text)
        system = decoded(arguments.system) if arguments.system is not None else None
    except UnicodeDecodeError as problem:
        return _refuse(f"the text is not UTF-8: {problem}")
    from ..native.weights import find_model
    from .model_text import open_text, open_tokenizer, usable

    model = find_model(arguments.model)
    if arguments.chat:
        from .errors import ChatRefused

        messages = [{"role": "system", "content": system}] if system is not None else []
        try:
            tokenizer, template = open_text(model)
            text = usable(template).render([*messages, {"role": "user", "content": text}])
        except ChatRefused as problem:
            return _refuse(str(problem))
        ids = tokenizer.encode_rendered(text)
    else:
        ids = open_tokenizer(model).encode(text, special=not arguments.plain)
    print(",".join(map(str, ids)))
    return 0


def read_text(words: list[str]) -> str:
    """Words joined by blanks, or for a single - standard input. Raises UnicodeDecodeError for what is not UTF-8."""
    return sys.stdin.buffer.read().decode("utf-8") if words == ["-"] else decoded(" ".join(words))


def decoded(word: str) -> str:
    """A word of the command line, decoded strictly: what the shell gave us may not be UTF-8."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8")


def _refuse(reason: str) -> int:
    print(f"paceline encode: {reason}", file=sys.stderr)
    return 2
