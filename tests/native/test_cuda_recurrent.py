"""Recurrent layers of the CUDA core on the emulated device: states, kept copies, partial commits, to the CPU's bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from paceline.native.core import Core, open_core

from .core_models import ids_of
from .emulated import KIND, lanes, same_bits
from .rows import Row, all_logits, table
from .seating import CONTEXT, HYBRID, PAGES, SLOTS, SPARE, check_files, check_sharing, fed, go_on, shared

MODELS: dict[str, dict[str, Any]] = {
    "qwen35": {"architecture": "qwen35", "value_size": 36, **HYBRID},
    "lfm2": {"architecture": "lfm2", "type": "F32", "width": 72, "heads": 6, "head_size": 12, "layers": 4},
    "qwen3next": {"architecture": "qwen3next", "type": "Q4_0", "value_size": 24, "value_heads": 8, "conv_kernel": 3},
    "granitehybrid": {"architecture": "granitehybrid", "value_size": 36, **HYBRID},
    "nemotron_h": {"architecture": "nemotron_h", "type": "Q8_0", "value_size": 24, "layers": 6},
}
WIDE = {"type": "Q8_0", "layers": 2, "interval": 2, "value_heads": 16, "value_size": 64}
# Heads of Qwen3.5's size; of one block, with more taps and channels that are padded; of a state space; too large for
# shared memory.
ONE_TOKEN: dict[str, dict[str, Any]] = {
    "qwen35": {"architecture": "qwen35", "key_heads": 2, "value_heads": 6, "key_size": 128, "value_size": 128},
    "taps": {
        "architecture": "qwen3next",
        "key_heads": 1,
        "value_heads": 3,
        "key_size": 12,
        "value_size": 32,
        "conv_kernel": 6,
    },
    "granitehybrid": {
        "architecture": "granitehybrid",
        "key_heads": 2,
        "value_heads": 16,
        "key_size": 24,
        "value_size": 64,
    },
    "large": {"architecture": "qwen35", "key_heads": 1, "value_heads": 2, "key_size": 200, "value_size": 160},
}


def opened(path: Path, kind: str) -> Core:
    shape: dict[str, Any] = {"slots": SLOTS, "context": CONTEXT}
    size = open_core(path, cache_bytes=1 << 30, **shape).page_bytes
    return open_core(path, cache_bytes=(PAGES + SPARE) * size, states=2, replay=64, kind=kind, **shape)


@pytest.fixture(scope="module", params=MODELS)
def both(request: pytest.FixtureRequest, tiny_model: Any) -> tuple[Core, Core]:
    path = tiny_model(**MODELS[request.param])
    return opened(path, "cpu"), opened(path, KIND)


@pytest.fixture
def cores(both: tuple[Core, Core]) -> tuple[Core, Core]:
    for core in both:
        for slot in range(SLOTS):
            core.commit(slot, 0)
    return both


def test_chunks_have_the_bits_of_the_cpu(cores: tuple[Core, Core]) -> None:
    cpu, device = cores
    ids = ids_of(1, 90, cpu.vocab)
    expected = all_logits(cpu, 0, ids)
    for order, cuts in (("reversed", (1, 2, 4, 5, 70)), ("shuffled", (66,))):
        with lanes(order):
            assert same_bits(all_logits(device, 1, ids, cuts), expected), order


@pytest.mark.parametrize("architecture", ["qwen35", "granitehybrid"])
def test_heads_that_end_with_a_block_have_the_bits_of_the_cpu(tiny_model: Any, architecture: str) -> None:
    """So that several blocks of threads share a column."""
    path = tiny_model(**WIDE, architecture=architecture)
    cpu, device = opened(path, "cpu"), opened(path, KIND)
    ids = ids_of(2, 20, cpu.vocab)
    assert same_bits(all_logits(device, 0, ids, (9,)), all_logits(cpu, 0, ids))


@pytest.mark.parametrize("shape", ONE_TOKEN)
def test_rows_of_one_token_have_the_bits_of_a_prompt(tiny_model: Any, shape: str) -> None:
    """They have a kernel of their own, in which heads that share queries and keys compute them each for itself."""
    path = tiny_model(type="Q8_0", layers=2, interval=2, **ONE_TOKEN[shape])
    cpu, device = opened(path, "cpu"), opened(path, KIND)
    ids = [ids_of(20 + slot, 9, cpu.vocab) for slot in range(SLOTS)]
    expected = [all_logits(cpu, slot, ids[slot]) for slot in range(SLOTS)]
    for position in range(9):
        here = [slot for slot in range(SLOTS) if position >= 3 * slot]  # they come one after the other
        rows = [
            Row(slot, [ids[slot][position - 3 * slot]], position - 3 * slot, 1, table(slot, CONTEXT)) for slot in here
        ]
        with lanes("shuffled", position):
            results, _ = device.step(rows)
        for row, (_, logits, *_) in zip(rows, results, strict=True):
            assert same_bits(logits, expected[row.slot][row.position : row.position + 1])
            device.commit(row.slot, row.position + 1)
    cpu.keep(0, 0)
    device.keep(0, 0)
    assert device.read_state(0) == cpu.read_state(0)


def test_a_seat_on_shared_pages(cores: tuple[Core, Core]) -> None:
    check_sharing(cores[1], (65,))


def test_pages_and_states_move_to_the_other_core(cores: tuple[Core, Core]) -> None:
    cpu, device = cores
    assert device.state_bytes == cpu.state_bytes > 0
    check_files(cpu, device, 65)
    for core in cores:
        fed(core, 0, ids_of(9, 90, cpu.vocab), 77)
    assert device.read_state(0) == cpu.read_state(0)
    for core in cores:
        core.commit(0, 0)
        core.keep(0, 1)
    assert device.read_state(1) == cpu.read_state(1) == bytes(8 + cpu.state_bytes)


def test_part_of_a_row_is_committed(cores: tuple[Core, Core]) -> None:
    """Updates made again: from nothing, from a kept state, after drafts that were wrong."""
    cpu, device = cores
    ids, wrong = ids_of(6, 120, cpu.vocab), ids_of(7, 70, cpu.vocab)
    alone = all_logits(cpu, 0, ids)
    for split in (0, 5):
        device.seat(1, [], None)
        own = table(1, CONTEXT)
        if split:
            fed(device, 0, ids, split)
            own = shared(device, 0, split)
            device.seat(1, ids[:split], 0)
        position = split
        for taken, drafted in ((1, 2), (2, 9), (1, 64), (3, 4), (20, 20), (0, 7)):
            row = [*ids[position : position + taken], *wrong[: drafted - taken]]
            with lanes("shuffled", drafted):
                [(_, logits, *_)], _ = device.step([Row(1, row, position, len(row), own)])
                position += taken
                device.commit(1, position)
            assert same_bits(logits[:taken], alone[position - taken : position])
        assert same_bits(go_on(device, 1, ids, position, own), alone[position:])
        fed(cpu, 2, ids, position)
        device.commit(0, 0)
        fed(device, 2, ids, position)
        assert device.read_state(0) == cpu.read_state(0)
        for slot in range(SLOTS):
            device.commit(slot, 0)


def test_refused_calls_change_nothing(cores: tuple[Core, Core]) -> None:
    cpu, core = cores
    ids = ids_of(11, 110, core.vocab)
    alone = all_logits(cpu, 0, ids)
    fed(core, 0, ids[:60], 40)
    kept, own = core.read_state(0), shared(core, 0, 40)
    core.seat(1, ids[:40], 0)
    core.write_state(1, kept)
    late = (CONTEXT + 1).to_bytes(8, "little") + kept[8:]
    for call, reason in [
        (lambda: core.keep(SLOTS, 0), "slot 3 is not one of 3"),
        (lambda: core.keep(1, 2), "state 2 is not one of 2"),
        (lambda: core.seat(1, ids[:41], 0), "state 0 is of position 40, expected 41"),
        (lambda: core.seat(1, ids[:40], None), "40 ids need the state"),
        (lambda: core.seat(1, [], 0), "expected no state"),
        (lambda: core.write_state(0, kept[1:]), "bytes are no state"),
        (lambda: core.write_state(0, late), f"a state of position {CONTEXT + 1}"),
        (lambda: core.read_state(2), "state 2 is not one of 2"),
    ]:
        with pytest.raises(ValueError, match=reason):
            call()
    core.step([Row(1, ids[40:110], 40, 0, own)])
    with pytest.raises(ValueError, match="committed whole"):
        core.commit(1, 41)
    assert core.read_state(0) == core.read_state(1) == kept
    assert same_bits(go_on(core, 1, ids, 40, own), alone[40:])
