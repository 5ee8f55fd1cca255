"""Text to token ids and back, and the chat template, of a Hugging Face folder."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import tokenizers

from ..native.weights import ModelUnreadable, read_metadata, read_object
from .chat import ChatTemplate
from .detokenizer import Detokenizer, byte_pieces, decode
from .sentence_pieces import blank_pieces
from .tokenizer import COMPOSES, encoded

TOKENIZER: Final = "tokenizer.json"
SETTINGS: Final = "tokenizer_config.json"
TEMPLATE: Final = "chat_template.jinja"


class FolderTokenizer:
    """What Tokenizer is for a GGUF file, by the folder's own tokenizer.json; `vocab` may be more than it has tokens."""

    def __init__(self, path: Path) -> None:
        """Raises ModelUnreadable."""
        try:
            text = json.dumps(read_object(path / TOKENIZER))
            self._with_control, self._plain = _read(text), _read(text)
            self._plain.encode_special_tokens = True
            marks = set(self._plain.get_added_tokens_decoder())
            self._pieces = _pieces(text, self._plain.get_vocab(with_added_tokens=True), marks)
            settings = read_object(path / SETTINGS) if (path / SETTINGS).exists() else {}
        except ValueError as problem:
            raise ModelUnreadable(f"cannot turn text into tokens with {path}: {problem}") from None
        self.vocab = max(len(self._pieces), read_metadata(path).vocab)
        self.longest = COMPOSES * max(map(len, self._pieces), default=1)
        self._pieces += [b""] * (self.vocab - len(self._pieces))
        self.bos, self.eos = _spelling(settings, "bos_token"), _spelling(settings, "eos_token")
        self._begin = _begin(self._with_control)

    def encode(self, text: str, special: bool = True) -> list[int]:
        """The ids of `text`. With `special`, control tokens spelled out in it (<|im_end|>) become their ids, and a
        model that wants a begin token gets one; without, all of it is plain text and nothing is added."""
        ids = encoded(self._with_control if special else self._plain, text)
        return [*self._begin, *ids] if special and ids[: len(self._begin)] != self._begin else ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, control tokens spelled out; bytes that are no UTF-8 show as U+FFFD."""
        return decode(self._pieces, ids)

    def detokenizer(self) -> Detokenizer:
        """A fresh Detokenizer: one for each request."""
        return Detokenizer(self._pieces)


def folder_chat_template(path: Path) -> ChatTemplate:
    """The template in a file of its own, or the one among the tokenizer's settings. Raises ModelUnreadable."""
    try:
        settings = read_object(path / SETTINGS) if (path / SETTINGS).exists() else {}
        source = _template(path, settings)
        return ChatTemplate(source, _spelling(settings, "bos_token"), _spelling(settings, "eos_token"))
    except (OSError, ValueError) as problem:
        raise ModelUnreadable(f"cannot use the chat template of {path}: {problem}") from None


def _template(path: Path, settings: dict[str, Any]) -> str:
    if (path / TEMPLATE).exists():
        return (path / TEMPLATE).read_text(encoding="utf-8")
    found = settings.get("chat_template")
    if isinstance(found, list):  # one for each purpose
        named = [entry for entry in found if isinstance(entry, dict) and entry.get("name") == "default"]
        found = named[0].get("template") if named else None
    if not isinstance(found, str) or not found:
        raise ValueError(f"there is none, expected {TEMPLATE} or the key 'chat_template' of {SETTINGS}")
    return found


def _read(text: str) -> tokenizers.Tokenizer:
    try:
        encoder = tokenizers.Tokenizer.from_str(text)
    except Exception as problem:  # the library raises no narrower type
        raise ValueError(f"the file {TOKENIZER} is not understood ({' '.join(str(problem).split())})") from None
    encoder.no_truncation()
    encoder.no_padding()
    return encoder


def _begin(encoder: tokenizers.Tokenizer) -> list[int]:
    """What the tokenizer puts before any text."""
    plain: list[int] = encoder.encode("a", add_special_tokens=False).ids
    whole: list[int] = encoder.encode("a", add_special_tokens=True).ids
    starts = (n for n in range(len(whole)) if whole[n : n + len(plain)] == plain)
    return whole[: next(starts, 0)] if plain else []


def _pieces(text: str, vocabulary: dict[str, int], marks: set[int]) -> list[bytes]:
    """Each id's bytes; an id between the others that no token has is none."""
    tokens = [""] * (max(vocabulary.values(), default=-1) + 1)
    for token, number in vocabulary.items():
        tokens[number] = token
    kinds = _kinds(json.loads(text).get("decoder"))
    if "ByteLevel" in kinds:
        return byte_pieces(tokens, marks)
    if "ByteFallback" in kinds:
        return blank_pieces(tokens)
    raise ValueError(f"its decoder is {' '.join(kinds) or None}, supported are ByteLevel and ByteFallback")


def _kinds(decoder: Any) -> list[str]:
    """The names of a decoder and of those that it is made of."""
    if not isinstance(decoder, dict):
        return []
    return [str(decoder.get("type")), *(kind for part in decoder.get("decoders", ()) for kind in _kinds(part))]


def _spelling(settings: dict[str, Any], key: str) -> str:
    """A token's text, which stands there as it is or as an object's `content`."""
    found = settings.get(key)
    text = found.get("content") if isinstance(found, dict) else found
    return text if isinstance(text, str) else ""
