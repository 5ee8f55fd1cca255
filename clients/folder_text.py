"""Text to token ids and back, and the chat template, of a Hugging Face folder."""

import json
from functools import partial
from pathlib import Path
from typing import Any, Final

import tokenizers

from ..native.weights import ModelUnreadable, read_metadata, read_object
from .chat import BrokenTemplate, ChatTemplate, NoTemplate
from .detokenizer import byte_pieces
from .sentence_pieces import blank_pieces
from .tokenizer import COMPOSES, Vocabulary, encoded

TOKENIZER: Final = "tokenizer.json"
SETTINGS: Final = "tokenizer_config.json"
SPECIAL_TOKENS: Final = "special_tokens_map.json"
TEMPLATE: Final = "chat_template.jinja"
FLAGS: Final = ("single_word", "lstrip", "rstrip", "normalized", "special")  # of an added token
TOKENS: Final = ("bos_token", "eos_token", "pad_token", "unk_token")  # that a template may ask for


class FolderTokenizer(Vocabulary):
    """For a Hugging Face folder, from its own tokenizer.json; `vocab` may be larger than the number of tokens in
    that."""

    def __init__(self, path: Path) -> None:
        """Raises ModelUnreadable."""
        try:
            text = json.dumps(read_object(path / TOKENIZER))
            settings = _read_settings(path)
            with_control, plain = (_read(text, settings) for _ in range(2))
            plain.encode_special_tokens = True
            marks = set(plain.get_added_tokens_decoder())
            self._pieces = _pieces(text, plain.get_vocab(with_added_tokens=True), marks)
        except ValueError as problem:
            raise ModelUnreadable(f"cannot turn text into tokens with {path}: {problem}") from None
        self.vocab = max(len(self._pieces), read_metadata(path).vocab)
        self.longest = COMPOSES * max(map(len, self._pieces), default=1)
        self._pieces += [b""] * (self.vocab - len(self._pieces))
        self.bos, self.eos = _spelling(settings, "bos_token"), _spelling(settings, "eos_token")
        self._with_control, self._plain = partial(encoded, with_control), partial(encoded, plain)
        self._begin = _begin(with_control)

    def encode_rendered(self, text: str) -> list[int]:
        """As transformers does, a begin token only where the template has one."""
        return self._with_control(text)


def folder_chat_template(path: Path) -> ChatTemplate:
    """The template in a file of its own, or the one among the tokenizer's settings. Raises NoTemplate,
    BrokenTemplate."""
    try:
        settings = _read_settings(path)
        source = _template(path, settings)
        return ChatTemplate(source, {name: token for name in TOKENS if (token := _spelling(settings, name))})
    except OSError as problem:
        reason = f"the file {TEMPLATE} cannot be read ({problem.strerror or problem})"
        raise BrokenTemplate(path, reason) from None
    except ValueError as problem:
        raise BrokenTemplate(path, str(problem)) from None


def _read_settings(path: Path) -> dict[str, Any]:
    """Older folders have the special tokens in a file of their own; as in transformers, it is not read where the
    settings list the added tokens. Raises ValueError."""
    special, settings = (
        read_object(path / name) if (path / name).exists() else {} for name in (SPECIAL_TOKENS, SETTINGS)
    )
    if "added_tokens_decoder" in settings:
        return settings
    return special | {key: value for key, value in settings.items() if value is not None}


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


def _read(text: str, settings: dict[str, Any]) -> tokenizers.Tokenizer:
    """As in transformers, added_tokens_decoder of the settings may add tokens, or say otherwise how one is matched."""
    try:
        encoder = tokenizers.Tokenizer.from_str(text)
    except Exception as problem:  # the library raises no narrower type
        raise ValueError(f"the file {TOKENIZER} is not understood ({' '.join(str(problem).split())})") from None
    encoder.no_truncation()
    encoder.no_padding()
    known = {repr(token) for token in encoder.get_added_tokens_decoder().values()}
    encoder.add_tokens([token for token in _added(settings) if repr(token) not in known])
    return encoder


def _added(settings: dict[str, Any]) -> list[tokenizers.AddedToken]:
    """The tokens that the settings list, by id."""
    listed = settings.get("added_tokens_decoder") or {}
    if not isinstance(listed, dict) or not all(number.isdecimal() for number in listed):
        raise ValueError(f"the key 'added_tokens_decoder' of {SETTINGS} is no table of token ids")
    tokens = []
    for number, entry in sorted(listed.items(), key=lambda item: int(item[0])):
        if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
            raise ValueError(f"the token {number} in 'added_tokens_decoder' of {SETTINGS} has no content")
        flags = {flag: entry[flag] for flag in FLAGS if type(entry.get(flag)) is bool}
        tokens.append(tokenizers.AddedToken(entry["content"], **flags))
    return tokens


def _begin(encoder: tokenizers.Tokenizer) -> list[int]:
    """What the tokenizer puts before any text."""
    plain: list[int] = encoder.encode("a", add_special_tokens=False).ids
    whole: list[int] = encoder.encode("a", add_special_tokens=True).ids
    starts = (n for n in range(len(whole)) if whole[n : n + len(plain)] == plain)
    return whole[: next(starts, 0)] if plain else []


def _pieces(text: str, vocabulary: dict[str, int], marks: set[int]) -> list[bytes]:
    """Each id's bytes; none for an id between others that no token has."""
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
    """A token's text, which is given as a string or as the `content` of an object."""
    found = settings.get(key)
    text = found.get("content") if isinstance(found, dict) else found
    return text if isinstance(text, str) else ""
