"""Writes a GGUF file of a real model's shape, filled with random blocks: for speed, memory and bits, not for text.

    python scripts/make_shaped_model.py 8b big.gguf [--type Q4_K] [--layers 36]

Shapes: 8b (that of Qwen3-8B), bench (a llama of 24 layers), moe (that of Qwen3-30B-A3B with 4 of its 48 layers),
gpt-oss (that of gpt-oss-20b with 4 of its 24 layers), glm-flash (that of GLM 4.7 Flash with 4 of its 47 layers), lfm2
(that of LFM2 1.2B), granite-h (that of Granite 4.0 H 1B), qwen35 (that of Qwen3.5 0.8B), gemma4 (that of Gemma 4 E2B
with 10 of its 35 layers, of which 5 borrow keys and values), tiny (for tests of formats with blocks of 256). All but 8b
and tiny have the demo model's tokenizer, and as many tokens, so that llama.cpp loads them too. The same options give
the same bytes. A tensor is a cyclic run through one pool of random blocks, from an offset that depends on its name; the
number of blocks is prime, so that no two rows of most matrices are alike. Scales are chosen so that the logits spread
and attention sees more than one token.
"""

import argparse
import math
import os
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import gguf
import numpy as np
from gemma4_keys import Gemma4, add_gemma4_keys, divisors
from model_shapes import DEMO_VOCAB, SHAPES
from paceline.native.arrange import EMBEDDING_NORM, FINAL_NORM
from paceline.native.files.gguf_file import GGUFFile
from paceline.native.rope_scaling import ROPE_FREQUENCIES
from paceline.native.shape import ModelShape
from paceline.native.tensors import expected_tensors, is_vector
from paceline.native.weights import find_model
from state_space_keys import add_state_space_keys, as_in_files, dimensions_of

POOL = 8191  # blocks
GAINS = {"attn_q": 1.5, "attn_k": 1.5, "attn_output": 1.5, "ffn_down": 1.5, "ffn_down_exps": 1.5, "ffn_gate_inp": 1.5}
GAINS |= {"token_embd": 3.0, "output": 3.0}
# The offset in a block of its half-precision d, and of its m with the factor of d that makes the mean of random codes
# zero.
HALVES: dict[str, tuple[int, int, float] | tuple[int]] = {
    **dict.fromkeys(("Q4_0", "Q5_0", "Q8_0"), (0,)),
    "Q4_1": (0, 2, -7.5),
    "Q5_1": (0, 2, -15.5),
    "Q6_K": (208,),
    "Q5_K": (0, 2, 15.5),
    "Q4_K": (0, 2, 7.5),
    "Q3_K": (108,),
    "Q2_K": (80, 82, 1.5),
    **dict.fromkeys(("IQ4_NL", "IQ4_XS", "IQ3_S", "IQ3_XXS", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_S"), (0,)),
}
TYPES = ("F32", "F16", "BF16", *HALVES, "IQ1_M", "MXFP4", "NVFP4")
OF_HEADS = ("attn_k_b.weight", "attn_v_b.weight")
WITH_TOKENIZER = ("bench", "moe", "gpt-oss", "glm-flash", "lfm2", "granite-h", "qwen35", "gemma4")


def scale_bytes(kind: str, scale: float) -> np.ndarray:
    """The scale nearest to `scale` that a block of the type can have, as the bytes of its field."""
    if kind == "MXFP4":
        return np.array([127 + round(math.log2(scale))], np.uint8)
    if kind == "NVFP4":  # four scales of 16 weights: four bits of exponent, three of mantissa, none negative
        codes = np.arange(127)
        values = np.where(codes < 8, codes / 512, (1 + codes % 8 / 8) * 2.0 ** (codes // 8 - 7))
        return np.full(4, np.abs(values - scale)[1:].argmin() + 1, np.uint8)
    return np.array([scale], np.float16).view(np.uint8)


def random_blocks(kind: str, scale: float) -> np.ndarray:
    """[POOL, bytes of a block]: random codes, all with one scale."""
    _, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    blocks = np.random.RandomState(1).randint(0, 256, (POOL, block_bytes), np.uint8)
    if kind == "IQ1_M":  # its d is in four nibbles, each above twelve bits of scales
        words = blocks[:, 48:].view(np.uint16)
        words[:] = words & 0xFFF | scale_bytes(kind, scale).view(np.uint16) >> 4 * np.arange(4, dtype=np.uint16) << 12
        return blocks
    at, *minimum = HALVES.get(kind, (0,))
    field = scale_bytes(kind, scale)
    blocks[:, at : at + len(field)] = field
    if minimum:
        place, share = minimum
        blocks[:, int(place) : int(place) + 2] = scale_bytes(kind, share * scale)
    return blocks


@cache
def pool(kind: str, deviation: float) -> np.ndarray:
    """[POOL, bytes of a block], weights with this standard deviation."""
    quantization = gguf.GGMLQuantizationType[kind]
    if kind in ("F32", "F16", "BF16"):
        normal = np.random.RandomState(1).standard_normal((POOL, 32)).astype(np.float32) * np.float32(deviation)
        return gguf.quants.quantize(normal, quantization).view(np.uint8)
    unscaled = gguf.quants.dequantize(random_blocks(kind, 1.0), quantization).std()
    return random_blocks(kind, deviation / float(unscaled))


def contents(name: str, rows: int, columns: int, kind: str) -> np.ndarray:
    """The bytes of a tensor; a vector is 1 with a little noise."""
    if name == ROPE_FREQUENCIES:
        return divisors(2 * columns).view(np.uint8)
    if rows == 1:
        noise = np.random.RandomState(zlib.crc32(name.encode())).standard_normal(columns)
        sign = -1 if name.endswith("ssm_a") else 1  # a state must decay
        return (sign * (1 + 0.1 * noise)).astype(np.float32).view(np.uint8)
    part = name.removesuffix(".weight").split(".")[-1]
    blocks = pool(kind, GAINS.get(part, 1.0) / math.sqrt(columns))
    begin = zlib.crc32(name.encode()) % POOL
    return np.resize(np.concatenate([blocks[begin:], blocks[:begin]]), tensor_bytes(rows, columns, kind))


def tensor_bytes(rows: int, columns: int, kind: str) -> int:
    unit, unit_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    return rows * columns // unit * unit_bytes


def tensors(shape: ModelShape, kind: str) -> Iterator[tuple[str, int, int, str]]:
    """Names, rows, columns and types."""
    expected = expected_tensors(shape)
    for name, rows, columns in as_in_files(shape, expected) if shape.state_space else expected:
        if shape.gated_convolution and name == FINAL_NORM:
            name = EMBEDDING_NORM
        if not name.endswith("attn_v_norm.weight"):  # which has no weights
            yield name, rows, columns, "F32" if is_vector(name) else kind
    if shape.architecture == "gemma4":
        yield ROPE_FREQUENCIES, 1, shape.head_size // 2, "F32"


def add_metadata(writer: gguf.GGUFWriter, shape: ModelShape, name: str) -> None:
    writer.add_name(f"random {name}")
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_head_count(shape.heads)
    if shape.architecture == "gemma4":
        add_gemma4_keys(writer, gemma4_of(shape))
    else:
        writer.add_feed_forward_length(shape.ffn)
        writer.add_head_count_kv(kv_heads_of(shape))
        writer.add_key_length(shape.head_size)
        writer.add_value_length(shape.latent or shape.head_size)
        if shape.window:
            writer.add_sliding_window(shape.window)
    if shape.gated_convolution:
        writer.add_shortconv_l_cache(shape.conv_kernel)
    if shape.value_heads:
        add_recurrent_keys(writer, shape)
    if shape.latent:
        add_latent_keys(writer, shape)
    writer.add_rope_dimension_count(shape.rope_size)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(shape.norm_epsilon)
    writer.add_vocab_size(shape.vocab)
    if shape.experts:
        writer.add_expert_count(shape.experts)
        writer.add_expert_used_count(shape.experts_used)
        writer.add_expert_feed_forward_length(shape.expert_ffn)


def kv_heads_of(shape: ModelShape) -> int | list[int]:
    """One number, or where some layers convolve one for each layer."""
    if not shape.gated_convolution and not shape.state_space:
        return shape.kv_heads
    return [shape.kv_heads * shape.attends(layer) for layer in range(shape.layers)]


def add_recurrent_keys(writer: gguf.GGUFWriter, shape: ModelShape) -> None:
    writer.add_ssm_conv_kernel(shape.conv_kernel)
    writer.add_ssm_inner_size(shape.value_heads * shape.value_size)
    writer.add_ssm_state_size(shape.key_size)
    writer.add_ssm_time_step_rank(shape.value_heads)
    writer.add_ssm_group_count(shape.key_heads)
    if shape.state_space:
        add_state_space_keys(writer)
    else:
        writer.add_rope_dimension_sections([shape.rope_size // 2, 0, 0, 0])  # of images; of text all are the same


def add_latent_keys(writer: gguf.GGUFWriter, shape: ModelShape) -> None:
    writer.add_key_length_mla(shape.latent_keys + shape.rope_size)
    writer.add_value_length_mla(shape.latent_values)
    writer.add_kv_lora_rank(shape.latent)
    writer.add_q_lora_rank(shape.query_rank)
    writer.add_leading_dense_block_count(shape.dense_layers)
    writer.add_expert_shared_count(shape.shared_ffn // shape.expert_ffn)
    writer.add_expert_weights_norm(shape.normalize_experts)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def gemma4_of(shape: ModelShape) -> Gemma4:
    return Gemma4(
        sliding=[kind == "sliding" for kind in shape.kinds],
        kv_heads=[shape.heads_of(kind).kv_heads for kind in shape.kinds],
        widths=[shape.ffn_of(layer) for layer in range(shape.layers)],
        head_size=shape.head_size,
        local_head_size=shape.heads_of("sliding").head_size,
        window=shape.window,
        borrowing=shape.borrowing_layers,
        token_inputs=shape.token_inputs,
        final_softcap=shape.final_softcap,
    )


def copy_tokenizer(writer: gguf.GGUFWriter, source: Path) -> None:
    for key, field in GGUFFile(source).fields.items():
        if key.startswith("tokenizer."):
            kinds = field.types  # for an array: ARRAY, then the type of its elements
            writer.add_key_value(key, field.contents(), kinds[0], kinds[-1] if len(kinds) > 1 else None)


def add_tensor_infos(writer: gguf.GGUFWriter, shape: ModelShape, kind: str) -> None:
    for name, rows, columns, own in tensors(shape, kind):
        size = tensor_bytes(rows, columns, own)
        dimensions = [columns] if rows == 1 else [rows, columns]
        if shape.state_space:
            dimensions = dimensions_of(shape, name, columns) or dimensions
        if name.endswith("_exps.weight"):
            dimensions = [shape.experts, rows // shape.experts, columns]
        if name.endswith(OF_HEADS):
            dimensions = [shape.heads, rows // shape.heads, columns]
        quantization = gguf.GGMLQuantizationType[own]
        writer.add_tensor_info(name, dimensions, np.dtype(np.float32), size, raw_dtype=quantization)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("out", type=Path)
    parser.add_argument("--type", choices=TYPES, default="Q4_K", help="of every matrix")
    parser.add_argument("--layers", type=int, help="default: the shape's")
    arguments = parser.parse_args()
    shape = SHAPES[arguments.shape]
    layers = shape.layers if arguments.layers is None else arguments.layers
    if layers < 1:
        parser.error(f"--layers {layers}: expected at least 1")
    kinds = tuple(shape.kinds[layer % shape.layers] for layer in range(layers))
    shape = replace(shape, layers=layers, kinds=kinds)
    if shape.borrowing_layers and layers < 2 * shape.borrowing_layers:
        parser.error(f"--layers {layers}: expected twice the {shape.borrowing_layers} that borrow keys and values")
    if arguments.shape in WITH_TOKENIZER:
        shape = replace(shape, vocab=DEMO_VOCAB)
    fresh = arguments.out.with_name(f"{arguments.out.name}.{os.getpid()}")
    writer = gguf.GGUFWriter(fresh, shape.architecture)
    add_metadata(writer, shape, arguments.shape)
    if arguments.shape in WITH_TOKENIZER:
        copy_tokenizer(writer, find_model(None))
    add_tensor_infos(writer, shape, arguments.type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor in tensors(shape, arguments.type):
        writer.write_tensor_data(contents(*tensor))
    writer.close()
    fresh.replace(arguments.out)


if __name__ == "__main__":
    main()
