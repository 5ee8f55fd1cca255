"""Writes a small model with seeded random weights as GGUF, for tests of the maths.

    python scripts/make_tiny_model.py --seed 1 --out tiny.gguf [--layers 2 --width 64 --heads 4 --kv-heads 2 …]

The same options give the same bytes. The weights are scaled so that the logits spread (standard deviation about 3) and
attention looks at more than the last token. The tokenizer is byte-level BPE: three special tokens, then as many of the
256 bytes as the vocabulary has room for, then merged lower-case words.
"""

import argparse
import itertools
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from string import ascii_lowercase

import gguf
import numpy as np

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
END = 2
FLOATS = ("F32", "F16", "BF16")
TYPES = (*FLOATS, "Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "IQ4_NL", "MXFP4")
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--architecture", choices=["llama", "qwen2", "qwen3"], default="llama")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--head-size", type=int, default=16)
    parser.add_argument("--ffn", type=int, default=96)
    parser.add_argument("--vocab", type=int, default=128)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--type", choices=TYPES, default="F32", help="of every matrix")
    parser.add_argument("--embedding-type", choices=TYPES, help="of token_embd, default: --type")
    parser.add_argument("--tied", action=argparse.BooleanOptionalAction, default=False, help="no separate head")
    parser.add_argument("--untied", action="store_false", dest="tied", help="a separate head (the default)")
    parser.add_argument("--rope-layout", choices=["pairs", "halves"], help="default: the architecture's")
    parser.add_argument("--rope-size", type=int, help="default: --head-size")
    parser.add_argument("--rope-base", type=float, default=10000.0)
    parser.add_argument("--norm-epsilon", type=float, default=1e-5)
    chosen = parser.parse_args()
    if chosen.heads % chosen.kv_heads:
        parser.error(f"--heads {chosen.heads} is no multiple of --kv-heads {chosen.kv_heads}")
    if chosen.vocab < len(SPECIALS) + 3:
        parser.error(f"--vocab {chosen.vocab} is too small, expected at least {len(SPECIALS) + 3}")
    quantized = {chosen.type, chosen.embedding_type} - {*FLOATS, None}
    for name, size in (
        ("width", chosen.width),
        ("ffn", chosen.ffn),
        ("heads times head-size", chosen.heads * chosen.head_size),
    ):
        if quantized and size % 32:
            parser.error(f"{name} is {size}, expected a multiple of 32 for {min(quantized)}")
    return chosen


def byte_alphabet() -> list[str]:
    """The characters that stand for bytes in byte-level BPE, printable ASCII first, then blank and newline."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    stands_for = {byte: chr(byte) for byte in printable} | {byte: chr(256 + at) for at, byte in enumerate(others)}
    first = [*range(33, 127), 32, 10]
    return [stands_for[byte] for byte in [*first, *(byte for byte in range(256) if byte not in first)]]


def words() -> Iterator[str]:
    """ "th", then every lower-case word by length; each is one merge of the word without its last letter."""
    yield "th"
    for length in itertools.count(2):
        for letters in itertools.product(ascii_lowercase, repeat=length):
            if letters != ("t", "h"):
                yield "".join(letters)


def add_tokenizer(writer: gguf.GGUFWriter, vocab: int) -> None:
    alphabet = byte_alphabet()[: vocab - len(SPECIALS) - 1]
    merged = list(itertools.islice(words(), vocab - len(SPECIALS) - len(alphabet)))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*SPECIALS, *alphabet, *merged])
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_token_types([control] * len(SPECIALS) + [normal] * (vocab - len(SPECIALS)))
    writer.add_token_merges([f"{word[:-1]} {word[-1]}" for word in merged])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(END)
    writer.add_pad_token_id(END)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def add_metadata(writer: gguf.GGUFWriter, chosen: argparse.Namespace) -> None:
    writer.add_name(f"tiny {chosen.seed}")
    writer.add_context_length(chosen.context)
    writer.add_embedding_length(chosen.width)
    writer.add_block_count(chosen.layers)
    writer.add_feed_forward_length(chosen.ffn)
    writer.add_head_count(chosen.heads)
    writer.add_head_count_kv(chosen.kv_heads)
    if chosen.heads * chosen.head_size != chosen.width:
        writer.add_key_length(chosen.head_size)
        writer.add_value_length(chosen.head_size)
    writer.add_rope_dimension_count(chosen.rope_size or chosen.head_size)
    writer.add_rope_freq_base(chosen.rope_base)
    writer.add_layer_norm_rms_eps(chosen.norm_epsilon)
    writer.add_vocab_size(chosen.vocab)
    if chosen.rope_layout:
        writer.add_string("paceline.rope_layout", chosen.rope_layout)


def stored(values: np.ndarray, kind: str) -> np.ndarray:
    """values [rows, columns] as the bytes of a type; IQ4_NL, which the gguf package only reads, by the nearest code."""
    if kind != "IQ4_NL":
        return gguf.quants.quantize(values, gguf.GGMLQuantizationType[kind])
    levels = np.array(gguf.quants.IQ4_NL.kvalues, np.float32)
    blocks = values.reshape(-1, 32)  # [blocks, 32]
    scale = (np.abs(blocks).max(axis=1, keepdims=True) / 127).astype(np.float16)
    codes = np.abs(blocks[..., None] - scale[..., None].astype(np.float32) * levels).argmin(axis=2).astype(np.uint8)
    packed = np.concatenate([scale.view(np.uint8), codes[:, :16] | codes[:, 16:] << 4], axis=1)  # [blocks, 18]
    return packed.reshape(len(values), -1)


def add_weights(writer: gguf.GGUFWriter, chosen: argparse.Namespace) -> None:
    def normal(name: str, *shape: int) -> np.ndarray:
        """Each tensor has a generator of its own (RandomState: its stream never changes between versions)."""
        generator = np.random.RandomState([chosen.seed & 0xFFFFFFFF, zlib.crc32(name.encode())])
        return generator.standard_normal(shape).astype(np.float32)

    def matrix(name: str, rows: int, columns: int, gain: float, kind: str = chosen.type) -> None:
        values = normal(name, rows, columns) * np.float32(gain / np.sqrt(columns))  # [rows, columns]
        writer.add_tensor(name, stored(values, kind), raw_dtype=gguf.GGMLQuantizationType[kind])

    def norm(name: str, size: int = chosen.width) -> None:
        writer.add_tensor(name, 1 + np.float32(0.1) * normal(name, size))  # [size]

    def bias(name: str, size: int) -> None:
        writer.add_tensor(name, np.float32(0.3) * normal(name, size))  # [size]

    attention, cache = chosen.heads * chosen.head_size, chosen.kv_heads * chosen.head_size
    outgoing = 4.5 if chosen.tied else 1.5  # else a tied head would repeat the last token for ever
    matrix("token_embd.weight", chosen.vocab, chosen.width, 3.0, chosen.embedding_type or chosen.type)
    for layer in range(chosen.layers):
        norm(f"blk.{layer}.attn_norm.weight")
        matrix(f"blk.{layer}.attn_q.weight", attention, chosen.width, 1.5)
        matrix(f"blk.{layer}.attn_k.weight", cache, chosen.width, 1.5)
        matrix(f"blk.{layer}.attn_v.weight", cache, chosen.width, 1.0)
        matrix(f"blk.{layer}.attn_output.weight", chosen.width, attention, outgoing)
        if chosen.architecture == "qwen2":
            bias(f"blk.{layer}.attn_q.bias", attention)
            bias(f"blk.{layer}.attn_k.bias", cache)
            bias(f"blk.{layer}.attn_v.bias", cache)
        if chosen.architecture == "qwen3":
            norm(f"blk.{layer}.attn_q_norm.weight", chosen.head_size)
            norm(f"blk.{layer}.attn_k_norm.weight", chosen.head_size)
        norm(f"blk.{layer}.ffn_norm.weight")
        matrix(f"blk.{layer}.ffn_gate.weight", chosen.ffn, chosen.width, 1.0)
        matrix(f"blk.{layer}.ffn_up.weight", chosen.ffn, chosen.width, 1.0)
        matrix(f"blk.{layer}.ffn_down.weight", chosen.width, chosen.ffn, outgoing)
    norm("output_norm.weight")
    if not chosen.tied:
        matrix("output.weight", chosen.vocab, chosen.width, 3.0)


def main() -> None:
    chosen = options()
    fresh = chosen.out.with_name(f"{chosen.out.name}.{os.getpid()}")
    writer = gguf.GGUFWriter(fresh, chosen.architecture)
    add_metadata(writer, chosen)
    add_tokenizer(writer, chosen.vocab)
    add_weights(writer, chosen)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    fresh.replace(chosen.out)


if __name__ == "__main__":
    main()
