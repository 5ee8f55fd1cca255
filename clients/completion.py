"""`paceline completion`: a script that completes the command line in a shell."""

from argparse import Action, ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Iterator
from typing import Any, Final

ABOUT: Final = """\
Prints a script for SHELL, which then completes commands, flags, their choices and the names of model files."""
EXAMPLES: Final = """\
examples:
  paceline completion bash > ~/.local/share/bash-completion/completions/paceline
  paceline completion zsh > ~/.zsh/completions/_paceline       in a folder of $fpath
  paceline completion fish > ~/.config/fish/completions/paceline.fish"""
SHELLS: Final = ("bash", "zsh", "fish")
FILES: Final = ("M", "MODEL")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")


def run(arguments: Namespace) -> int:
    """The exit code."""
    import shtab

    from .cli import COMMANDS, make_parser

    parser = make_parser(everything=True)
    for action in _actions(parser):
        if isinstance(action, _SubParsersAction):
            for name, below in action.choices.items():
                below.description = COMMANDS[name]  # short, as a shell has little room
        if action.metavar in FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, arguments.shell))
    return 0


def _actions(parser: ArgumentParser) -> Iterator[Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, _SubParsersAction):
            choices: dict[str, Any] = action.choices
            for below in choices.values():
                yield from _actions(below)
