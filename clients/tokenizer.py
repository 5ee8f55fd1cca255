"""Text to token ids and back, for byte-level BPE vocabularies, built from a model file's own metadata."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import tokenizers
from tokenizers.models import BPE

from ..native.weights import ModelUnreadable, read_metadata
from .detokenizer import Detokenizer, byte_pieces, decode
from .pretokenizers import SUPPORTED, pretokenizer

CONTROL: Final = 3
USER_DEFINED: Final = 4
LLAMA_3: Final = "llama-bpe"  # takes a word that is itself a token whole, and begins a prompt with its begin token


class Tokenizer:
    """One model's vocabulary of `vocab` tokens; `bos` and `eos` are its begin and end tokens as text, empty if it has
    none."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """`values` are a model file's key/values; raises ValueError, in one sentence, for what is not supported."""
        model = values.get("tokenizer.ggml.model", "none")
        if model != "gpt2":
            raise ValueError(f"its tokenizer model is {model!r}, supported is 'gpt2' (byte-level BPE)")
        kind = values.get("tokenizer.ggml.pre", "default")
        if kind not in SUPPORTED:
            raise ValueError(f"its pre-tokenizer is {kind!r}, supported are {', '.join(SUPPORTED)}")
        tokens: list[str] = values.get("tokenizer.ggml.tokens", [])
        types: list[int] = values.get("tokenizer.ggml.token_type", [])
        merges = [tuple(merge.split(" ", 1)) for merge in values.get("tokenizer.ggml.merges", [])]
        marks = {number: type_ for number, type_ in enumerate(types) if type_ in (CONTROL, USER_DEFINED)}
        self._ids = {token: number for number, token in enumerate(tokens)}
        try:
            words = BPE(self._ids, merges, ignore_merges=kind == LLAMA_3)
            self._with_control = _encoder(words, kind, [tokens[number] for number in marks])
            self._plain = _encoder(words, kind, [tokens[n] for n, type_ in marks.items() if type_ == USER_DEFINED])
        except Exception as problem:  # the library raises no narrower type
            raise ValueError(f"its vocabulary and merges do not fit together: {problem}") from None
        self._pieces = byte_pieces(tokens, marks)
        self.vocab = len(tokens)
        self.bos = _spelling(tokens, values.get("tokenizer.ggml.bos_token_id"))
        self.eos = _spelling(tokens, values.get("tokenizer.ggml.eos_token_id"))
        self._begin = self.bos if values.get("tokenizer.ggml.add_bos_token", kind == LLAMA_3) else ""

    @classmethod
    def from_gguf(cls, path: str | Path) -> Self:
        """Reads just the file's metadata; raises ModelUnreadable."""
        values = read_metadata(Path(path)).values
        try:
            return cls(values)
        except ValueError as problem:
            raise ModelUnreadable(f"cannot turn text into tokens with {path}: {problem}") from None

    def encode(self, text: str, special: bool = True) -> list[int]:
        """The ids of `text`. With `special`, control tokens spelled out in it (<|im_end|>) become their ids, and a
        model that wants a begin token gets one; without, all of it is plain text and nothing is added."""
        encoder = self._with_control if special else self._plain
        ids: list[int] = encoder.encode(text, add_special_tokens=False).ids
        if special and self._begin and ids[:1] != [self._ids[self._begin]]:
            ids.insert(0, self._ids[self._begin])
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, control tokens spelled out; bytes that are no UTF-8 show as U+FFFD."""
        return decode(self._pieces, ids)

    def detokenizer(self) -> Detokenizer:
        """A fresh Detokenizer: one for each request."""
        return Detokenizer(self._pieces)


def _encoder(words: BPE, kind: str, added: Sequence[str]) -> tokenizers.Tokenizer:
    encoder = tokenizers.Tokenizer(words)
    encoder.pre_tokenizer = pretokenizer(kind)
    encoder.add_tokens([tokenizers.AddedToken(content, normalized=False) for content in added])
    return encoder


def _spelling(tokens: Sequence[str], number: int | None) -> str:
    return tokens[number] if number is not None and 0 <= number < len(tokens) else ""
