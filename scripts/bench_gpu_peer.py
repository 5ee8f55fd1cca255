"""transformers beside scripts/bench_gpu.py: its decode of the same shape, random bfloat16 weights made on the device.

    python scripts/bench_gpu_peer.py MODEL --device cuda:0 --rows 1,8,16 --contexts 512

Prints a line of JSON for each figure: first of static batches (equal contexts in the cache that it uses by default, the
median of 16 steps), then of its continuous batching (see bench_gpu_continuous). Tokens are random, so that rows choose
experts independently. `flash_attention` and `linear_attention_kernels` say whether it had any.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench_gpu_child import json_lines, with_missing
from bench_gpu_continuous import decode
from bench_gpu_models import MODELS

STEPS, WARM = 16, 2
PIECE = 512  # tokens of each row in one step of prefill
STATIC, CONTINUOUS = "transformers", "transformers continuous"


def config_words(shape: Any) -> tuple[str, str, dict[str, Any]]:
    """The names of its configuration class and its model class, and the configuration's values."""
    words = {
        "vocab_size": shape.vocab,
        "hidden_size": shape.width,
        "intermediate_size": shape.ffn,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_size,
        "max_position_embeddings": shape.context,
        "tie_word_embeddings": shape.tied,
    }
    if shape.architecture == "qwen3":
        return "Qwen3Config", "Qwen3ForCausalLM", words
    if shape.architecture == "qwen3moe":
        words |= {"num_experts": shape.experts, "num_experts_per_tok": shape.experts_used}
        words |= {"moe_intermediate_size": shape.expert_ffn, "norm_topk_prob": shape.normalize_experts}
        return "Qwen3MoeConfig", "Qwen3MoeForCausalLM", words
    if shape.architecture == "qwen35":
        words |= {"linear_conv_kernel_dim": shape.conv_kernel}
        words |= {"linear_num_key_heads": shape.key_heads, "linear_key_head_dim": shape.key_size}
        words |= {"linear_num_value_heads": shape.value_heads, "linear_value_head_dim": shape.value_size}
        kinds = {"attention": "full_attention", "recurrent": "linear_attention"}
        words |= {"layer_types": [kinds[kind] for kind in shape.kinds]}
        words |= {"partial_rotary_factor": shape.rope_size / shape.head_size}
        return "Qwen3_5TextConfig", "Qwen3_5ForCausalLM", words
    raise ValueError(f"architecture {shape.architecture!r}: expected qwen3, qwen3moe or qwen35")


def network_of(shape: Any, place: str) -> Any:
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    config, model, words = config_words(shape)
    for name in (config, model):
        if not hasattr(transformers, name):
            raise ImportError(f"transformers {transformers.__version__} has no {name}")
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(place):
            return getattr(transformers, model)(getattr(transformers, config)(**words)).eval()
    finally:
        torch.set_default_dtype(torch.float32)


def static(network: Any, rows: int, context: int) -> tuple[float, int]:
    """Seconds per step of one token for each of `rows` rows with equal contexts, and how many steps were counted."""
    import torch

    cache, found = None, []
    prompts = torch.randint(network.config.vocab_size, (rows, context), device=network.device)
    with torch.no_grad():
        for piece in prompts.split(PIECE, dim=1):
            cache = network(piece, past_key_values=cache, use_cache=True, logits_to_keep=1).past_key_values
        ids = prompts[:, :1]
        for _ in range(WARM + STEPS):
            begun = time.perf_counter()
            ids = network(ids, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(dim=-1)
            ids.cpu()  # waits
            found.append(time.perf_counter() - begun)
    return statistics.median(found[WARM:]), STEPS


def expected(model: str, rows: tuple[int, ...], contexts: tuple[int, ...]) -> list[dict[str, Any]]:
    about = {"kind": "peer", "model": model, "format": "BF16"}
    ways = [(peer, used, number) for peer in (STATIC, CONTINUOUS) for used in contexts for number in rows]
    return [about | {"peer": peer, "context": used, "rows": number} for peer, used, number in ways]


def transformers_steps(
    model: str, rows: tuple[int, ...], contexts: tuple[int, ...], device: str, limit: float, over: str
) -> Iterator[dict[str, Any]]:
    """What this script prints when run in a process of its own, within `limit` seconds."""
    words = [sys.executable, str(Path(__file__).resolve()), model, "--device", device]
    words += ["--rows", ",".join(map(str, rows)), "--contexts", ",".join(map(str, contexts))]
    alone = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    yield from with_missing(json_lines(words, limit, alone), expected(model, rows, contexts), over)


def numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted(int(word) for word in text.split(",")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:<n>, or emulator for the CPU")
    parser.add_argument("--rows", type=numbers, required=True)
    parser.add_argument("--contexts", type=numbers, required=True)
    chosen = parser.parse_args()
    import torch
    import transformers
    from transformers.utils import is_flash_attn_2_available

    begun = time.perf_counter()
    network = network_of(MODELS[chosen.model], "cpu" if chosen.device == "emulator" else chosen.device)
    own = {"version": transformers.__version__, "flash_attention": bool(is_flash_attn_2_available())}
    own |= {"linear_attention_kernels": find_spec("fla") is not None}  # else a hybrid's recurrence is PyTorch's
    own |= {"making_s": time.perf_counter() - begun}
    ways: dict[str, Callable[[Any, int, int], tuple[float, int]]] = {STATIC: static, CONTINUOUS: decode}
    for about in expected(chosen.model, chosen.rows, chosen.contexts):
        try:
            seconds, steps = ways[about["peer"]](network, about["rows"], about["context"])
        except Exception as error:  # no room, or a model it does not support; the next figure may still work
            found: dict[str, Any] = {"skipped": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        else:
            found = {"ms": 1e3 * seconds, "steps": steps, "tokens_per_s": about["rows"] / seconds}
        print(json.dumps(about | own | found), flush=True)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
