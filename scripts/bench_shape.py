"""Writes a llama model of random Q4_K blocks with the demo model's tokenizer, of widths that are multiples of 256.

    python scripts/bench_shape.py OUT.gguf [--tokenizer MODEL.gguf]

Blocks are random bytes, with scales that give weights about zero and logits that stay finite: for speed, not for text.
"""

import argparse
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
from paceline.native.weights import find_model

LAYERS, WIDTH, FEED_FORWARD, HEADS, KV_HEADS, HEAD_SIZE, CONTEXT = 24, 1024, 2816, 16, 4, 64, 8192
BLOCK = 256  # weights
Bytes = npt.NDArray[np.uint8]


def q4_k(random: np.random.Generator, rows: int, columns: int) -> Bytes:
    """Halves d and dmin, 12 bytes of 6-bit scales and minimums, 128 of nibbles: d * scale * code - dmin * minimum."""
    blocks = random.integers(0, 256, (rows * columns // BLOCK, 144), np.uint8)
    spread = 1 / (columns**0.5 * 31.5 * 4.6)  # of codes 0..15 times scales 0..63
    blocks[:, :4] = np.array([spread, 7.5 * spread], np.float16).view(np.uint8)
    return blocks.reshape(rows, -1)


def q6_k(random: np.random.Generator, rows: int, columns: int) -> Bytes:
    """192 bytes of codes, 16 int8 scales, a half d: d * scale * (code - 32)."""
    blocks = random.integers(0, 256, (rows * columns // BLOCK, 210), np.uint8)
    blocks[:, 208:] = np.array([1 / (columns**0.5 * 74 * 18.5)], np.float16).view(np.uint8)
    return blocks.reshape(rows, -1)


def copy_tokenizer(writer: gguf.GGUFWriter, source: Path) -> int:
    """Returns the number of tokens."""
    fields = gguf.GGUFReader(source).fields
    for name, field in fields.items():
        if name.startswith("tokenizer."):
            writer.add_key_value(
                name, field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None
            )
    return len(fields["tokenizer.ggml.tokens"].data)


def write_model(path: Path, tokenizer: Path) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("bench Q4_K")
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HEAD_SIZE)
    writer.add_rope_freq_base(100000.0)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_K_S)
    vocab = copy_tokenizer(writer, tokenizer)
    writer.add_vocab_size(vocab)
    random = np.random.default_rng(7)
    ones = np.ones(WIDTH, np.float32)
    embedding = q6_k(random, vocab, WIDTH)
    writer.add_tensor("token_embd.weight", embedding, raw_dtype=gguf.GGMLQuantizationType.Q6_K)
    for layer in range(LAYERS):
        matrices = {
            "attn_q": (HEADS * HEAD_SIZE, WIDTH),
            "attn_k": (KV_HEADS * HEAD_SIZE, WIDTH),
            "attn_v": (KV_HEADS * HEAD_SIZE, WIDTH),
            "attn_output": (WIDTH, HEADS * HEAD_SIZE),
            "ffn_gate": (FEED_FORWARD, WIDTH),
            "ffn_up": (FEED_FORWARD, WIDTH),
            "ffn_down": (WIDTH, FEED_FORWARD),
        }
        for name, (rows, columns) in matrices.items():
            writer.add_tensor(
                f"blk.{layer}.{name}.weight", q4_k(random, rows, columns), raw_dtype=gguf.GGMLQuantizationType.Q4_K
            )
        writer.add_tensor(f"blk.{layer}.attn_norm.weight", ones)
        writer.add_tensor(f"blk.{layer}.ffn_norm.weight", ones)
    writer.add_tensor("output_norm.weight", ones)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tokenizer", help="a GGUF file to copy it from; default: the demo model")
    arguments = parser.parse_args()
    write_model(arguments.out, find_model(arguments.tokenizer))


if __name__ == "__main__":
    main()
