"""Writes a model that drafts: a made qwen35 file (scripts/make_shaped_model.py) and a layer that drafts behind its own.

    python scripts/make_shaped_model.py qwen35 qwen35.gguf
    python scripts/make_drafting_model.py qwen35.gguf drafting.gguf [--quiet 0.25]

Random weights foretell nothing, and a layer that drafts would never be right. So the layers of this one add little to
what the embedding says, by smaller norms: the next token follows mostly from the last one, and the layer, which passes
the last one's embedding on, is right about as often as its model is predictable. --quiet is how much the layers add;
the less, the more drafts are right. Tokens whose embeddings are alike would be drafted for each other, so here each has
its own, and the head has that of the next id: otherwise texts would stay at one token. Sizes and speed are those of the
shape, of which the last layer is there twice.
"""

import argparse
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
from paceline.native.files.gguf_file import GGUFFile

QUIETED = ("attn_norm.weight", "post_attention_norm.weight", "ssm_norm.weight")
Q4_K_BYTES, Q4_K_SCALES = 144, 16  # of a block, and of the scales at its begin


def scrambled(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Rows of Q4_K with other codes, at random, and the scales that they have."""
    blocks = rows.reshape(len(rows), -1, Q4_K_BYTES).copy()
    codes = blocks[..., Q4_K_SCALES:]
    codes ^= np.random.default_rng(1).integers(0, 256, codes.shape, np.uint8)
    return blocks.reshape(rows.shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--quiet", type=float, default=0.25)
    chosen = parser.parse_args()
    source = GGUFFile(chosen.model)
    values = {key: field.contents() for key, field in source.fields.items()}
    if values["general.architecture"] != "qwen35":
        parser.error(f"{chosen.model} is {values['general.architecture']}, expected qwen35")
    layers, width = values["qwen35.block_count"], values["qwen35.embedding_length"]
    writer = gguf.GGUFWriter(chosen.out, "qwen35")
    for key, field in source.fields.items():
        if key.startswith(("GGUF.", "general.architecture", "qwen35.block_count")):
            continue
        kinds = field.types  # for an array: ARRAY, then the type of its elements
        writer.add_key_value(key, field.contents(), kinds[0], kinds[-1] if len(kinds) > 1 else None)
    writer.add_block_count(layers + 1)
    writer.add_nextn_predict_layers(1)
    reader = gguf.GGUFReader(chosen.model)
    for tensor in reader.tensors:
        quiet = tensor.name.endswith(QUIETED)
        data = tensor.data * np.float32(chosen.quiet) if quiet else tensor.data
        if tensor.name == "token_embd.weight":
            if tensor.tensor_type != gguf.GGMLQuantizationType.Q4_K:
                parser.error(f"the embedding of {chosen.model} is {tensor.tensor_type.name}, expected Q4_K")
            data = scrambled(data)
            writer.add_tensor("output.weight", np.roll(data, 1, axis=0), raw_dtype=tensor.tensor_type)
        own = [tensor.name]
        if tensor.name.startswith(f"blk.{layers - 1}."):
            own.append(tensor.name.replace(f"blk.{layers - 1}.", f"blk.{layers}."))
        for name in own:
            writer.add_tensor(name, data, raw_dtype=tensor.tensor_type)
    join = np.concatenate([np.eye(width, dtype=np.float32), np.zeros((width, width), np.float32)], axis=1)
    kind = gguf.GGMLQuantizationType.Q8_0
    writer.add_tensor(f"blk.{layers}.nextn.eh_proj.weight", gguf.quants.quantize(join, kind), raw_dtype=kind)
    for norm in ("enorm", "hnorm"):
        writer.add_tensor(f"blk.{layers}.nextn.{norm}.weight", np.ones(width, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
