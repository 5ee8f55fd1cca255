"""Requests on the CUDA core's device in random schedules, and greedily for long: the bits of the CPU core."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from paceline.native.core import Core, open_core
from paceline.native.files.model_file import MATRIX_TYPES

from .core_models import ONE_ORDER, ids_of
from .emulated import KIND, Product, same_bits
from .rows import Row, all_logits, table
from .test_formats import ROWS, columns_of, random_blocks

CONTEXT = 320
STEPS = 24 if KIND == "emulator" else 256
SCHEDULES = 2 if KIND == "emulator" else 12
INTEGERS = tuple(name for name in MATRIX_TYPES if name not in ("F32", "F16", "BF16"))


@pytest.mark.skipif(KIND == "emulator", reason="compares a GPU with the emulated device")
@pytest.mark.parametrize("name", INTEGERS)
def test_integer_products_hash_to_the_emulators(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first test of scripts/gpu_check: where this fails, an instruction means something else than we think."""
    from . import emulated
    from .test_cuda_products import inputs_of

    def hashed() -> dict[int, str]:
        columns = columns_of(name, 35)
        product = Product(name, ROWS, columns, random_blocks(name, columns))
        return {count: hashlib.sha256(product(inputs_of(count, columns)).tobytes()).hexdigest() for count in (1, 8, 40)}

    on_gpu = hashed()
    monkeypatch.setattr(emulated, "new_device", lambda: (emulated._emulator, emulated.EmulatedMemory()))
    assert on_gpu == hashed()


@pytest.fixture(scope="module", params=("Q8_0", "gpt-oss, MXFP4", "gemma3"))
def path(request: pytest.FixtureRequest, tiny_model: Any) -> Path:
    return tiny_model(**ONE_ORDER[request.param])


@pytest.fixture(scope="module")
def cores(path: Path) -> tuple[Core, Core]:
    cpu = open_core(path, slots=6, context=CONTEXT)
    return cpu, open_core(path, slots=6, context=CONTEXT, kind=KIND)


def hashes_of(device: Core, texts: Sequence[Sequence[int]], seed: int) -> list[str]:
    """SHA-256 of each text's logits, from a random schedule."""
    chance = random.Random(seed)
    hashes = [hashlib.sha256() for _ in texts]
    done = [0] * len(texts)
    for slot in range(len(texts)):
        device.commit(slot, 0)
    while any(done[slot] < len(ids) for slot, ids in enumerate(texts)):
        waiting = [slot for slot, ids in enumerate(texts) if done[slot] < len(ids)]
        rows = []
        for slot in chance.sample(waiting, chance.randint(1, len(waiting))):
            count = min(chance.choice((1, 1, 1, 2, 5, 16, 33)), len(texts[slot]) - done[slot])
            fed = texts[slot][done[slot] : done[slot] + count]
            rows.append(Row(slot, fed, done[slot], count, table(slot, CONTEXT)))
        results, _ = device.step(rows)
        for row, (_, logits, *_) in zip(rows, results, strict=True):
            assert logits is not None
            hashes[row.slot].update(logits.tobytes())
            done[row.slot] += len(row.tokens)
            device.commit(row.slot, done[row.slot])
    return [found.hexdigest() for found in hashes]


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_a_request_has_one_hash_in_any_schedule(cores: tuple[Core, Core], seed: int) -> None:
    cpu, device = cores
    texts = [ids_of(slot, 20 + 17 * slot, cpu.vocab) for slot in range(6)]
    alone = [hashlib.sha256(all_logits(cpu, 0, ids).tobytes()).hexdigest() for ids in texts]
    assert hashes_of(device, texts, seed) == alone


def greedy(core: Core, ids: list[int], steps: int) -> list[int]:
    """Tokens of slot 0; every step but the first is one token, as a decode is."""
    core.commit(0, 0)
    found: list[int] = []
    fed, position = ids, 0
    for _ in range(steps):
        ((tokens, *_),), _ = core.step([Row(0, fed, position, 1, table(0, CONTEXT), len(ids), logits=False)])
        position += len(fed)
        core.commit(0, position)
        fed = [tokens[0]]
        found += fed
    return found


def test_greedy_tokens_are_the_cpu_cores(cores: tuple[Core, Core]) -> None:
    ids = ids_of(9, 30, cores[0].vocab)
    assert greedy(cores[1], ids, STEPS) == greedy(cores[0], ids, STEPS)


@pytest.mark.skipif(KIND == "emulator", reason="a GPU's; the emulated device has those of test_cuda_graphs.py")
def test_a_decode_is_graphs(cores: tuple[Core, Core]) -> None:
    greedy(cores[1], ids_of(11, 30, cores[1].vocab), 8)
    memory = cores[1].stepper._memory  # type: ignore[attr-defined]
    assert memory.without_graph is None
    assert any(hasattr(graph, "launch") for graph in memory._graphs.values())


def test_the_bits_after_a_long_decode_are_the_cpu_cores(cores: tuple[Core, Core]) -> None:
    ids = ids_of(10, 30 + STEPS, cores[0].vocab)
    cuts = [30 + step for step in range(STEPS)]
    assert same_bits(all_logits(cores[1], 1, ids, cuts), all_logits(cores[0], 1, ids))
