"""The tokenizer and the chat template of a model, whether it is a GGUF file or a Hugging Face folder."""

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from operator import index
from pathlib import Path
from typing import NamedTuple, cast

from ..native.weights import Metadata, ModelUnreadable, read_metadata
from .answer import Prompt, Stops
from .chat import BrokenTemplate, ChatTemplate, Message, NoTemplate
from .detokenizer import Decoder
from .folder_text import FolderTokenizer, folder_chat_template
from .harmony import FINAL, Channels, Spelled, harmony_marks
from .stop_strings import Searched, StopStrings
from .thoughts import marks_of
from .tokenizer import Tokenizer, Vocabulary

Template = ChatTemplate | NoTemplate | BrokenTemplate  # a model without a usable one still has text
Opened = Metadata | Path  # of a GGUF file; a folder


class Order(NamedTuple):
    """What a prompt is turned into: its ids, the total, the tokens and the strings that stop it, and a decoder for its
    answer."""

    ids: list[int]
    total: int
    stop_tokens: tuple[int, ...]
    stop_strings: StopStrings
    decoder: Decoder | None


class ModelText:
    """A model's tokenizer and chat template, read when a text is first needed."""

    def __init__(self, path: str | None, most_positions: int) -> None:
        self._path = path
        self._most_positions = most_positions

    @cached_property
    def _text(self) -> tuple[Vocabulary, Template]:
        return open_text(self._file())

    @property
    def tokenizer(self) -> Vocabulary:
        return self._text[0]

    @property
    def chat_template(self) -> ChatTemplate:
        return usable(self._text[1])

    @cached_property
    def _marks(self) -> dict[int, str]:
        return harmony_marks(self.chat_template.source, self.tokenizer)

    def ids(self, prompt: Prompt) -> list[int]:
        """A text as it is, control tokens included; messages through the chat template; ids unchanged. Raises
        ValueError if there are none, and for a text that is not valid Unicode."""
        return self._read(prompt)[0]

    def _read(self, prompt: Prompt, at_once: bool = False) -> tuple[list[int], str | None]:
        """The ids, and what the chat template has made of messages. `at_once`: the answer is to come without thoughts
        before it."""
        rendered = None
        if isinstance(prompt, bytes | bytearray | Mapping):
            raise TypeError(f"prompt: a {type(prompt).__name__}, expected a text, a list of messages or token ids")
        if isinstance(prompt, str):
            ids = self.tokenizer.encode(_checked(prompt))
        elif len(prompt) and isinstance(prompt[0], Mapping):  # an array has no truth value
            rendered = _checked(self.chat_template.render(cast(Sequence[Message], prompt)))
            rendered = self._thoughtless(rendered) if at_once else rendered
            ids = self.tokenizer.encode_rendered(rendered)
        else:
            ids = list(cast(Sequence[int], prompt))
        if not ids:
            raise ValueError("prompt: it is empty, expected at least one token")
        return ids, rendered

    def _thoughtless(self, rendered: str) -> str:
        if self._marks:
            return rendered + FINAL
        marks = marks_of(self.chat_template.source)
        return marks.closed(rendered) if marks else rendered

    def order(self, prompt: Prompt, max_tokens: int | None, stop: Stops, at_once: bool = False) -> Order:
        """Without `max_tokens`, an answer may take all the room there is. `at_once`: no thoughts come first. Raises
        ValueError for an empty prompt or stop string and for less than one token, TypeError, ModelUnreadable,
        ChatRefused."""
        words = [stop] if isinstance(stop, str) else stop
        strings = [word for word in words if isinstance(word, str)]
        try:
            tokens = tuple(index(word) for word in words if not isinstance(word, str))
        except TypeError:
            raise TypeError(f"stop: {stop!r}, expected texts and token ids") from None
        ids, rendered = self._read(prompt, at_once)
        if max_tokens is not None and max_tokens < 1:
            raise ValueError(f"max_tokens: {max_tokens}, expected at least 1")
        total = max(1, self._most_positions - len(ids)) if max_tokens is None else max_tokens
        return Order(ids, total, tokens, *self._decoder(StopStrings(strings), bool(strings), rendered))

    def _decoder(self, strings: StopStrings, needed: bool, rendered: str | None) -> tuple[StopStrings, Decoder | None]:
        try:
            decoder = self.tokenizer.detokenizer()
        except ModelUnreadable:
            if needed:
                raise
            return strings, None
        if rendered is not None and (marks := self._marks):
            return Searched(strings), Spelled(Channels(marks, decoder, rendered, strings))
        return strings, decoder

    def _file(self) -> str:
        if self._path is None:
            raise ModelUnreadable("the daemon has no model file to read text with: expected ids and no stop string")
        return self._path


def _checked(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("prompt: it holds half of a surrogate pair, which is no character") from None
    return text


def open_text(path: str | Path, source: str | None = None) -> tuple[Vocabulary, Template]:
    """Both, of one reading of the file; `source` as for `open_chat_template`. Raises ModelUnreadable: without a
    tokenizer a template is of no use."""
    model = _opened(path)
    tokenizer = _tokenizer(model)
    try:
        return tokenizer, _chat_template(model, source)
    except (NoTemplate, BrokenTemplate) as problem:
        return tokenizer, copy(problem)  # whose frames hold all of the metadata


def usable(template: Template) -> ChatTemplate:
    """Raises NoTemplate, BrokenTemplate."""
    if isinstance(template, ChatTemplate):
        return template
    raise copy(template)  # as it is kept, each raise would lengthen its traceback


def open_tokenizer(path: str | Path) -> Vocabulary:
    """Raises ModelUnreadable."""
    return _tokenizer(_opened(path))


def open_chat_template(path: str | Path, source: str | None = None) -> ChatTemplate:
    """The model's template, or `source` with the model's tokens. Raises ModelUnreadable, NoTemplate, BrokenTemplate."""
    return _chat_template(_opened(path), source)


def _opened(path: str | Path) -> Opened:
    path = Path(path)
    return path if path.is_dir() else read_metadata(path)


def _tokenizer(model: Opened) -> Vocabulary:
    return FolderTokenizer(model) if isinstance(model, Path) else Tokenizer.from_gguf(model)


def _chat_template(model: Opened, source: str | None) -> ChatTemplate:
    return folder_chat_template(model, source) if isinstance(model, Path) else ChatTemplate.from_gguf(model, source)
