"""The two forms of a prompt: ids in the line itself, or a file of raw little-endian int32 ids."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from .errors import Refusal
from .words import LARGEST, integer, quoted, text

_PREFIX: Final = "ids:"
_IDS: Final = re.compile(r"[0-9]{1,20}(?:,[0-9]{1,20})*")


@dataclass(frozen=True, slots=True)
class Ids:
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PromptFile:
    path: str


Prompt = Ids | PromptFile


def read_prompt(word: str) -> Prompt:
    if word[: len(_PREFIX)].lower() != _PREFIX:
        return PromptFile(text("prompt", word))
    ids = word[len(_PREFIX) :]
    if not ids:
        raise Refusal("prompt_empty", f"prompt {quoted(word)} holds no token ids")
    words = ids.split(",")
    if _IDS.fullmatch(ids) and max(tokens := tuple(map(int, words))) <= LARGEST:
        return Ids(tokens)
    try:  # one of them is no id: read one by one, so that the error names it
        return Ids(tuple(integer(f"prompt token {index}", word, 0) for index, word in enumerate(words)))
    except Refusal as refusal:
        raise Refusal("prompt_bad_token", refusal.error) from None


def can_be_read(tokens: tuple[int, ...]) -> bool:
    """Whether `read_prompt` gives these back, once they are written."""
    return set(map(type, tokens)) == {int} and min(tokens) >= 0 and max(tokens) <= LARGEST


def write_prompt(prompt: Prompt) -> str:
    if isinstance(prompt, Ids):
        return _PREFIX + ",".join(map(str, prompt.tokens))
    return prompt.path
