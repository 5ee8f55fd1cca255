"""Steps of models in 16-bit floats on the CUDA core's device: near the CPU core's, and one hash in any company.

An mma of bfloat16 rounds in a way of its own, so that these have not the CPU's bits. The cache is float32 here: in one
of float16 the smallest difference may come to be 2^-11 of a key.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from paceline.native.core import Core, open_core

from .core_models import MODELS, ids_of
from .emulated import COUNTS_LOADS, KIND, ORDERS, counting_loads, lanes, planned_for, same_bits
from .rows import Row, all_logits, table
from .test_cuda_schedules import CONTEXT, SCHEDULES, STEPS, greedy, hashes_of

FILES: dict[str, dict[str, Any]] = {
    "F16": MODELS["gemma3"],
    "BF16": MODELS["gemma3"] | {"type": "BF16"},
    "wide": {"type": "BF16", "width": 544, "heads": 4, "kv_heads": 2, "head_size": 32, "ffn": 1100, "layers": 1},
    # All experts: the smallest difference may tip the choice between two. With a head of another format.
    "experts": {"architecture": "qwen3moe", "type": "BF16", "experts": 9, "experts_used": 9, "embedding_type": "Q8_0"},
}
SPARSE = {"architecture": "qwen3moe", "type": "F16", "layers": 2, "experts": 33, "experts_used": 4, "expert_ffn": 40}
NEAR = 2e-5  # of the logits' root mean square; without an input's second part it is a hundred times as much


@pytest.fixture(scope="module", params=FILES)
def cores(request: pytest.FixtureRequest, tiny_model: Any) -> tuple[Core, Core]:
    path = tiny_model(**FILES[request.param])
    shape: dict[str, Any] = {"slots": 6, "context": CONTEXT, "cache_type_k": "f32", "cache_type_v": "f32"}
    return open_core(path, **shape), open_core(path, kind=KIND, **shape)


def error(found: np.ndarray, expected: np.ndarray) -> float:
    difference = found.astype(float) - expected
    return float(np.sqrt(np.mean(difference**2) / np.mean(expected.astype(float) ** 2)))


def test_a_step_is_near_the_cpus(cores: tuple[Core, Core]) -> None:
    cpu, device = cores
    ids = ids_of(1, 140, cpu.vocab)
    expected = all_logits(cpu, 0, ids)
    found = all_logits(device, 1, ids, cuts=(1, 2, 19, 66, 73))
    assert error(found, expected) < NEAR
    assert same_bits(all_logits(device, 2, ids), found)
    with planned_for(1000):  # too few blocks for a device so large, if a warp took two row tiles
        assert same_bits(all_logits(device, 3, ids), found)


def test_columns_that_chose_experts_are_as_alone(tiny_model: Any) -> None:
    device = open_core(tiny_model(**SPARSE, width=72), slots=16, context=CONTEXT, kind=KIND)
    texts = [ids_of(slot, 4, device.vocab) for slot in range(16)]
    alone = [all_logits(device, slot, ids, cuts=(3,))[-1] for slot, ids in enumerate(texts)]
    for count in (2, 5, 16):
        for slot in range(count):
            device.commit(slot, 0)
            device.step([Row(slot, texts[slot][:3], 0, 0, table(slot, CONTEXT))])
            device.commit(slot, 3)
        rows = [Row(slot, texts[slot][3:], 3, 1, table(slot, CONTEXT)) for slot in range(count)]
        results, _ = device.step(rows)
        for (_, logits, *_), expected in zip(results, alone, strict=False):
            assert same_bits(logits[0], expected), count
    ids = ids_of(5, 100, device.vocab)  # more columns than a list of an expert's has
    assert same_bits(all_logits(device, 0, ids, cuts=(83,)), all_logits(device, 1, ids))


@pytest.mark.parametrize("order", ORDERS)
def test_lanes_in_any_order_give_the_same_bits(cores: tuple[Core, Core], order: str) -> None:
    _, device = cores
    ids = ids_of(2, 30, device.vocab)
    expected = all_logits(device, 0, ids)
    with lanes(order, seed=3):
        assert same_bits(all_logits(device, 1, ids, cuts=(1, 18)), expected)


@pytest.mark.parametrize("seed", range(SCHEDULES // 2))
def test_a_request_has_one_hash_in_any_schedule(cores: tuple[Core, Core], seed: int) -> None:
    _, device = cores
    texts = [ids_of(slot, 20 + 17 * slot, device.vocab) for slot in range(4)]
    alone = [hashlib.sha256(all_logits(device, 0, ids).tobytes()).hexdigest() for ids in texts]
    assert hashes_of(device, texts, seed) == alone


def test_greedy_tokens_are_the_cpu_cores_but_for_ties(cores: tuple[Core, Core]) -> None:
    cpu, device = cores
    ids = ids_of(9, 30, cpu.vocab)
    expected, found = greedy(cpu, ids, STEPS), greedy(device, ids, STEPS)
    if found == expected:
        return
    same = next(i for i in range(STEPS) if found[i] != expected[i])
    logits = all_logits(cpu, 0, [*ids, *expected[:same]])[-1]
    assert logits[expected[same]] - logits[found[same]] < 4 * NEAR * np.sqrt(np.mean(logits**2))


@pytest.mark.skipif(not COUNTS_LOADS, reason="a GPU does not tell what it loads")
@pytest.mark.parametrize("tokens", [1, 16, 70])
def test_weights_are_read_once(cores: tuple[Core, Core], tokens: int) -> None:
    _, device = cores
    device.commit(0, 0)
    rows = [Row(0, list(range(tokens)), 0, 1, table(0, CONTEXT), logits=False)]
    told, loaded = counting_loads(lambda: device.step(rows)[1])
    if device.architecture == "qwen3moe":  # told is what could be chosen at most
        assert 0 < loaded <= told
    elif tokens <= 16 or device.architecture == "llama":  # whose matrices have row tiles in pairs
        assert loaded == told
    else:  # a warp that finds no second row tile loads the first again
        assert told <= loaded < 1.07 * told
