"""Text to token ids and back, and the chat template, of a Hugging Face folder."""

from functools import partial
from pathlib import Path
from typing import Any, Final

import tokenizers

from ..native.weights import SETTINGS, FolderTokens, read_metadata, read_tokenizer_settings, untokenizable
from .chat import BrokenTemplate, ChatTemplate, NoTemplate
from .tokenizer import COMPOSES, Vocabulary, encoded

TEMPLATE: Final = "chat_template.jinja"
TOKENS: Final = ("bos_token", "eos_token", "pad_token", "unk_token")  # that a template may ask for


class FolderTokenizer(Vocabulary):
    """For a Hugging Face folder, from its own tokenizer.json; `vocab` may be larger than the number of tokens in
    that."""

    def __init__(self, path: Path) -> None:
        """Raises ModelUnreadable."""
        try:
            tokens = FolderTokens(path)
            with_control, plain = tokens.encoder(), tokens.encoder()
            plain.encode_special_tokens = True
            pieces = tokens.pieces(plain)
        except ValueError as problem:
            raise untokenizable(path, problem) from None
        self.longest = COMPOSES * max(map(len, pieces.texts), default=1)
        self._pieces = pieces.padded(read_metadata(path).vocab).texts
        self.vocab = len(self._pieces)
        self.bos, self.eos = (_spelling(tokens.settings, key) for key in ("bos_token", "eos_token"))
        self._with_control, self._plain = partial(encoded, with_control), partial(encoded, plain)
        self._begin = _begin(with_control)

    def encode_rendered(self, text: str) -> list[int]:
        """As transformers does, a begin token only where the template has one."""
        return self._with_control(text)


def folder_chat_template(path: Path, source: str | None = None) -> ChatTemplate:
    """`source`, or the template in a file of its own, or the one among the tokenizer's settings. Raises NoTemplate,
    BrokenTemplate."""
    try:
        settings = read_tokenizer_settings(path)
        source = source or _template(path, settings)
        return ChatTemplate(source, {name: token for name in TOKENS if (token := _spelling(settings, name))})
    except OSError as problem:
        reason = f"the file {TEMPLATE} cannot be read ({problem.strerror or problem})"
        raise BrokenTemplate(path, reason) from None
    except ValueError as problem:
        raise BrokenTemplate(path, str(problem)) from None


def _template(path: Path, settings: dict[str, Any]) -> str:
    """Raises NoTemplate, OSError, ValueError."""
    if (path / TEMPLATE).exists():
        return (path / TEMPLATE).read_text(encoding="utf-8")
    found = settings.get("chat_template")
    if isinstance(found, list):  # one for each purpose
        named = [entry for entry in found if isinstance(entry, dict) and entry.get("name") == "default"]
        found = named[0].get("template") if named else None
    if not isinstance(found, str) or not found:
        raise NoTemplate(f"{path} has no chat template, expected {TEMPLATE} or the key 'chat_template' of {SETTINGS}")
    return found


def _begin(encoder: tokenizers.Tokenizer) -> list[int]:
    """What the tokenizer puts before any text."""
    plain: list[int] = encoder.encode("a", add_special_tokens=False).ids
    whole: list[int] = encoder.encode("a", add_special_tokens=True).ids
    starts = (n for n in range(len(whole)) if whole[n : n + len(plain)] == plain)
    return whole[: next(starts, 0)] if plain else []


def _spelling(settings: dict[str, Any], key: str) -> str:
    """A token's text, which is given as a string or as the `content` of an object."""
    found = settings.get(key)
    text = found.get("content") if isinstance(found, dict) else found
    return text if isinstance(text, str) else ""
