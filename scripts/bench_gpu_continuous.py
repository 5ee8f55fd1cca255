"""transformers' continuous batching for scripts/bench_gpu.py: the steps in which all requests decode.

As many requests of `context` random tokens each as there are rows go to generate_batch at once. It cuts their prefill
into batches of BATCH_TOKENS and records when each token came; some requests decode while others are still in prefill.
Only steps after the last request's first WARM tokens (where graphs are captured) and before the end of the first
request count: each of them gives one token to every request, which is checked. Their mean is a step's seconds.
"""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

BATCH_TOKENS = 2048  # in one batch of its prefill
WARM, STEPS = 4, 32  # tokens of the last request: first not counted, then counted


def steady(times: list[list[float]]) -> tuple[float, int]:
    """Seconds per step while all decode, and the number of these steps. times: for each request, when each of its
    tokens came."""
    last = max(times, key=lambda own: own[0])
    end = min(own[-1] for own in times)
    counted = [moment for moment in last[WARM:] if moment <= end]
    steps = len(counted) - 1
    if steps < STEPS // 2:
        raise ValueError(f"{max(0, steps)} steps in which all decode, expected {STEPS // 2} or more")
    for own in times:
        tokens = sum(counted[0] < moment <= counted[-1] for moment in own)
        if abs(tokens - steps) > 1:  # tokens of one step come a moment apart
            raise ValueError(f"a request got {tokens} tokens in {steps} steps, expected one a step")
    return (counted[-1] - counted[0]) / steps, steps


def settings(rows: int, length: int) -> dict[str, Any]:
    """The arguments of generate_batch besides the requests: room for `rows` of `length` tokens, nothing shared."""
    from transformers.generation import configuration_utils
    from transformers.utils import is_flash_attn_2_available

    kind = getattr(configuration_utils, "ContinuousBatchingConfig", None)
    if kind is None:
        return {}
    known = {field.name: field.default for field in fields(kind)}
    page = known.get("page_size") or known.get("block_size") or 256
    wanted = {
        "num_blocks": rows * (-(-length // page) + 1) * 5 // 4 + 4,  # it keeps a share of them free
        "max_batch_tokens": BATCH_TOKENS,
        "allow_block_sharing": False,
        "auto_switch_to_flash": is_flash_attn_2_available(),  # so that it looks for none on the network
    }
    return {"continuous_batching_config": kind(**{name: value for name, value in wanted.items() if name in known})}


def decode(network: Any, rows: int, context: int) -> tuple[float, int]:
    """Seconds per step of `rows` rows at `context`, and how many steps were counted."""
    import torch
    import transformers

    generate = getattr(network, "generate_batch", None)
    if generate is None or "record_timestamps" not in inspect.signature(generate).parameters:
        raise ImportError(f"transformers {transformers.__version__} has no generate_batch that tells when tokens came")
    new = -(-rows * context // BATCH_TOKENS) + WARM + STEPS + 2
    prompts = torch.randint(network.config.vocab_size, (rows, context), device="cpu").tolist()
    greedy = transformers.GenerationConfig(max_new_tokens=new, do_sample=False, eos_token_id=-1, pad_token_id=0)
    results = generate(prompts, generation_config=greedy, record_timestamps=True, **settings(rows, context + new))
    times = []
    for result in results.values():
        if result.error is not None:
            raise RuntimeError(str(result.error))
        if len(result.timestamps) != new or len(result.generated_tokens) != new:
            raise ValueError(f"{len(result.timestamps)} tokens of a request, expected {new}")
        times.append(result.timestamps)
    if len(times) != rows:
        raise RuntimeError(f"{len(times)} of {rows} requests came back")
    return steady(times)
