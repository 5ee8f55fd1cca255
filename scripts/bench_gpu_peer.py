"""The peer of scripts/bench_gpu.py: transformers' own decode of the same shape, random weights in bfloat16."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

STEPS = 16


def transformers_steps(
    model: str, shape: Any, rows: tuple[int, ...], contexts: tuple[int, ...], device: str
) -> Iterator[dict[str, Any]]:
    """Seconds of one token of each of so many rows with equal contexts; ImportError and ValueError say why not."""
    import torch
    from transformers import DynamicCache, Qwen3Config, Qwen3ForCausalLM

    if shape.architecture != "qwen3":
        raise ValueError(f"no peer of architecture {shape.architecture} here")
    place = "cpu" if device == "emulator" else device
    config = Qwen3Config(
        vocab_size=shape.vocab,
        hidden_size=shape.width,
        intermediate_size=shape.ffn,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_size,
        max_position_embeddings=shape.context,
        tie_word_embeddings=shape.tied,
    )
    network = cache = None
    try:
        with torch.device(place), torch.no_grad():
            torch.set_default_dtype(torch.bfloat16)
            try:
                network = Qwen3ForCausalLM(config).eval()
            finally:
                torch.set_default_dtype(torch.float32)
            for used in contexts:
                for number in rows:
                    about = {"kind": "peer", "model": model, "format": "BF16", "rows": number, "context": used}
                    try:
                        cache = DynamicCache()
                        for begin in range(0, used, 512):  # a batch's prefill, piece by piece
                            ids = torch.ones((number, min(512, used - begin)), dtype=torch.long)
                            network(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
                        found = []
                        for _ in range(STEPS):
                            begun = time.perf_counter()
                            ids = torch.ones((number, 1), dtype=torch.long)
                            logits = network(ids, past_key_values=cache, use_cache=True).logits
                            logits[:, -1].argmax(dim=-1).cpu()
                            found.append(time.perf_counter() - begun)
                    except RuntimeError as error:  # no room
                        yield about | {"skipped": str(error).split("\n")[0]}
                        continue
                    seconds = statistics.median(found)
                    yield about | {"ms": 1e3 * seconds, "tokens_per_s": number / seconds, "what": "transformers"}
    finally:
        network = cache = None
        if place != "cpu":
            torch.cuda.empty_cache()
