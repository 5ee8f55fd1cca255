"""Text to token ids and back, for byte-level BPE and SentencePiece's, built from a model file's own metadata.

Gemma 4 has both: the characters and byte tokens of SentencePiece, and the list of merges of byte-level BPE."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Self

import tokenizers
from tokenizers.models import BPE
from tokenizers.normalizers import NFC, Replace

from ..native.weights import BLANK, CONTROL, USER_DEFINED, Metadata, gguf_pieces, token_list, untokenizable
from .detokenizer import Detokenizer, decode
from .pretokenizers import COMPOSED, SUPPORTED, UNNAMED, pretokenizer
from .sentence_pieces import Marks, SentencePieces

# Begin prompts with their begin token if no file says.
BEGUN: Final = ("llama-bpe", "llama3", "llama-v3", "lfm2", "pixtral", "tekken")
WHOLE: Final = (*BEGUN, "kimi-k2")  # take a word that is itself a token whole
UNBEGUN: Final = ("glm4", "chatglm-bpe")  # have none, whatever a file says

LONG: Final = 1 << 13  # characters; what is shorter takes some milliseconds
COMPOSES: Final = 3  # a Korean syllable has three bytes, decomposed it has nine

Encode = Callable[[str], list[int]]
Marked = Mapping[int, str]  # tokens that are matched whole


class Vocabulary:
    """A model's, of `vocab` tokens, whatever it was read from; `bos` and `eos` are its begin and end tokens as text,
    empty if it has none. No token stands for more than `longest` bytes of a text."""

    vocab: int
    longest: int
    bos: str
    eos: str
    _with_control: Encode
    _plain: Encode
    _begin: list[int]  # what a prompt begins with
    _pieces: Sequence[bytes]

    def encode(self, text: str, special: bool = True) -> list[int]:
        """The ids of `text`. With `special`, control tokens spelled out in it (<|im_end|>) become their ids, and a
        model that wants a begin token gets one; without, all of it is plain text and nothing is added."""
        if not special:
            return self._plain(text)
        ids = self._with_control(text)
        return ids if ids[: len(self._begin)] == self._begin else [*self._begin, *ids]

    def encode_rendered(self, text: str) -> list[int]:
        """The ids of what a chat template has made."""
        return self.encode(text)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, control tokens spelled out; bytes that are no UTF-8 show as U+FFFD."""
        return decode(self._pieces, ids)

    def detokenizer(self) -> Detokenizer:
        """A fresh Detokenizer: one for each request."""
        return Detokenizer(self._pieces)


class Tokenizer(Vocabulary):
    """Of a GGUF file."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """`values` are a model file's key/values; raises ValueError, in one sentence, for what is not supported."""
        pieces = gguf_pieces(values)  # refuses all but three kinds
        tokens, types = token_list(values, "tokens", str), token_list(values, "token_type", int)
        marks = [(number, types[number], tokens[number]) for number in sorted(pieces.marks)]
        control = {number: token for number, type_, token in marks if type_ == CONTROL}
        defined = {number: token for number, type_, token in marks if type_ == USER_DEFINED}
        pre = values.get("tokenizer.ggml.pre", UNNAMED)
        match values["tokenizer.ggml.model"]:
            case "gpt2":
                self._with_control, self._plain = byte_level(values, pre, control, defined)
                begins = values.get("tokenizer.ggml.add_bos_token", pre in BEGUN)
            case "llama":
                self._with_control, self._plain = sentence_pieces(values, control, defined)
                begins = values.get("tokenizer.ggml.add_bos_token", True)
            case _:
                self._with_control, self._plain = merged_pieces(values, control, defined)
                begins = True  # its first files said otherwise
        self.vocab, self._pieces = len(tokens), pieces.texts
        self.longest = max(map(len, self._pieces), default=1)
        if pre in COMPOSED:
            self.longest *= COMPOSES
        self.bos = _spelling(tokens, values.get("tokenizer.ggml.bos_token_id"))
        self.eos = _spelling(tokens, values.get("tokenizer.ggml.eos_token_id"))
        begins = begins and self.bos != "" and pre not in UNBEGUN
        self._begin = [int(values["tokenizer.ggml.bos_token_id"])] if begins else []

    @classmethod
    def from_gguf(cls, metadata: Metadata) -> Self:
        """Raises ModelUnreadable."""
        try:
            return cls(metadata.values)
        except ValueError as problem:
            raise untokenizable(metadata.path, problem) from None


def byte_level(values: Mapping[str, Any], kind: str, control: Marked, defined: Marked) -> tuple[Encode, Encode]:
    """Two encoders: one recognizes control tokens in a text, the other takes all of it as plain text."""
    if kind == UNNAMED:
        raise ValueError(
            "it does not name its pre-tokenizer (tokenizer.ggml.pre), and a wrong one would give wrong tokens: "
            f"expected {', '.join(SUPPORTED)}"
        )
    if kind not in SUPPORTED:
        raise ValueError(f"its pre-tokenizer is {kind!r}, supported are {', '.join(SUPPORTED)}")
    words = _merges(values, ignore_merges=kind in WHOLE)
    normalizer, cut = NFC() if kind in COMPOSED else None, pretokenizer(kind)
    return _encode(words, normalizer, cut, {**control, **defined}), _encode(words, normalizer, cut, defined)


def merged_pieces(values: Mapping[str, Any], control: Marked, defined: Marked) -> tuple[Encode, Encode]:
    """As `byte_level`, for a text that is not cut into words: ▁ is a blank, and a character that no token has is
    spelled in tokens of one byte each."""
    tokens = token_list(values, "tokens", str)
    unknown = _spelling(tokens, values.get("tokenizer.ggml.unknown_token_id")) or None
    words, blanks = _merges(values, unk_token=unknown, fuse_unk=True, byte_fallback=True), Replace(" ", BLANK)
    return _encode(words, blanks, None, {**control, **defined}), _encode(words, blanks, None, defined)


def _merges(values: Mapping[str, Any], **options: Any) -> BPE:
    ids = {token: number for number, token in enumerate(token_list(values, "tokens", str))}
    merges = [tuple(merge.split(" ", 1)) for merge in token_list(values, "merges", str)]
    try:
        return BPE(ids, merges, **options)
    except Exception as problem:  # the library raises no narrower type
        reason = " ".join(str(problem).split())
        raise ValueError(f"its vocabulary and merges do not fit together: {reason}") from None


def _encode(words: BPE, normalizer: Any, cut: Any, marks: Marked) -> Encode:
    encoder = tokenizers.Tokenizer(words)
    if cut is not None:
        encoder.pre_tokenizer = cut
    if normalizer is not None:
        encoder.normalizer = normalizer
    encoder.add_tokens([tokenizers.AddedToken(content, normalized=False) for _, content in sorted(marks.items())])
    return partial(encoded, encoder)


def encoded(encoder: tokenizers.Tokenizer, text: str) -> list[int]:
    """The ids of `text`. The library's `encode` holds the GIL, for seconds if the text has megabytes; only for a batch
    it releases it, hence a batch of one."""
    if len(text) < LONG:
        return list(encoder.encode(text, add_special_tokens=False).ids)
    (one,) = encoder.encode_batch_fast([text], add_special_tokens=False)
    return list(one.ids)


def sentence_pieces(values: Mapping[str, Any], control: Marked, defined: Marked) -> tuple[Encode, Encode]:
    """As `byte_level`, for a vocabulary with scores."""
    tokens, types, scores = (
        token_list(values, name, kind) for name, kind in (("tokens", str), ("token_type", int), ("scores", float))
    )
    words = SentencePieces(tokens, types, scores, values.get("tokenizer.ggml.add_space_prefix", True))
    return partial(words.encode, marks=Marks({**control, **defined})), partial(words.encode, marks=Marks(defined))


def _spelling(tokens: Sequence[str], number: int | None) -> str:
    return tokens[number] if isinstance(number, int) and 0 <= number < len(tokens) else ""
