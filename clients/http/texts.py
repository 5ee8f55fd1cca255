"""The text side of a model: prompts to ids, ids to text."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from ...protocol import Grammar
from ..chat import BrokenTemplate, ChatTemplate
from ..detokenizer import Detokenizer
from ..model_text import open_text
from ..stop_strings import StopStrings
from .chats import Chats, Rendered
from .infill import gap_marks_of
from .refused import ContextExceeded, HttpRefused, wrong
from .requests.asked import Chat, Ids, Text
from .requests.formats import Format
from .requests.holds import Hold
from .speech.cutter import Cutter
from .speech.voice import Voice

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
    """A prompt as the daemon takes it. `param` is the field that it came in; `chat` is set for one: what the answer
    continues."""

    ids: Sequence[int]
    param: str
    chat: Rendered | None = None


class Texts:
    """`vocab` is the number of ids that the engine knows, `context` the number of positions. `broken` says why a
    template that exists cannot be used."""

    def __init__(
        self, tokens: Tokens, template: ChatTemplate | None, vocab: int, context: int, broken: str | None = None
    ) -> None:
        self.detokenizer = tokens.detokenizer
        self._tokens = tokens
        self._chats = Chats(template, tokens) if template else None
        self._gap = gap_marks_of(tokens)
        self.broken = broken
        self._vocab = vocab
        self._context = context
        self.spell = tokens.detokenizer().piece

    @classmethod
    def open(cls, path: Path, vocab: int, context: int, template: str | None = None) -> "Texts":
        """`template`: the source of one in place of the model's. Raises ModelUnreadable for a model whose tokenizer is
        not supported; one whose template is missing or broken has no chat, but completions, which do not need it."""
        match open_text(path, template):
            case tokens, ChatTemplate() as found:
                return cls(tokens, found, vocab, context)
            case tokens, BrokenTemplate(reason=reason):
                return cls(tokens, None, vocab, context, reason)
            case tokens, _:
                return cls(tokens, None, vocab, context)

    @classmethod
    def numbers(cls, vocab: int, context: int, template: str | None = None) -> "Texts":
        lines = "{% for message in messages %}{{ message.content }}\n{% endfor %}"
        return cls(NumberTokens(vocab), ChatTemplate(template or lines), vocab, context)

    def read(self, prompt: Text | Ids | Chat, bounded: bool = True) -> Given:
        """`bounded`: a text that cannot fit in the context is not even tokenized, which would take seconds for some
        megabytes. Raises HttpRefused."""
        encode = self._prompt if bounded else _whole
        match prompt:
            case Ids(tokens):
                return Given(self.checked(tokens, prompt.param), prompt.param)
            case Text(text, behind):
                if behind and not self._gap:
                    raise wrong("suffix", "the model has no marks for a gap in a text", "unsupported_parameter")
                whole = self._gap.around(text, behind) if behind and self._gap else text
                return Given(encode(whole, prompt.param, self._tokens.encode), prompt.param)
            case Chat():
                if self._chats is None:
                    raise self._no_chat()
                rendered = self._chats.render(prompt)
                ids = encode(rendered.text, prompt.param, self._tokens.encode_rendered)
                return Given(ids, prompt.param, rendered)

    def grammar(self, given: Given, asked: Format | None, hold: Hold = Hold.GIVEN) -> Grammar | None:
        """What the answer must match, with all that may stand around what was asked for. Raises HttpRefused."""
        wanted = asked and ((hold is not Hold.GIVEN and asked.loose) or asked.grammar)
        if given.chat and self._chats:
            return self._chats.grammar(given.chat, wanted, hold)
        return wanted

    def voice(self, given: Given, stops: Sequence[str]) -> Voice:
        """Of one answer to this prompt. Only that of a chat has parts."""
        if given.chat and self._chats:
            return self._chats.voice(given.chat, self.detokenizer(), stops)
        return Voice(Cutter(self.detokenizer(), StopStrings(stops)))

    def encode(self, text: str, field: str, special: bool = True) -> list[int]:
        """Raises HttpRefused."""
        return self._tokens.encode(_checked(text, field), special)

    def predicted(self, text: str) -> list[int]:
        """What an answer may be like. Raises HttpRefused."""
        ids = self._prompt(text, "prediction", lambda whole: self._tokens.encode(whole, False))
        if len(ids) > self._context:
            raise wrong("prediction", f"has {len(ids)} tokens, expected at most the context, {self._context}")
        return ids

    def _no_chat(self) -> HttpRefused:
        """A retry would not help, so it is 400 in both cases."""
        if self.broken is None:
            return HttpRefused(400, "this model has no chat template, use /v1/completions", code="no_template")
        return HttpRefused(400, f"this model has no chat, use /v1/completions: {self.broken}", code="broken_template")

    def _prompt(self, text: str, field: str, encode: Callable[[str], list[int]]) -> list[int]:
        if (least := -(-len(text) // self._tokens.longest)) > self._context:
            raise ContextExceeded(field, least, None, self._context, at_least=True)
        return _whole(text, field, encode)

    def decode(self, tokens: Sequence[int]) -> str:
        return b"".join(map(self.spell, tokens)).decode("utf-8", "replace")

    def checked(self, tokens: Sequence[int], field: str) -> Sequence[int]:
        if tokens and not (min(tokens) >= 0 and max(tokens) < self._vocab):
            place, token = next((n, one) for n, one in enumerate(tokens) if not 0 <= one < self._vocab)
            raise wrong(field, f"token {place} is {token}, expected 0 to {self._vocab - 1}")
        return tokens


def _whole(text: str, field: str, encode: Callable[[str], list[int]]) -> list[int]:
    return encode(_checked(text, field))


def _checked(text: str, field: str) -> str:
    """JSON can spell text that is not valid Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise wrong(field, "holds half of a surrogate pair, which is no character") from None
    return text
