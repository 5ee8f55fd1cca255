"""The text side of a model: prompts to ids, ids to text."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from ..chat import BrokenTemplate, ChatRefused, ChatTemplate, NoTemplate
from ..detokenizer import Detokenizer
from ..harmony import Channels, harmony_call, harmony_marks
from ..model_text import open_chat_template, open_tokenizer
from ..stop_strings import Searched, StopStrings
from .refused import HttpRefused, wrong
from .requests.asked import Chat, Ids, Text
from .requests.tools import Tools
from .speech.call_marks import call_marks_of
from .speech.call_splitter import CallSplitter
from .speech.channels import ChannelSplitter, Counted
from .speech.cutter import Cutter
from .speech.thinking import Splitter, marks_of
from .speech.voice import Voice
from .template_needs import prepared

MOST_CHARACTERS: Final = 1 << 20  # of a text for /tokenize
MOST_IDS: Final = 1 << 20  # for /detokenize


class Tokens(Protocol):
    longest: int  # bytes of a text that one token can stand for

    def encode(self, text: str, special: bool = True) -> list[int]: ...
    def encode_rendered(self, text: str) -> list[int]: ...
    def detokenizer(self) -> Detokenizer: ...


class NumberTokens:
    """For an engine without a vocabulary of words: a text's UTF-8 bytes are its ids, and an id's text is its number
    and a blank."""

    longest = 1

    def __init__(self, vocab: int) -> None:
        self._pieces = [b"%d " % token for token in range(vocab)]

    def encode(self, text: str, special: bool = True) -> list[int]:
        return list(text.encode())

    def encode_rendered(self, text: str) -> list[int]:
        return self.encode(text)

    def detokenizer(self) -> Detokenizer:
        return Detokenizer(self._pieces)


class Given(NamedTuple):
    """A prompt as the daemon takes it. `param` is the field that it came in; `text` is set for a chat: what the answer
    continues; `tools` are what it may call, and `begun` is the beginning of a call that it has to make."""

    ids: Sequence[int]
    param: str
    text: str | None = None
    tools: Tools | None = None
    begun: str = ""


class Texts:
    """`vocab` is the number of ids that the engine knows, `context` the number of positions. `broken` says why a
    template that exists cannot be used."""

    def __init__(
        self, tokens: Tokens, template: ChatTemplate | None, vocab: int, context: int, broken: str | None = None
    ) -> None:
        self.detokenizer = tokens.detokenizer
        self._tokens = tokens
        self._template = template
        self.broken = broken
        self._marks = marks_of(template.source) if template else None
        self._harmony = harmony_marks(template.source, tokens) if template else {}
        self._calls = call_marks_of(template.source) if template and not self._harmony else None
        self._vocab = vocab
        self._context = context
        self.spell = tokens.detokenizer().piece

    @classmethod
    def open(cls, path: Path, vocab: int, context: int) -> "Texts":
        """Raises ModelUnreadable for a model whose tokenizer is not supported; one whose template is missing or broken
        has no chat, but completions, which do not need it."""
        tokens = open_tokenizer(path)
        try:
            return cls(tokens, open_chat_template(path), vocab, context)
        except NoTemplate:
            return cls(tokens, None, vocab, context)
        except BrokenTemplate as problem:
            return cls(tokens, None, vocab, context, problem.reason)

    @classmethod
    def numbers(cls, vocab: int, context: int) -> "Texts":
        lines = "{% for message in messages %}{{ message.content }}\n{% endfor %}"
        return cls(NumberTokens(vocab), ChatTemplate(lines), vocab, context)

    def read(self, prompt: Text | Ids | Chat) -> Given:
        """Raises HttpRefused."""
        match prompt:
            case Ids(tokens):
                return Given(self.checked(tokens, prompt.param), prompt.param)
            case Text(text):
                return Given(self._prompt(text, prompt.param, self._tokens.encode), prompt.param)
            case Chat():
                rendered, begun = self._rendered(prompt), self._begun(prompt.tools)
                if begun and self._marks and rendered.rstrip().endswith(self._marks.begin):
                    rendered += f"\n{self._marks.end}\n\n"  # it is not to think first
                ids = self._prompt(rendered + begun, prompt.param, self._tokens.encode_rendered)
                return Given(ids, prompt.param, rendered + begun, prompt.tools, begun)

    def voice(self, given: Given, stops: Sequence[str]) -> Voice:
        """Of one answer to this prompt. Only that of a chat is split: there the template tells how the model marks what
        it thinks and calls."""
        decoder, strings = self.detokenizer(), StopStrings(stops)
        if given.text is None:
            return Voice(Cutter(decoder, strings))
        if self._harmony:
            counted = Counted(Channels(self._harmony, decoder, given.text, strings, given.tools is not None))
            several = given.tools is None or given.tools.several
            return Voice(Cutter(counted, Searched(strings)), ChannelSplitter(counted, several))
        thoughts = Splitter.after(self._marks, given.text) if self._marks else None
        calls = CallSplitter(self._calls, given.tools, given.begun) if self._calls and given.tools else None
        return Voice(Cutter(decoder, strings), thoughts, calls)

    def encode(self, text: str, field: str, special: bool = True) -> list[int]:
        """Raises HttpRefused."""
        return self._tokens.encode(_checked(text, field), special)

    def _begun(self, tools: Tools | None) -> str:
        if not tools or not tools.must:
            return ""
        name = tools.must[0] if len(tools.must) == 1 else None
        return self._calls.opening(name) if self._calls else harmony_call(name)

    def _rendered(self, chat: Chat) -> str:
        if self._template is None:
            raise self._no_chat()
        names = dict(chat.names)
        if chat.tools:
            if not self._calls and not self._harmony:
                raise wrong("tools", "the model's chat template offers none in a known way", "unsupported_parameter")
            names["tools"] = chat.tools.described
        messages = prepared(chat.messages, self._template.source, self._calls, bool(self._harmony))
        try:
            return self._template.render(messages, **names)
        except ChatRefused as problem:
            raise wrong(chat.param, str(problem)) from None

    def _no_chat(self) -> HttpRefused:
        """A retry would not help, so it is 400 in both cases."""
        if self.broken is None:
            return HttpRefused(400, "this model has no chat template, use /v1/completions", code="no_template")
        return HttpRefused(400, f"this model has no chat, use /v1/completions: {self.broken}", code="broken_template")

    def _prompt(self, text: str, field: str, encode: Callable[[str], list[int]]) -> list[int]:
        """A text that can't fit is not even tokenized: that would take seconds for some megabytes."""
        if len(text) > self._context * self._tokens.longest:
            raise wrong(field, f"is longer than {self._context} tokens, the context, can be", "context_length_exceeded")
        return encode(_checked(text, field))

    def decode(self, tokens: Sequence[int]) -> str:
        return b"".join(map(self.spell, tokens)).decode("utf-8", "replace")

    def checked(self, tokens: Sequence[int], field: str) -> Sequence[int]:
        if tokens and not (min(tokens) >= 0 and max(tokens) < self._vocab):
            place, token = next((n, one) for n, one in enumerate(tokens) if not 0 <= one < self._vocab)
            raise wrong(field, f"token {place} is {token}, expected 0 to {self._vocab - 1}")
        return tokens


def _checked(text: str, field: str) -> str:
    """JSON can spell text that is not valid Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise wrong(field, "holds half of a surrogate pair, which is no character") from None
    return text
