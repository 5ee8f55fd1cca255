"""Writes a small model with seeded random weights as GGUF, for tests of the maths.

    python scripts/make_tiny_model.py --seed 1 --out tiny.gguf [--layers 2 --width 64 --heads 4 --kv-heads 2 …]

The same options give the same bytes. The weights are scaled so that the logits spread (standard deviation about 3) and
attention looks at more than the last token. The tokenizer is byte-level BPE: three special tokens, then as many of the
256 bytes as the vocabulary has room for, then merged lower-case words.

Architectures differ in their layers: with "gemma2", "gemma3", "gpt-oss", "olmo2", "exaone4", "cohere2", "afmoe" and
the hybrids every --interval-th is full attention, the others slide or are recurrent; with "nemotron_h" and
"nemotron_h_moe" one layer is recurrent, the next feeds forward, and the third attends. "mixtral" is llama with experts,
"granitehybrid-moe" granitehybrid with experts, and "gemma4-moe" gemma4 with experts and without matrices of values
where attention is full; the first layer of "glm4moe", "afmoe", "lfm2moe", "deepseek2" and "ernie4_5-moe" has none.
Options that an architecture has no use for are ignored.
"""

import argparse
import os
from pathlib import Path

import gguf
import tiny_gemma4
import tiny_latent
from tiny_drafting import DRAFTING
from tiny_gemma4 import GEMMA_4
from tiny_state_space import ONE_BRANCH, STATE_SPACES, add_one_branch_keys
from tiny_tokenizer import SPECIALS, add_tokenizer
from tiny_weights import (
    CONVOLVED,
    DENSE_FIRST,
    EXPERTS,
    HYBRIDS,
    PARALLEL,
    PLAIN_SHARED_EXPERT,
    SHARED_EXPERT,
    SLIDING_GEMMAS,
    add_weights,
)

HEADLESS = (*CONVOLVED, *STATE_SPACES)  # layers that do not attend have no kv heads
SLIDING = ("afmoe", "cohere2", "gpt-oss", "olmo2", "exaone4", *SLIDING_GEMMAS)
FLOATS = ("F32", "F16", "BF16")
INTERVAL_KEYS = dict.fromkeys(HYBRIDS, "full_attention_interval") | dict.fromkeys(
    SLIDING, "attention.sliding_window_pattern"
)
MULTIPLIERS = {"embedding_scale": 0.5, "residual_scale": 1.5, "logit_scale": 1.25, "attention.scale": 0.3}
ARCHITECTURES = (
    "llama",
    "arcee",
    "hunyuan-dense",
    *CONVOLVED,
    "mistral3",
    "smollm3",
    "granite",
    "mixtral",
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
FAMILIES = {"mixtral": "llama", "gemma4-moe": "gemma4", "granitehybrid-moe": "granitehybrid"}
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


def add_metadata(writer: gguf.GGUFWriter, chosen: argparse.Namespace) -> None:
    writer.add_name(f"tiny {chosen.seed}")
    writer.add_context_length(chosen.context)
    writer.add_embedding_length(chosen.width)
    writer.add_block_count(chosen.layers + chosen.drafting)
    writer.add_head_count(chosen.heads)
    if chosen.architecture in GEMMA_4:
        tiny_gemma4.add_metadata(writer, chosen)
    elif chosen.architecture == "deepseek2":
        tiny_latent.add_metadata(writer, chosen)
    elif chosen.architecture in ONE_BRANCH:
        add_one_branch_keys(writer, chosen)
    else:
        writer.add_feed_forward_length(chosen.expert_ffn if chosen.architecture == "mixtral" else chosen.ffn)
        attends = [(layer + 1) % chosen.interval == 0 for layer in range(chosen.layers)]
        heads = [chosen.kv_heads * each for each in attends] if chosen.architecture in HEADLESS else chosen.kv_heads
        writer.add_head_count_kv(heads)
        if chosen.heads * chosen.head_size != chosen.width:
            writer.add_key_length(chosen.head_size)
            writer.add_value_length(chosen.head_size)
    if chosen.drafting:
        writer.add_nextn_predict_layers(chosen.drafting)
    writer.add_rope_dimension_count(chosen.rope_size)
    writer.add_rope_freq_base(chosen.rope_base)
    if chosen.architecture in PARALLEL:
        writer.add_layer_norm_eps(chosen.norm_epsilon)
        writer.add_logit_scale(0.8)
    else:
        writer.add_layer_norm_rms_eps(chosen.norm_epsilon)
    writer.add_vocab_size(chosen.vocab)
    if chosen.temperature:
        writer.add_attn_temperature_scale(0.3)
        writer.add_attn_temperature_length(chosen.temperature)
    if chosen.rope_layout:
        writer.add_string("paceline.rope_layout", chosen.rope_layout)
    if chosen.architecture in INTERVAL_KEYS:
        writer.add_uint32(f"{chosen.architecture}.{INTERVAL_KEYS[chosen.architecture]}", chosen.interval)
    if chosen.architecture in SLIDING:
        writer.add_sliding_window(chosen.window)
    if chosen.architecture in SLIDING_GEMMAS and chosen.final_softcap:
        writer.add_final_logit_softcapping(chosen.final_softcap)
    if chosen.architecture.startswith("granite"):
        for key, value in MULTIPLIERS.items():
            writer.add_float32(f"{FAMILIES.get(chosen.architecture, chosen.architecture)}.{key}", value)
    if chosen.architecture.startswith("granitehybrid"):
        writer.add_rope_scaling_finetuned(False)  # which says that nothing rotates
    if chosen.architecture in DENSE_FIRST:
        writer.add_leading_dense_block_count(1)
    if chosen.architecture in ("glm4moe", "afmoe", "nemotron_h_moe"):
        writer.add_expert_weights_scale(1.5)
    if chosen.architecture in ("glm4moe", "afmoe"):  # llama.cpp asks for these
        writer.add_expert_weights_norm(True)
        writer.add_expert_shared_count(chosen.shared_ffn // chosen.expert_ffn)
    if chosen.architecture in EXPERTS:
        writer.add_expert_count(chosen.experts)
        writer.add_expert_used_count(chosen.experts_used)
    if chosen.architecture in EXPERTS and chosen.architecture != "mixtral":
        writer.add_expert_feed_forward_length(chosen.expert_ffn)
    if chosen.architecture in (*SHARED_EXPERT, *PLAIN_SHARED_EXPERT):
        writer.add_expert_shared_feed_forward_length(chosen.shared_ffn)
    if chosen.architecture in ("qwen35", "qwen35moe"):  # without effect on text, where all axes are equal
        third, rest = divmod(chosen.rope_size // 2, 3)
        writer.add_rope_dimension_sections([third + rest, third, third, 0])
    if chosen.architecture in CONVOLVED:
        writer.add_shortconv_l_cache(chosen.conv_kernel)
    if chosen.architecture in (*HYBRIDS, *STATE_SPACES):
        writer.add_ssm_conv_kernel(chosen.conv_kernel)
        writer.add_ssm_inner_size(chosen.value_heads * chosen.value_size)
        writer.add_ssm_state_size(chosen.key_size)
        writer.add_ssm_time_step_rank(chosen.value_heads)
        writer.add_ssm_group_count(chosen.key_heads)


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
