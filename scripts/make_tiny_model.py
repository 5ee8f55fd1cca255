"""Writes a small model with seeded random weights as GGUF, for tests of the maths.

    python scripts/make_tiny_model.py --seed 1 --out tiny.gguf [--layers 2 --width 64 --heads 4 --kv-heads 2 …]

The same options give the same bytes. The weights are scaled so that the logits spread (standard deviation about 3) and
attention looks at more than the last token. The tokenizer is byte-level BPE: three special tokens, then as many of the
256 bytes as the vocabulary has room for, then merged lower-case words.

Architectures differ in their layers: with those that have windows (SLIDING in tiny_keys.py) and the hybrids every
--interval-th is full attention, the others slide or are recurrent; with "nemotron_h" and "nemotron_h_moe" one layer is
recurrent, the next feeds forward, and the third attends. "mixtral" is llama with experts, "granitehybrid-moe" and
"granite_swa-moe" are theirs with experts, and "gemma4-moe" is gemma4 with experts and without matrices of values where
attention is full; the first layer of "glm4moe", "afmoe", "exaone-moe", "lfm2moe", "deepseek2" and "ernie4_5-moe" has
none.
Options that an architecture has no use for are ignored.
"""

import argparse
import os
from pathlib import Path

import gguf
from tiny_drafting import DRAFTING
from tiny_gemma4 import GEMMA_4
from tiny_keys import FAMILIES, add_metadata
from tiny_state_space import STATE_SPACES
from tiny_tokenizer import SPECIALS, add_tokenizer
from tiny_weights import (
    CONVOLVED,
    DENSE_FIRST,
    EXPERTS,
    GRANITE_SWA,
    HYBRIDS,
    PARALLEL,
    PLAIN_SHARED_EXPERT,
    SLIDING_GEMMAS,
    add_weights,
)

FLOATS = ("F32", "F16", "BF16")
ARCHITECTURES = (
    "llama",
    "apertus",
    "arcee",
    "hunyuan-dense",
    "maincoder",
    *CONVOLVED,
    "mistral3",
    "smollm3",
    "granite",
    GRANITE_SWA,
    "mixtral",
    "mellum",
    "muse-glimmer",
    "minimax-m2",
    "olmo2",
    "olmoe",
    "exaone4",
    *PARALLEL,
    "qwen2",
    "qwen2moe",
    "qwen3",
    "qwen3moe",
    "gemma",
    *SLIDING_GEMMAS,
    *GEMMA_4,
    "gpt-oss",
    *PLAIN_SHARED_EXPERT,
    *HYBRIDS,
    "granitehybrid",
    "nemotron_h",
)
TYPES = (*FLOATS, "Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "IQ4_NL", "MXFP4", "NVFP4", "Q4_K")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--architecture", choices=ARCHITECTURES, default="llama")
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
    parser.add_argument("--chat", choices=["plain", "thinking"], default="plain", help="its template")
    parser.add_argument("--tied", action=argparse.BooleanOptionalAction, default=False, help="no separate head")
    parser.add_argument("--untied", action="store_false", dest="tied", help="a separate head (the default)")
    parser.add_argument("--rope-layout", choices=["pairs", "halves"], help="default: the architecture's")
    parser.add_argument("--rope-size", type=int, help="default: --head-size, of hybrids half of it")
    parser.add_argument("--rope-base", type=float, help="default: 10000, of gemma3 and 4 a million")
    parser.add_argument("--temperature", type=int, default=0, help="positions to a growth of the queries")
    parser.add_argument("--norm-epsilon", type=float, default=1e-5)
    parser.add_argument("--interval", type=int, default=2, help="of layers with full attention")
    parser.add_argument("--drafting", type=int, choices=(0, 1), default=0, help="layers that draft")
    parser.add_argument("--window", type=int, default=24, help="positions a sliding layer sees")
    parser.add_argument("--final-softcap", type=float, help="of a sliding Gemma's logits, default: the family's")
    parser.add_argument("--local-heads", type=int, help="of laguna's sliding layers, default: --heads")
    parser.add_argument("--local-kv-heads", type=int, help="of gemma4's sliding layers, default: --kv-heads")
    parser.add_argument("--local-head-size", type=int, help="of gemma4's sliding layers, default: --head-size")
    parser.add_argument("--borrowing", type=int, default=0, help="gemma4's last layers that keep no keys and values")
    parser.add_argument("--token-inputs", type=int, default=0, help="what gemma4's layers take of a token itself")
    parser.add_argument("--latent", type=int, default=64, help="values that deepseek2 keeps of a token")
    parser.add_argument("--latent-keys", type=int, default=32, help="of each of deepseek2's heads, beside --rope-size")
    parser.add_argument("--latent-values", type=int, default=32, help="of each of deepseek2's heads")
    parser.add_argument("--query-rank", type=int, default=0, help="values that deepseek2's queries come of")
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--experts-used", type=int, default=3)
    parser.add_argument("--expert-groups", type=int, default=1, help="of deepseek2's experts")
    parser.add_argument("--groups-used", type=int, default=1, help="groups that deepseek2 chooses experts from")
    parser.add_argument("--expert-ffn", type=int, default=32)
    parser.add_argument("--shared-ffn", type=int, default=64)
    parser.add_argument("--conv-kernel", type=int, default=4)
    parser.add_argument("--key-heads", type=int, default=2)
    parser.add_argument("--value-heads", type=int, default=4)
    parser.add_argument("--key-size", type=int, default=16)
    parser.add_argument("--value-size", type=int, default=16)
    chosen = parser.parse_args()
    if chosen.rope_base is None:
        chosen.rope_base = 1e6 if chosen.architecture in ("gemma3", *GEMMA_4) else 10000.0
    if chosen.rope_size is None:
        chosen.rope_size = chosen.head_size // 2 if chosen.architecture in HYBRIDS else chosen.head_size
    if chosen.value_heads % chosen.key_heads:
        parser.error(f"--value-heads {chosen.value_heads} is no multiple of --key-heads {chosen.key_heads}")
    if chosen.heads % chosen.kv_heads:
        parser.error(f"--heads {chosen.heads} is no multiple of --kv-heads {chosen.kv_heads}")
    if chosen.drafting and chosen.architecture not in DRAFTING:
        parser.error(f"--drafting is for {', '.join(DRAFTING)}, not for {chosen.architecture}")
    if chosen.vocab < len(SPECIALS) + 3:
        parser.error(f"--vocab {chosen.vocab} is too small, expected at least {len(SPECIALS) + 3}")
    quantized = {chosen.type, chosen.embedding_type} - {*FLOATS, None}
    sizes = {"width": chosen.width, "heads times head-size": chosen.heads * chosen.head_size}
    if chosen.architecture in EXPERTS:
        sizes |= {"expert-ffn": chosen.expert_ffn, "shared-ffn": chosen.shared_ffn}
    if chosen.architecture not in EXPERTS or chosen.architecture in DENSE_FIRST:
        sizes["ffn"] = chosen.ffn
    if chosen.architecture in (*HYBRIDS, *STATE_SPACES):
        sizes["value-heads times value-size"] = chosen.value_heads * chosen.value_size
    for name, size in sizes.items():
        for kind in sorted(quantized):
            unit, _ = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
            if size % unit:
                parser.error(f"{name} is {size}, expected a multiple of {unit} for {kind}")
    return chosen


def main() -> None:
    chosen = options()
    fresh = chosen.out.with_name(f"{chosen.out.name}.{os.getpid()}")
    writer = gguf.GGUFWriter(fresh, FAMILIES.get(chosen.architecture, chosen.architecture))
    add_metadata(writer, chosen)
    add_tokenizer(writer, chosen.vocab, chosen.chat == "thinking")
    add_weights(writer, chosen)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    fresh.replace(chosen.out)


if __name__ == "__main__":
    main()
