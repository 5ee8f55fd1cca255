"""Whole steps of the CUDA core on the emulated device: the bits of the CPU core, whatever the schedule."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paceline.native.core import Core, open_core

from .core_models import ONE_ORDER, ids_of
from .core_pairs import CONTEXT, Pair
from .emulated import COUNTS_LOADS, KIND, ORDERS, counting_loads, lanes, planned_for, same_bits
from .rows import Row, all_logits, table

NAMES = (
    "qwen2",
    "qwen3",
    "qwen3moe",
    "qwen3moe, Q8_0",
    "smollm3",
    "granite",
    "hunyuan-dense",
    "hunyuan-moe",
    "arcee",
    "mistral3",
    "gpt-oss",
    "gpt-oss, MXFP4",
    "glm4moe",
    "glm4moe, Q4_0",
    "deepseek2",
    "deepseek2, groups",
    "deepseek2, tempered",
    "deepseek2, Q8_0",
    "ernie4_5-moe",
    "granitemoe",
    "lfm2",
    "lfm2, Q8_0",
    "lfm2moe",
    "minimax-m2",
    "olmo2",
    "olmo2, Q8_0",
    "olmoe",
    "afmoe",
    "afmoe, Q8_0",
    "exaone4",
    "apertus",
    "apertus, Q8_0",
    "granite_swa",
    "granite_swa-moe",
    "laguna",
    "laguna, Q8_0",
    "muse-glimmer",
    "muse-glimmer, Q8_0",
    "command-r",
    "cohere2",
    "gemma3",
    "gemma4",
    "gemma4, Q8_0",
    "gemma4-moe",
    "qwen35",
    "qwen35moe",
    "qwen3next",
    "granitehybrid",
    "granitehybrid-moe, Q8_0",
    "nemotron_h",
    "nemotron_h_moe",
    "nemotron_h_moe, Q8_0",
    "float",
    "float, wide",
    "Q8_0",
    "Q4_1",
)


@pytest.fixture(scope="module", params=NAMES)
def pair(request: pytest.FixtureRequest, tiny_model) -> Pair:
    return Pair(request.param, tiny_model(**ONE_ORDER[request.param]))


@pytest.fixture(scope="module")
def small(tiny_model) -> Pair:
    return Pair("Q8_0", tiny_model(**ONE_ORDER["Q8_0"]))


def test_a_step_has_the_bits_of_the_cpu(pair: Pair) -> None:
    ids = ids_of(1, 75, pair.cpu.vocab)  # into a second page, and past gemma3's window
    expected = all_logits(pair.cpu, 0, ids)
    assert same_bits(all_logits(pair.device, 1, ids, cuts=(1, 2, 19, 66, 73)), expected)
    assert same_bits(all_logits(pair.device, 0, ids), expected)  # more than 64 columns; gate and up are often 3 pairs


def test_a_large_device_has_the_bits_of_the_cpu(small: Pair) -> None:
    """Too few blocks for it, if each had as much work as on the emulated one."""
    ids = ids_of(1, 150, small.cpu.vocab)
    with planned_for(1000):
        found = all_logits(small.device, 1, ids, cuts=(70,))
    assert same_bits(found, all_logits(small.cpu, 0, ids))


def company(core: Core, lengths: list[int], outputs: list[int]) -> list[Row]:
    rows = []
    for index, (length, wanted) in enumerate(zip(lengths, outputs, strict=True)):
        core.commit(2 + index, 0)
        own = table(2 + index, CONTEXT)
        rows.append(Row(2 + index, ids_of(index, length, core.vocab), 0, min(wanted, length), own))
    return rows


@settings(deadline=None, max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_chunks_slots_and_company_change_no_bit(small: Pair, data: st.DataObject) -> None:
    count = data.draw(st.sampled_from([1, 15, 17, 63, 65, 90]))
    ids = ids_of(count, count, small.cpu.vocab)
    expected = all_logits(small.cpu, 0, ids)
    cuts = data.draw(st.lists(st.integers(0, count), max_size=4))
    lengths = data.draw(st.lists(st.integers(1, 9), max_size=4))
    outputs = [data.draw(st.integers(0, length)) for length in lengths]
    slot = data.draw(st.integers(0, 1))
    with lanes(data.draw(st.sampled_from(ORDERS)), data.draw(st.integers(0, 99))):
        found = all_logits(small.device, slot, ids, cuts, company(small.device, lengths, outputs))
    assert same_bits(found, expected)


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_rows_that_decode_together_are_as_alone(pair: Pair, rows: int) -> None:
    core = pair.device
    for slot in range(rows):
        core.commit(slot, 0)
        ids = ids_of(slot, 9 + slot, core.vocab)
        core.step([Row(slot, ids, 0, 0, table(slot, CONTEXT))])
        core.commit(slot, len(ids))
    together, _ = core.step([Row(slot, [slot + 3], 9 + slot, 1, table(slot, CONTEXT)) for slot in range(rows)])
    for multiprocessors in (1, 1000):  # of a large device attention's heads have a block each
        for slot in range(rows):
            with planned_for(multiprocessors):
                alone, _ = core.step([Row(slot, [slot + 3], 9 + slot, 1, table(slot, CONTEXT))])
            assert alone[0][0] == together[slot][0]
            assert same_bits(alone[0][1], together[slot][1])


@pytest.mark.parametrize(("width", "tokens"), [(4096, 20), (7168, 12), (12800, 3), (12800, 1)])
def test_wide_gates_are_added_in_rounds(tiny_model, width: int, tokens: int) -> None:
    """More segments than shared memory has room for the sums of, of gate and up at once; one column norms itself where
    it is short enough."""
    sizes = {"width": width, "layers": 1, "heads": 1, "kv_heads": 1, "head_size": 32, "ffn": 96}
    both = Pair("Q8_0", tiny_model(**ONE_ORDER["Q8_0"] | sizes))
    ids = ids_of(8, tokens + 1, both.cpu.vocab)
    assert same_bits(all_logits(both.device, 0, ids, cuts=(tokens,)), all_logits(both.cpu, 0, ids))


SAMPLING = {
    "temp": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "rep_penalty": 1.0, "freq_penalty": 0.0, "pres_penalty": 0.0,
    "seed": 5, "logit_bias": (), "logprobs": 0,
}  # fmt: skip


def test_sampling_is_the_cpu_cores(small: Pair) -> None:
    ids = ids_of(6, 20, small.cpu.vocab)
    found = []
    for core in (small.cpu, small.device):
        rows = []
        for slot, own in enumerate(
            [
                None,
                {"temp": 0.8, "top_k": 20},
                {"logprobs": 3},
                {"rep_penalty": 1.3, "logit_bias": ((4, 3.0),), "logprobs": 1},
            ]
        ):
            core.commit(slot, 0)
            sampling = own and SimpleNamespace(**(SAMPLING | own))
            rows.append(Row(slot, ids, 0, 2, table(slot, CONTEXT), len(ids), sampling, logits=slot == 3))
        found.append(
            [(tokens, logits is None or logits.tobytes(), told) for tokens, logits, told, _ in core.step(rows)[0]]
        )
    assert found[0] == found[1]


def test_bad_rows_change_nothing(small: Pair) -> None:
    core, own = small.device, table(0, CONTEXT)
    ids = ids_of(8, 30, core.vocab)
    expected = all_logits(small.cpu, 0, ids)
    core.commit(0, 0)
    core.step([Row(0, ids[:20], 0, 0, own)])
    core.commit(0, 20)
    good = Row(0, ids[20:], 20, 10, own)
    for bad, reason in [
        (good._replace(slot=99), "no such slot"),
        (good._replace(position=19), "stands at 20"),
        (good._replace(tokens=[core.vocab] * 10), "outside the vocabulary"),
        (good._replace(table=own[:0]), "too short"),
    ]:
        with pytest.raises(ValueError, match=reason):
            core.step([bad])
    with pytest.raises(ValueError, match="can't be committed"):
        core.commit(0, 31)
    with pytest.raises(ValueError, match="no recurrent layers"):
        core.stepper.keep(0, 0)
    with pytest.raises(ValueError, match="expected"):
        core.write_page(0, b"1")
    rest, _ = core.step([good])
    assert same_bits(rest[0][1], expected[20:])


def test_a_step_too_large_for_a_grid_is_refused(tiny_model) -> None:
    tokens = 32769
    path = tiny_model(**ONE_ORDER["Q8_0"] | {"context": 33000})
    core = open_core(path, slots=1, context=33000, kind=KIND)
    with pytest.raises(ValueError, match="a step of 32769 tokens is more than the 32768 of a GPU's"):
        core.step([Row(0, [1] * tokens, 0, 1, table(0, 33000))])
    with pytest.raises(ValueError, match="40000 tokens"):
        core.stepper.make_room(40000, 1)


def test_a_state_space_with_groups_too_long_for_a_block_is_refused(tiny_model) -> None:
    sizes = {"width": 32, "key_heads": 1, "key_size": 8, "value_heads": 400, "value_size": 64}
    path = tiny_model(architecture="granitehybrid", layers=2, **sizes)
    with pytest.raises(ValueError, match="a state space that norms 25600 outputs together is more than 24576"):
        open_core(path, slots=1, context=64, kind=KIND)


def test_one_pass_over_the_weights(pair: Pair) -> None:
    core = pair.device

    def weight_bytes(rows: int) -> int:
        for slot in range(rows):
            core.commit(slot, 0)
        return core.step([Row(slot, [slot], 0, 1, table(slot, CONTEXT), logits=False) for slot in range(rows)])[1]

    assert weight_bytes(1) > 0
    if not pair.routes:
        assert weight_bytes(1) == weight_bytes(6)


@pytest.mark.skipif(not COUNTS_LOADS, reason="a GPU does not tell what it loads")
@pytest.mark.parametrize("tokens", [1, 16, 32, 70])
def test_the_weights_that_are_told_are_those_that_are_loaded(pair: Pair, tokens: int) -> None:
    core = pair.device
    core.commit(0, 0)
    rows = [Row(0, list(range(tokens)), 0, 1, table(0, CONTEXT), logits=False)]
    told, loaded = counting_loads(lambda: core.step(rows)[1])
    if pair.routes and core.architecture in ("deepseek2", "nemotron_h_moe") and tokens > 16:
        assert 0 < loaded <= 1.5 * told  # as below: there are many small matrices, of heads or of experts without gates
    elif pair.routes:  # told is what could be chosen at most
        assert 0 < loaded <= told
    elif tokens <= 16:
        assert loaded == told
    else:  # blocks have two row tiles then, and a warp without one reads the matrix's last again, from the cache
        assert told <= loaded < 1.5 * told
