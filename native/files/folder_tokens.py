"""The tokens of a Hugging Face folder: its tokenizer.json, and the settings that may add some."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .model_file import read_object
from .pieces import Pieces, blank_pieces, byte_pieces
from .text_ends import SETTINGS, TOKENIZER

if TYPE_CHECKING:
    import tokenizers

SPECIAL_TOKENS = "special_tokens_map.json"
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")  # of an added token


class FolderTokens:
    """Whatever cannot be used raises ValueError, naming the file."""

    def __init__(self, path: Path) -> None:
        found = read_object(path / TOKENIZER)
        self._text, self._decoder = json.dumps(found), found.get("decoder")
        self.settings = read_tokenizer_settings(path)

    def encoder(self) -> tokenizers.Tokenizer:
        """A new one each time. As in transformers, added_tokens_decoder of the settings may add tokens, or say
        otherwise how one is matched."""
        import tokenizers  # a daemon has no other use for it, and begins sooner without

        try:
            encoder = tokenizers.Tokenizer.from_str(self._text)
        except Exception as problem:  # the library raises no narrower type
            raise ValueError(f"the file {TOKENIZER} is not understood ({' '.join(str(problem).split())})") from None
        encoder.no_truncation()
        encoder.no_padding()
        known = {repr(token) for token in encoder.get_added_tokens_decoder().values()}
        added = [tokenizers.AddedToken(content, **flags) for content, flags in _added(self.settings)]
        encoder.add_tokens([token for token in added if repr(token) not in known])
        return encoder

    def pieces(self, encoder: tokenizers.Tokenizer) -> Pieces:
        """Of all ids of an encoder of this folder; nothing for an id between others that no token has."""
        vocabulary: dict[str, int] = encoder.get_vocab(with_added_tokens=True)
        tokens = [""] * (max(vocabulary.values(), default=-1) + 1)
        for token, number in vocabulary.items():
            tokens[number] = token
        added = encoder.get_added_tokens_decoder()
        marks, control = frozenset(added), frozenset(number for number, token in added.items() if token.special)
        kinds = _kinds(self._decoder)
        if "ByteLevel" in kinds:
            return Pieces(byte_pieces(tokens, marks), marks, control)
        if "ByteFallback" in kinds:
            return Pieces(blank_pieces(tokens), marks, control)
        raise ValueError(f"its decoder is {' '.join(kinds) or None}, supported are ByteLevel and ByteFallback")


def read_tokenizer_settings(path: Path) -> dict[str, Any]:
    """Older folders have the special tokens in a file of their own; as in transformers, it is not read where the
    settings list the added tokens. Raises ValueError."""
    special, settings = (
        read_object(path / name) if (path / name).exists() else {} for name in (SPECIAL_TOKENS, SETTINGS)
    )
    if "added_tokens_decoder" in settings:
        return settings
    return special | {key: value for key, value in settings.items() if value is not None}


def _added(settings: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, bool]]]:
    """The content and flags of the tokens that the settings list, by id. Raises ValueError."""
    listed = settings.get("added_tokens_decoder") or {}
    if not isinstance(listed, dict) or not all(number.isdecimal() for number in listed):
        raise ValueError(f"the key 'added_tokens_decoder' of {SETTINGS} is no table of token ids")
    for number, entry in sorted(listed.items(), key=lambda item: int(item[0])):
        if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
            raise ValueError(f"the token {number} in 'added_tokens_decoder' of {SETTINGS} has no content")
        yield entry["content"], {flag: entry[flag] for flag in FLAGS if type(entry.get(flag)) is bool}


def _kinds(decoder: Any) -> list[str]:
    """The names of a decoder and of those that it is made of."""
    if not isinstance(decoder, dict):
        return []
    return [str(decoder.get("type")), *(kind for part in decoder.get("decoders", ()) for kind in _kinds(part))]
