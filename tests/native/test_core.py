"""The C++ core: its maths against the NumPy reference, and its promise of the same bits, row by row."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paceline.native import _cpu
from paceline.native.core import Core, open_core

from .rows import Row, all_logits, table

CONTEXT = 1280
SETS = _cpu.instruction_sets()
MODELS = {
    "qwen2": {
        "architecture": "qwen2",
        "type": "F16",
        "width": 72,
        "heads": 6,
        "kv_heads": 2,
        "head_size": 12,
        "ffn": 100,
    },
    "qwen3": {
        "architecture": "qwen3",
        "type": "Q4_0",
        "width": 64,
        "heads": 4,
        "kv_heads": 1,
        "head_size": 48,
        "ffn": 96,
    },
    "qwen3moe": {
        "architecture": "qwen3moe",
        "type": "F32",
        "width": 72,
        "heads": 6,
        "kv_heads": 2,
        "head_size": 12,
        "experts": 7,
        "experts_used": 3,
        "expert_ffn": 40,
    },
    # All experts: 8-bit activations may tip the choice between two, and then the logits are others altogether.
    "qwen3moe, Q8_0": {"architecture": "qwen3moe", "type": "Q8_0", "experts": 5, "experts_used": 5},
    "gemma3": {
        "architecture": "gemma3",
        "type": "F16",
        "layers": 3,
        "width": 72,
        "heads": 6,
        "kv_heads": 2,
        "head_size": 20,
        "ffn": 100,
        "window": 70,
        "tied": True,
    },
    "qwen35": {
        "architecture": "qwen35",
        "type": "F32",
        "layers": 3,
        "width": 72,
        "heads": 6,
        "kv_heads": 2,
        "head_size": 12,
        "rope_size": 6,
        "ffn": 100,
        "key_heads": 3,
        "value_heads": 6,
        "key_size": 20,
        "value_size": 36,
    },
    "qwen35moe": {
        "architecture": "qwen35moe",
        "type": "F32",
        "layers": 4,
        "interval": 4,
        "value_heads": 4,
        "key_size": 32,
        "value_size": 64,
        "conv_kernel": 3,
    },
    "qwen3next": {"architecture": "qwen3next", "type": "Q4_0", "value_size": 24, "value_heads": 8, "tied": True},
    "float": {
        "type": "F32",
        "width": 72,
        "heads": 6,
        "kv_heads": 2,
        "head_size": 12,
        "ffn": 100,
        "vocab": 131,
        "tied": True,
    },
    "float, wide": {
        "type": "F32",
        "width": 544,
        "heads": 4,
        "kv_heads": 4,
        "head_size": 16,
        "ffn": 80,
        "rope_layout": "halves",
        "rope_size": 8,
    },
    "Q8_0": {"type": "Q8_0", "width": 64, "heads": 4, "kv_heads": 1, "head_size": 32, "ffn": 96, "tied": True},
    "Q4_1": {
        "type": "Q4_1",
        "width": 576,
        "heads": 6,
        "kv_heads": 2,
        "head_size": 32,
        "ffn": 544,
        "embedding_type": "Q8_0",
    },
}
# Root mean square error of the logits over their own: float weights lose to the f16 cache, others to 8-bit activations.
TOLERANCE = {
    "qwen2": 1e-3,
    "qwen3": 0.05,
    "qwen3moe": 1e-3,
    "qwen3moe, Q8_0": 0.05,
    "gemma3": 1e-3,
    "qwen35": 1e-3,
    "qwen35moe": 1e-3,
    "qwen3next": 0.05,
    "float": 1e-3,
    "float, wide": 1e-3,
    "Q8_0": 0.05,
    "Q4_1": 0.05,
}
EXPERTS = ("qwen3moe", "qwen35moe", "qwen3next")  # of which a step reads those that are chosen


def ids_of(seed: int, count: int, vocab: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, vocab, count).tolist()


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest, tiny_model) -> tuple[str, Path]:
    return request.param, tiny_model(**MODELS[request.param])


@pytest.fixture(scope="module")
def cores(model: tuple[str, Path]) -> dict[str, Core]:
    return {isa: open_core(model[1], slots=18, context=CONTEXT, threads=2, isa=isa) for isa in SETS}


def test_logits_agree_with_the_reference(model: tuple[str, Path], cores: dict[str, Core]) -> None:
    name, path = model
    reference = open_core(path, slots=1, context=CONTEXT, kind="reference")
    for count in (1, 7, 300):
        ids = ids_of(count, count, reference.vocab)
        expected = all_logits(reference, 0, ids)
        found = all_logits(cores[SETS[-1]], 0, ids)
        assert np.sqrt(np.mean((found - expected) ** 2)) <= TOLERANCE[name] * np.sqrt(np.mean(expected**2))


def test_every_instruction_set_gives_the_same_bits(cores: dict[str, Core]) -> None:
    ids = ids_of(1, 600, cores["plain"].vocab)
    expected = all_logits(cores["plain"], 0, ids)
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


def test_a_long_row_of_a_recurrent_model_is_committed_whole(tiny_model) -> None:
    core = open_core(tiny_model(architecture="qwen35"), slots=1, context=CONTEXT)
    core.step([Row(0, ids_of(11, 65, core.vocab), 0, 1, table(0, CONTEXT))])
    with pytest.raises(ValueError, match="committed whole"):
        core.commit(0, 40)
    core.commit(0, 65)


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


# Root mean square error of the logits of a model with float weights, over their own: what the cache alone loses. A step
# of q4_0 is 16 times one of q8_0, and a model of random weights feels it all.
CACHE_TOLERANCE = {"f32": 1e-5, "f16": 1e-3, "bf16": 1e-2, "q8_0": 0.025, "q4_0": 0.4}
FLOAT_MODEL = {"type": "F32", "width": 64, "heads": 4, "kv_heads": 2, "head_size": 32, "ffn": 96, "tied": True}


@pytest.mark.parametrize("pair", [(kind, kind) for kind in CACHE_TOLERANCE] + [("q8_0", "q4_0"), ("q4_0", "bf16")])
def test_every_cache_type(tiny_model, pair: tuple[str, str]) -> None:
    """Near the reference, and the same bits over chunks, company, instruction sets and threads."""
    key_type, value_type = pair
    path = tiny_model(**FLOAT_MODEL)

    def opened(isa: str, threads: int) -> Core:
        return open_core(
            path,
            slots=18,
            context=CONTEXT,
            threads=threads,
            isa=isa,
            cache_type_k=key_type,
            cache_type_v=value_type,
        )

    core = opened(SETS[-1], 2)
    ids = ids_of(3, 600, core.vocab)
    alone = all_logits(core, 0, ids)
    reference = all_logits(open_core(path, slots=1, context=CONTEXT, kind="reference"), 0, ids)
    error = np.sqrt(np.mean((alone - reference) ** 2)) / np.sqrt(np.mean(reference**2))
    assert error <= max(CACHE_TOLERANCE[key_type], CACHE_TOLERANCE[value_type])

    others = [Row(2 + i, ids_of(i, 3 + 5 * i, core.vocab), 0, 1, table(2 + i, CONTEXT)) for i in range(7)]
    for cuts, company in [([1, 63, 64, 66, 200, 511, 513], []), ([300], others)]:
        for isa, threads in [(SETS[-1], 3), *((isa, 1) for isa in SETS)]:
            found = all_logits(opened(isa, threads), 1, ids, cuts, company)
            assert np.array_equal(found.view(np.uint32), alone.view(np.uint32)), (isa, threads, cuts)


def test_a_cache_type_that_does_not_fit_is_refused(tiny_model) -> None:
    path = tiny_model(**MODELS["qwen3"])  # head_size 48
    with pytest.raises(
        ValueError, match="type q8_0 needs a head size that is a multiple of 32, and this model's is 48"
    ):
        open_core(path, slots=1, cache_type_k="q8_0")
    with pytest.raises(ValueError, match="cache type 'q2': expected f32, f16, bf16, q8_0 or q4_0"):
        open_core(path, slots=1, cache_type_v="q2")


def test_smaller_types_make_smaller_pages(tiny_model) -> None:
    path = tiny_model(**FLOAT_MODEL)
    sizes = {
        kind: open_core(path, slots=1, cache_type_k=kind, cache_type_v=kind).page_bytes for kind in CACHE_TOLERANCE
    }
    half = sizes["f16"]
    assert sizes == {"f32": 2 * half, "f16": half, "bf16": half, "q8_0": half * 34 // 64, "q4_0": half * 18 // 64}
