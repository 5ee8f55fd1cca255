"""Slots that are put where something was computed before: models, pages to spare, and the comparisons."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from paceline.native import _cpu
from paceline.native.core import PAGE, Core, open_core

from .rows import Row, all_logits, table

CONTEXT = 640
SLOTS = 3
PAGES = SLOTS * CONTEXT // PAGE
SPARE = PAGES  # pages beyond those of the slots' own tables
SETS = _cpu.instruction_sets()
CACHE_TYPES = [*((kind, kind) for kind in ("f32", "f16", "bf16", "q8_0", "q4_0")), ("q8_0", "q4_0"), ("q4_0", "bf16")]
ATTENTION = {"type": "Q8_0", "width": 64, "heads": 4, "kv_heads": 2, "head_size": 32, "ffn": 96, "tied": True}
SLIDING = {"architecture": "gemma3", "type": "F16", "layers": 3, "head_size": 32, "window": 70, "tied": True}
HYBRID = {"type": "F32", "layers": 4, "head_size": 32, "key_heads": 2, "value_heads": 6, "key_size": 20}
MODELS = {
    "attention": ATTENTION,
    "sliding": SLIDING,
    "qwen35": {"architecture": "qwen35", "value_size": 36, **HYBRID},
    "lfm2": {"architecture": "lfm2", "type": "Q8_0", "layers": 4, "head_size": 32, "conv_kernel": 3},
    "qwen3next": {"architecture": "qwen3next", "type": "Q4_0", "value_size": 24, "value_heads": 8, "conv_kernel": 3},
}
SPLITS = (1, 2, 3, 63, 64, 65, 127, 128, 130, 199)
IDS = 200


def opened(path: Path, isa: str = SETS[-1], cache_types: tuple[str, str] = ("f16", "f16"), threads: int = 2) -> Core:
    """Slots with full tables and as many pages to spare, and two states that can be kept."""
    shape: dict[str, Any] = {"slots": SLOTS, "context": CONTEXT, "threads": threads, "isa": isa, "replay": 64}
    shape |= {"cache_type_k": cache_types[0], "cache_type_v": cache_types[1]}
    size = open_core(path, cache_bytes=1 << 30, **shape).page_bytes
    return open_core(path, cache_bytes=(PAGES + SPARE) * size, states=2, **shape)


def ids_of(seed: int, count: int, vocab: int = 128) -> list[int]:
    return np.random.default_rng(seed).integers(0, vocab, count).tolist()


def bits(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.uint32]:
    return logits.view(np.uint32)


def spare(count: int) -> array[int]:
    """Spare pages, last first: a slot's second half in the places of nobody's first."""
    return array("i", range(PAGES + SPARE - 1, PAGES + SPARE - 1 - count, -1))


def fed(core: Core, slot: int, ids: Sequence[int], split: int) -> None:
    """`slot` fed all `ids`, and, where layers are recurrent, state 0 kept at `split`."""
    core.commit(slot, 0)
    own = table(slot, CONTEXT)
    for begin, end in ((0, split), (split, len(ids))):
        core.step([Row(slot, ids[begin:end], begin, 0, own)])
        if begin and core.state_bytes:
            core.keep(slot, 0)  # of the committed position, whatever the step has written
        core.commit(slot, end)


def state_of(core: Core, state: int = 0) -> int | None:
    return state if core.state_bytes else None


def go_on(core: Core, slot: int, ids: Sequence[int], begin: int, own: array[int]) -> npt.NDArray[np.float32]:
    """The logits of ids[begin:], in two uneven steps."""
    found = []
    middle = begin + (len(ids) - begin + 2) // 3
    for first, last in ((begin, middle), (middle, len(ids))):
        if first < last:
            [(_, logits, *_)], _ = core.step([Row(slot, ids[first:last], first, last - first, own)])
            core.commit(slot, last)
            found.append(logits)
    return np.concatenate(found)


def shared(core: Core, source: int, split: int) -> array[int]:
    """A table that shares the full pages of `source` before `split`, and has copies of its own behind them."""
    theirs, own = table(source, CONTEXT), spare(CONTEXT // PAGE)
    full = split // PAGE
    if split % PAGE:
        core.copy_page(theirs[full], own[full])
    return theirs[:full] + own[full:]


def check_sharing(core: Core, splits: Sequence[int]) -> None:
    ids = ids_of(1, IDS)
    alone = all_logits(core, 0, ids)
    for split in splits:
        fed(core, 0, ids, split)
        own = shared(core, 0, split)
        core.step([Row(1, ids_of(split, 70), 0, 0, table(1, CONTEXT))])  # whatever slot 1 did before
        core.commit(1, 70)
        core.seat(1, ids[:split], state_of(core))
        assert np.array_equal(bits(go_on(core, 1, ids, split, own)), bits(alone[split:])), split
        # The other is untouched, and goes on from where it was.
        more = ids_of(3, 20)
        [(_, logits, *_)], _ = core.step([Row(0, more, IDS, 20, table(0, CONTEXT))])
        core.commit(0, IDS + 20)
        assert np.array_equal(bits(logits), bits(all_logits(core, 2, [*ids, *more])[IDS:])), split
        core.commit(1, 0)


def check_files(core: Core, other: Core, split: int) -> None:
    ids = ids_of(4, IDS)
    alone = all_logits(core, 0, ids)
    fed(core, 0, ids, split)
    count = -(-split // PAGE)
    pages = [core.read_page(page) for page in table(0, CONTEXT)[:count]]
    assert {len(page) for page in pages} == {core.page_bytes}
    own = spare(CONTEXT // PAGE)
    for place, data in zip(own, pages, strict=False):
        other.write_page(place, data)
        assert other.read_page(place) == data
    if core.state_bytes:
        data = core.read_state(0)
        assert len(data) == 8 + core.state_bytes
        assert int.from_bytes(data[:8], "little", signed=True) == split
        other.write_state(1, data)
        assert other.read_state(1) == data
    other.seat(2, ids[:split], state_of(core, 1))
    assert np.array_equal(bits(go_on(other, 2, ids, split, own)), bits(alone[split:]))
    other.commit(2, 0)
