"""A slot put where something was computed before: the same bits as if it had been fed everything itself."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paceline.native.core import open_core
from paceline.protocol import Sampling

from .rows import Row, all_logits, table
from .seating import (
    CACHE_TYPES,
    CONTEXT,
    IDS,
    MODELS,
    PAGES,
    SETS,
    SLOTS,
    SPARE,
    SPLITS,
    bits,
    check_files,
    check_sharing,
    fed,
    go_on,
    ids_of,
    opened,
    shared,
    state_of,
)


@pytest.fixture(scope="module", params=MODELS)
def path(request: pytest.FixtureRequest, tiny_model: Any) -> Path:
    return tiny_model(**MODELS[request.param])


def test_a_seat_on_shared_pages(path: Path) -> None:
    check_sharing(opened(path), SPLITS)


@pytest.mark.parametrize("isa", SETS[:-1])
def test_a_seat_on_every_instruction_set(path: Path, isa: str) -> None:
    check_sharing(opened(path, isa, threads=1), (65,))


@pytest.mark.parametrize("name", ["attention", "sliding", "qwen35"])
@pytest.mark.parametrize("cache_types", CACHE_TYPES)
def test_a_seat_with_every_cache_type(tiny_model: Any, name: str, cache_types: tuple[str, str]) -> None:
    core = opened(tiny_model(**MODELS[name]), cache_types=cache_types)
    check_sharing(core, (70, 128))
    check_files(core, core, 130)


def test_pages_and_states_move_to_another_core(path: Path) -> None:
    """Of the same model, on whatever instructions."""
    core, other = opened(path), opened(path, SETS[0], threads=1)
    assert core.fingerprint == other.fingerprint
    for split in (1, 65, 128, 199):
        check_files(core, other, split)
        check_files(other, core, split)


def test_a_seat_carries_the_history_of_penalties(path: Path) -> None:
    penalties = Sampling(rep_penalty=1.5, freq_penalty=0.7, pres_penalty=0.3)

    def tokens(slot: int, own: array[int]) -> list[int]:
        found: list[int] = []
        token = ids[-1]
        for position in range(split, split + 12):
            [([token], *_)], _ = core.step(
                [Row(slot, [token], position, 1, own, prompt_tokens=40, sampling=penalties, logits=False)]
            )
            core.commit(slot, position + 1)
            found.append(token)
        return found

    core, ids = opened(path), ids_of(5, 71)
    split = len(ids) - 1
    fed(core, 0, ids, split)
    own = shared(core, 0, split)
    core.commit(0, 0)
    fed(core, 0, ids[:split], split - 1)
    if core.state_bytes:
        core.keep(0, 1)
    expected = tokens(0, table(0, CONTEXT))
    core.seat(1, ids[:split], state_of(core, 1))
    assert tokens(1, own) == expected
    assert len(set(expected)) > 6  # penalties at work: the model alone repeats itself


@pytest.mark.parametrize("name", ["qwen35", "qwen3next", "lfm2"])
def test_part_of_a_row_committed_after_a_seat(tiny_model: Any, name: str) -> None:
    """Updates made again from a kept state, and a state kept while a step's scratch is there."""
    core = opened(tiny_model(**MODELS[name]))
    ids, wrong = ids_of(6, IDS), ids_of(7, 70)
    alone = all_logits(core, 0, ids)
    for split in (1, 2, 5, 64, 100):
        fed(core, 0, ids, split)
        own = shared(core, 0, split)
        core.seat(1, ids[:split], 0)
        position = split
        for taken, drafted in ((1, 2), (2, 9), (1, 64), (3, 4), (20, 20), (0, 7)):
            row = [*ids[position : position + taken], *wrong[: drafted - taken]]
            [(_, logits, *_)], _ = core.step([Row(1, row, position, len(row), own)])
            assert np.array_equal(bits(logits[:taken]), bits(alone[position : position + taken]))
            position += taken
            core.commit(1, position)
        core.step([Row(1, wrong[:30], position, 0, own)])
        core.keep(1, 1)
        core.step([Row(1, wrong[:5], position, 0, own)])
        core.commit(1, position + 5)
        core.seat(1, ids[:position], 1)
        assert np.array_equal(bits(go_on(core, 1, ids, position, own)), bits(alone[position:]))
        core.commit(1, 0)


def test_a_kept_state_stays_as_it_was(tiny_model: Any) -> None:
    core, ids = opened(tiny_model(**MODELS["qwen35"])), ids_of(8, 100)
    fed(core, 0, ids, 60)
    kept = core.read_state(0)
    core.seat(1, ids[:60], 0)
    go_on(core, 1, ids, 60, shared(core, 0, 60))
    core.commit(0, 0)
    assert core.read_state(0) == kept
    core.keep(0, 1)  # the zero state
    assert core.read_state(1) == bytes(8 + core.state_bytes)
    core.write_state(1, kept)
    core.keep(1, 0)
    assert core.read_state(0)[:8] == (100).to_bytes(8, "little") and core.read_state(1) == kept


def test_kept_states_are_the_same_bytes_on_every_instruction_set(tiny_model: Any) -> None:
    states = set()
    for isa in SETS:
        core = opened(tiny_model(**MODELS["qwen35"]), isa)
        fed(core, 0, ids_of(9, 90), 77)
        states.add(core.read_state(0))
    assert len(states) == 1


def test_a_seat_without_ids_begins_anew(path: Path) -> None:
    core, ids = opened(path), ids_of(10, 50)
    alone = all_logits(core, 0, ids)
    core.seat(0, [], None)
    assert np.array_equal(go_on(core, 0, ids, 0, table(0, CONTEXT)), alone)


def test_refused_calls_change_nothing(path: Path) -> None:
    core, ids = opened(path), ids_of(11, IDS)
    alone = all_logits(core, 0, ids)
    split = 100
    fed(core, 0, ids[:120], split)
    kept = core.read_state(0) if core.state_bytes else b""
    own = shared(core, 0, split)
    core.seat(1, ids[:split], state_of(core))
    core.step([Row(1, ids[split : split + 20], split, 0, own)])  # to be committed in part at the end
    page = core.read_page(own[0])
    state = state_of(core)
    refused = [
        (lambda: core.seat(-1, ids[:split], state), "slot -1 is not one of 3"),
        (lambda: core.seat(3, ids[:split], state), "slot 3 is not one of 3"),
        (lambda: core.seat(1, [core.vocab, *ids[1:split]], state), "outside the vocabulary"),
        (lambda: core.seat(1, [*ids[1:split], -1], state), "outside the vocabulary"),
        (lambda: core.seat(1, [1] * (CONTEXT + 1), state), f"641 ids are more than the context of {CONTEXT}"),
        (lambda: core.copy_page(-1, 0), "page -1 is not in the pool"),
        (lambda: core.copy_page(0, PAGES + SPARE), f"page {PAGES + SPARE} is not in the pool of {PAGES + SPARE}"),
        (lambda: core.read_page(PAGES + SPARE), "is not in the pool"),
        (lambda: core.write_page(-1, page), "is not in the pool"),
        (lambda: core.write_page(own[0], page[1:]), f"{len(page) - 1} bytes are no page .* expected {len(page)}"),
        (lambda: core.write_page(own[0], page + b"x"), "bytes are no page"),
        (lambda: core.keep(1, 2), "state 2 is not one of 2" if kept else "no recurrent layers"),
        (lambda: core.keep(1, -1), "state -1 is not one of 2" if kept else "no recurrent layers"),
        (lambda: core.seat(1, ids[:split], 2), "state 2 is not one of 2" if kept else "no recurrent layers"),
        (lambda: core.seat(1, ids[:split], 1), "state 1 holds nothing yet" if kept else "no recurrent layers"),
        (lambda: core.read_state(1), "state 1 holds nothing yet" if kept else "no recurrent layers"),
        (lambda: core.write_state(0, kept[1:]), "bytes are no state" if kept else "no recurrent layers"),
    ]
    if kept:
        late = (CONTEXT + 1).to_bytes(8, "little") + kept[8:]
        refused += [
            (lambda: core.keep(3, 0), "slot 3 is not one of 3"),
            (lambda: core.seat(1, ids[: split + 1], 0), f"state 0 is of position {split}, expected {split + 1}"),
            (lambda: core.seat(1, ids[:split], None), f"{split} ids need the state"),
            (lambda: core.seat(1, [], 0), "expected no state"),
            (lambda: core.write_state(2, kept), "state 2 is not one of 2"),
            (lambda: core.write_state(0, late), f"a state of position {CONTEXT + 1}"),
        ]
    for call, reason in refused:
        with pytest.raises(ValueError, match=reason):
            call()
    assert core.read_page(own[0]) == page
    assert not kept or core.read_state(0) == kept
    core.commit(1, split + 7)
    assert np.array_equal(bits(go_on(core, 1, ids, split + 7, own)), bits(alone[split + 7 :]))


def test_the_reference_feeds_a_seat_again(path: Path) -> None:
    core = open_core(path, slots=SLOTS, context=CONTEXT, kind="reference")
    assert core.state_bytes == 0
    ids = ids_of(12, 90)
    alone = all_logits(core, 0, ids)
    core.keep(0, 0)
    core.copy_page(0, 1)
    for split in (1, 64, 89):
        core.commit(1, 0)
        core.step([Row(1, ids_of(13, 30), 0, 0, table(1, CONTEXT))])
        core.commit(1, 30)
        core.seat(1, ids[:split], None)
        for bad in (lambda: core.seat(SLOTS, ids, None), lambda: core.seat(1, [core.vocab], None)):
            with pytest.raises(ValueError, match=r"slot \d"):
                bad()
        with pytest.raises(ValueError, match=f"more than the context of {CONTEXT}"):
            core.seat(1, [1] * (CONTEXT + 1), None)
        np.testing.assert_allclose(go_on(core, 1, ids, split, table(1, CONTEXT)), alone[split:], rtol=0, atol=1e-3)
    core.seat(1, [], None)
    np.testing.assert_allclose(go_on(core, 1, ids, 0, table(1, CONTEXT)), alone, rtol=0, atol=1e-3)
    for call in (core.read_page, core.read_state):
        with pytest.raises(ValueError, match="has no pages"):
            call(0)
    for write in (core.write_page, core.write_state):
        with pytest.raises(ValueError, match="has no pages"):
            write(0, b"")
