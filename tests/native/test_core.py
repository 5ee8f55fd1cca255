"""The C++ core: its maths against the NumPy reference, and its promise of the same bits, row by row."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paceline.native import _cpu
from paceline.native.core import Core, open_core

from .core_models import CONTEXT, EXPERTS, MODELS, SETS, TOLERANCE, ids_of
from .rows import Row, all_logits, table

# The others of a family, or of a kind of layer that one of the rest has: slow, so that the default tests stay short.
SECOND = (
    *("qwen3moe, Q8_0", "qwen2moe", "mixtral", "granite", "glm4moe, Q4_0", "deepseek2, groups", "deepseek2, Q8_0"),
    *("ernie4_5-moe", "granitemoe", "lfm2moe", "olmo2, Q8_0", "gemma", "gemma2", "gemma4, Q8_0", "qwen35moe"),
    *("apertus, Q8_0", "exaone-moe", "granite_swa-moe", "laguna, Q8_0", "mellum", "muse-glimmer, Q8_0"),
    *("hunyuan-moe", "arcee", "command-r", "granitehybrid-moe, Q8_0", "nemotron_h", "nemotron_h_moe, Q8_0"),
)
Bits = npt.NDArray[np.uint32]
PARAMS = [pytest.param(name, marks=pytest.mark.slow) if name in SECOND else name for name in MODELS]


@pytest.fixture(scope="module", params=PARAMS)
def model(request: pytest.FixtureRequest, tiny_model) -> tuple[str, Path]:
    return request.param, tiny_model(**MODELS[request.param])


@pytest.fixture(scope="module")
def cores(model: tuple[str, Path]) -> dict[str, Core]:
    return {isa: open_core(model[1], slots=18, context=CONTEXT, threads=2, isa=isa, replay=64) for isa in SETS}


def test_logits_agree_with_the_reference(model: tuple[str, Path], cores: dict[str, Core]) -> None:
    name, path = model
    reference = open_core(path, slots=1, context=CONTEXT, kind="reference")
    for count in (1, 7, 300):
        ids = ids_of(count, count, reference.vocab)
        expected = all_logits(reference, 0, ids)
        found = all_logits(cores[SETS[-1]], 0, ids)
        assert np.sqrt(np.mean((found - expected) ** 2)) <= TOLERANCE[name] * np.sqrt(np.mean(expected**2))


def test_every_instruction_set_gives_the_same_bits(cores: dict[str, Core]) -> None:
    """All in another slot than what they are compared with, which is the fastest's: "plain" takes most of the time."""
    ids = ids_of(1, 600, cores["plain"].vocab)
    expected = all_logits(cores[SETS[-1]], 0, ids)
    for isa in SETS:
        assert np.array_equal(all_logits(cores[isa], 3, ids).view(np.uint32), expected.view(np.uint32)), isa


@pytest.mark.parametrize("threads", [1, 3])
def test_every_number_of_threads_gives_the_same_bits(
    model: tuple[str, Path], cores: dict[str, Core], threads: int
) -> None:
    core = cores[SETS[-1]]
    ids = ids_of(2, 130, core.vocab)
    other = open_core(model[1], slots=2, context=CONTEXT, threads=threads)
    assert np.array_equal(all_logits(other, 1, ids).view(np.uint32), all_logits(core, 0, ids).view(np.uint32))


HISTORY = ids_of(7, 1230, 64)


@pytest.fixture(scope="module")
def of_one_thread(model: tuple[str, Path]) -> Bits:
    return all_logits(open_core(model[1], slots=2, context=CONTEXT, threads=1), 1, HISTORY).view(np.uint32)


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_splits_shared_among_threads_give_the_same_bits(
    model: tuple[str, Path], of_one_thread: Bits, threads: int
) -> None:
    """One thread has a history of three splits for itself; several threads share them, of one token or a few."""
    cuts = (1200, 1201, 1202, 1205, 1221)
    shared = open_core(model[1], slots=2, context=CONTEXT, threads=threads)
    company = [Row(0, HISTORY[:3], 0, 1, table(0, CONTEXT))]
    for beside in ([], company):
        assert np.array_equal(all_logits(shared, 1, HISTORY, cuts, beside).view(np.uint32), of_one_thread)


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_chunks_slots_and_company_change_no_bit(cores: dict[str, Core], data: st.DataObject) -> None:
    core = cores[data.draw(st.sampled_from(SETS[-2:]))]
    count = data.draw(st.sampled_from([1, 15, 16, 17, 63, 64, 65, 200, 511, 513, 600]))
    ids = ids_of(count, count, core.vocab)
    alone = all_logits(core, 0, ids)
    slot = data.draw(st.integers(0, 1))
    cuts = data.draw(st.lists(st.integers(0, count), max_size=6))
    lengths = data.draw(st.lists(st.integers(1, 20), max_size=16))
    company = []
    for index, length in enumerate(lengths):
        core.commit(2 + index, 0)
        company.append(
            Row(
                2 + index,
                ids_of(index, length, core.vocab),
                0,
                data.draw(st.integers(0, length)),
                table(2 + index, CONTEXT),
            )
        )
    together = all_logits(core, slot, ids, cuts, company)
    assert np.array_equal(together.view(np.uint32), alone.view(np.uint32))


def test_scratch_holds_anything(cores: dict[str, Core]) -> None:
    """What a longer run, a thrown-away step or a probe left behind the committed position is never read."""
    core = cores[SETS[-1]]
    ids = ids_of(5, 200, core.vocab)
    alone = all_logits(core, 0, ids)
    all_logits(core, 0, ids_of(6, 900, core.vocab))
    assert np.array_equal(all_logits(core, 0, ids, cuts=[100]), alone)
    core.commit(0, 0)
    own = table(0, CONTEXT)
    for _ in range(3):  # the same step again and again, with a wrong one between
        core.step([Row(0, ids_of(7, 70, core.vocab), 0, 0, own)])
        again, _ = core.step([Row(0, ids[:50], 0, 50, own)])
        assert np.array_equal(again[0][1], alone[:50])
    core.commit(0, 50)
    core.commit(0, 50)
    rest, _ = core.step([Row(0, ids[50:], 50, 150, own)])
    assert np.array_equal(rest[0][1], alone[50:])


def test_a_commit_to_part_of_a_row_and_a_step_tried_again(cores: dict[str, Core]) -> None:
    """The tokens past the commit are forgotten, by caches and by recurrent states alike."""
    core = cores[SETS[-1]]
    ids, wrong = ids_of(9, 150, core.vocab), ids_of(10, 40, core.vocab)
    alone = all_logits(core, 0, ids)
    own = table(1, CONTEXT)
    core.commit(1, 0)
    position = 0
    for kept, drafted in ((3, 9), (1, 2), (2, 40), (20, 20), (1, 33), (64, 64), (5, 12)):
        tokens = [*ids[position : position + kept], *wrong[: drafted - kept]]
        for attempt in (wrong[:7], wrong[:1], tokens):  # thrown away, thrown away, kept in part
            results, _ = core.step([Row(1, attempt, position, len(attempt), own)])
        assert np.array_equal(results[0][1][:kept], alone[position : position + kept])
        position += kept
        core.commit(1, position)
        core.commit(1, position)
    rest, _ = core.step([Row(1, ids[position:], position, len(ids) - position, own)])
    assert np.array_equal(rest[0][1], alone[position:])


def test_roofs_are_speeds() -> None:
    for isa in SETS:
        assert _cpu.read_roof(2, mebibytes=16, rounds=1, isa=isa) > 1e8
        assert _cpu.multiply_roof(1, rounds=1, isa=isa) > 1e8


def test_a_long_row_of_a_recurrent_model_is_committed_whole(tiny_model) -> None:
    logits = []
    for replay, options in ((64, {"replay": 64}), (0, {})):
        core = open_core(tiny_model(architecture="qwen35"), slots=1, context=CONTEXT, **options)
        core.step([Row(0, ids_of(11, replay + 2, core.vocab), 0, 1, table(0, CONTEXT))])
        with pytest.raises(ValueError, match=f"a row of more than {replay} tokens .replay. is committed whole"):
            core.commit(0, 1)
        core.commit(0, replay + 2)
        logits.append(all_logits(core, 0, ids_of(12, 90, core.vocab), cuts=[1, 20, 21, 85]))
    assert np.array_equal(logits[0].view(np.uint32), logits[1].view(np.uint32))


def test_an_expert_chosen_by_many_rows_is_read_once(model: tuple[str, Path], cores: dict[str, Core]) -> None:
    if model[0] not in EXPERTS:
        return
    core = cores[SETS[-1]]

    def weight_bytes(rows: list[Row]) -> int:
        for row in rows:
            core.commit(row.slot, 0)
        return core.step(rows)[1]

    def row(slot: int, token: int) -> Row:
        return Row(slot, [token], 0, 1, table(slot, CONTEXT), logits=False)

    one = weight_bytes([row(0, 5)])
    assert one < core.stepper.weight_bytes
    assert weight_bytes([row(slot, 5) for slot in range(16)]) == one
    apart = [weight_bytes([row(slot, 5 + slot)]) for slot in range(16)]
    together = weight_bytes([row(slot, 5 + slot) for slot in range(16)])
    assert max(apart) < together <= core.stepper.weight_bytes


@pytest.mark.parametrize("isa", SETS)
def test_one_pass_over_the_weights(model: tuple[str, Path], cores: dict[str, Core], isa: str) -> None:
    if model[0] in EXPERTS:
        return  # what they read depends on what is chosen: the test above
    core = cores[isa]
    native = core.stepper
    everything, head = native.weight_bytes, native.head_bytes

    def weight_bytes(rows: list[Row]) -> int:
        for row in rows:
            core.commit(row.slot, 0)
        return core.step(rows)[1]

    def row(slot: int, length: int, outputs: int) -> Row:
        return Row(slot, ids_of(slot, length, core.vocab), 0, outputs, table(slot, CONTEXT), logits=False)

    assert weight_bytes([row(0, 1, 1)]) == everything
    assert weight_bytes([row(slot, 1, 1) for slot in range(16)]) == everything
    assert weight_bytes([*(row(slot, 1, 1) for slot in range(15)), row(15, 49, 0)]) == everything
    assert weight_bytes([row(0, 512, 1)]) == everything
    assert weight_bytes([row(0, 512, 0)]) == everything - head


def test_bad_rows_change_nothing(cores: dict[str, Core]) -> None:
    core = cores[SETS[-1]]
    ids = ids_of(8, 40, core.vocab)
    alone = all_logits(core, 0, ids)
    own = table(0, CONTEXT)
    core.commit(0, 0)
    core.step([Row(0, ids[:20], 0, 0, own)])
    core.commit(0, 20)
    good = Row(0, ids[20:], 20, 20, own)
    for bad, reason in [
        (good._replace(slot=99), "no such slot"),
        (good._replace(tokens=[]), "no tokens"),
        (good._replace(position=19), "stands at 20"),
        (good._replace(tokens=[core.vocab] * 20), "outside the vocabulary"),
        (good._replace(outputs=21), "outputs"),
        (good._replace(table=own[:0]), "too short"),
        (good._replace(tokens=[1] * CONTEXT), "past the context"),
    ]:
        with pytest.raises(ValueError, match=reason):
            core.step([bad])
    with pytest.raises(ValueError, match="at most one row"):
        core.step([good, good])
    with pytest.raises(ValueError, match="can't be committed"):
        core.commit(0, 30)
    rest, _ = core.step([good])
    assert np.array_equal(rest[0][1], alone[20:])
