"""The reference against golden values of an independent implementation, and its contract."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paceline.native.reference import Reference, attend, open_reference, rotate, silu
from paceline.native.reference_experts import choose
from paceline.native.reference_math import clamped
from paceline.native.rope import rope_table

from .sequences import Row, relative_error, run

GOLDEN = Path(__file__).parent / "golden"
TINY = [
    "ratio1-untied",
    "ratio2-tied",
    "ratio4-odd",
    "ratio3-base",
    "ratio2-q4_1",
    "ratio1-q8_0",
    "qwen2-ratio2",
    "qwen3-ratio2",
]


@pytest.fixture(scope="module")
def tiny(tiny_model) -> Reference:
    return open_reference(tiny_model(seed=1, vocab=131))


@pytest.mark.parametrize("name", TINY)
def test_tiny_models_agree_with_transformers(tiny_model, name: str) -> None:
    golden = np.load(GOLDEN / "tiny.npz")
    model = open_reference(tiny_model(**json.loads(str(golden[f"{name}.options"]))))
    assert relative_error(run(model, golden[f"{name}.ids"].tolist()), golden[f"{name}.logits"]) < 1e-4


def test_the_demo_model_agrees_with_transformers(demo_model: Path) -> None:
    golden, model = np.load(GOLDEN / "smollm2.npz"), open_reference(demo_model)
    positions = 0
    for name in ("story", "note", "dialogue"):
        found = run(model, golden[f"{name}.ids"].tolist())[golden[f"{name}.positions"]]  # [chosen, vocab]
        top, expected = golden[f"{name}.top"], golden[f"{name}.logits"]  # each [chosen, 20]
        assert relative_error(np.take_along_axis(found, top, axis=1), expected) < 1e-3
        rest = found.copy()
        np.put_along_axis(rest, top, -np.inf, axis=1)
        assert np.all(rest.max(axis=1) <= expected.min(axis=1) + 1e-2)  # nothing else belongs among the top 20
        positions += len(top)
    assert positions >= 39


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ids=st.lists(st.integers(0, 130), min_size=1, max_size=300),
    cuts=st.lists(st.integers(1, 299), max_size=8),
)
def test_any_split_into_chunks_gives_the_same_logits(tiny: Reference, ids: list[int], cuts: list[int]) -> None:
    whole, split = run(tiny, ids), run(tiny, ids, cuts)
    np.testing.assert_allclose(split, whole, rtol=0, atol=1e-4)
    two = np.sort(whole, axis=1)[:, -2:]  # [positions, 2]
    decided = two[:, 1] - two[:, 0] > 1e-3
    assert np.array_equal(split.argmax(axis=1)[decided], whole.argmax(axis=1)[decided])


def test_rows_of_any_length_in_one_step_equal_each_row_alone(tiny: Reference) -> None:
    generator = np.random.RandomState(0)
    prompts = [generator.randint(0, 131, length).tolist() for length in (1, 7, 65, 290)]
    alone = [run(tiny, prompt, slot=9) for prompt in prompts]
    for slot in range(len(prompts)):
        tiny.commit(slot, 0)
    results = tiny.step([Row(slot, prompt, 0, min(len(prompt), 3)) for slot, prompt in enumerate(prompts)])
    for result, expected, prompt in zip(results, alone, prompts, strict=True):
        assert result.logits.shape == (min(len(prompt), 3), 131)
        np.testing.assert_allclose(result.logits, expected[-3:], rtol=0, atol=1e-4)
        assert result.tokens == tuple(expected[-3:].argmax(axis=1).tolist())


def test_a_step_can_be_tried_again_and_rolled_back(tiny: Reference) -> None:
    expected = run(tiny, [5, 6, 7, 8, 9], cuts=[3])
    tiny.commit(0, 3)
    tiny.step([Row(0, [90, 91, 92, 93], 3, 4)])  # never committed
    first = tiny.step([Row(0, [8, 9], 3, 2)])[0]
    again = tiny.step([Row(0, [8, 9], 3, 2)])[0]
    assert np.array_equal(first.logits, again.logits)
    np.testing.assert_allclose(first.logits, expected[3:], rtol=0, atol=1e-4)
    tiny.commit(0, 5)
    tiny.commit(0, 5)
    tiny.commit(0, 3)
    assert tiny.step([Row(0, [8, 9], 3, 2)])[0].tokens == first.tokens


def test_a_row_may_want_no_output(tiny: Reference) -> None:
    tiny.commit(0, 0)
    [result] = tiny.step([Row(0, [1, 2, 3], 0, 0)])
    assert result.tokens == () and result.logits.shape == (0, 131)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([], "at least one row"),
        ([Row(0, [1], 0, 1), Row(0, [2], 0, 1)], "one row per slot"),
        ([Row(0, [1], 1, 1)], "position 1, committed is 0"),
        ([Row(0, [], 0, 0)], "0 tokens"),
        ([Row(0, [1], 0, 2)], "2 outputs of 1 tokens"),
        ([Row(0, [1], 0, -1)], "-1 outputs"),
        ([Row(0, [131], 0, 1)], "outside 0..130"),
        ([Row(0, [-1], 0, 1)], "outside 0..130"),
        ([Row(0, [1] * 4097, 0, 1)], "end at 4097 of 4096"),
    ],
)
def test_a_row_against_the_contract_is_refused(tiny: Reference, rows: list[Row], reason: str) -> None:
    tiny.commit(0, 0)
    with pytest.raises(ValueError, match=reason):
        tiny.step(rows)


def test_a_commit_beyond_what_was_written_is_refused(tiny: Reference) -> None:
    tiny.commit(3, 0)
    tiny.step([Row(3, [1, 2], 0, 0)])
    with pytest.raises(ValueError, match="commit to position 3, written up to 2"):
        tiny.commit(3, 3)
    with pytest.raises(ValueError, match="commit to position -1"):
        tiny.commit(3, -1)


class Turns(NamedTuple):
    context: int
    rope_base: float
    rope_size: int
    rope_divisors: tuple[float, ...] = ()
    rope_amplitude: float = 1.0


def test_both_rope_layouts_are_one_rotation_of_differently_paired_values() -> None:
    cosines, sines = rope_table(Turns(64, 10000.0, 8))
    assert cosines.shape == sines.shape == (64, 4) and cosines.dtype == np.float32
    vectors = np.random.RandomState(0).standard_normal((64, 2, 10)).astype(np.float32)  # two values are not turned
    tables = cosines[:, None], sines[:, None]
    order = [0, 2, 4, 6, 1, 3, 5, 7, 8, 9]
    pairs, halves = rotate(vectors, *tables, "pairs"), rotate(vectors[..., order], *tables, "halves")
    assert np.array_equal(pairs[..., order], halves)
    turned = (vectors[5, 1, 2] + 1j * vectors[5, 1, 3]) * np.exp(5j * 10000.0 ** (-2 / 8))
    np.testing.assert_allclose(pairs[5, 1, 2:4], [turned.real, turned.imag], rtol=1e-5)
    assert np.array_equal(pairs[..., 8:], vectors[..., 8:])
    assert rope_table(Turns(64, 10000.0, 8), positions=3)[0].shape == (3, 4)


def test_divisors_slow_the_turning_of_their_pair() -> None:
    plain, slowed = rope_table(Turns(64, 10000.0, 4)), rope_table(Turns(64, 10000.0, 4, (4.0, 1.0)))
    for table, slow in zip(plain, slowed, strict=True):
        assert np.allclose(slow[::4, 0], table[:16, 0], atol=1e-6)
        assert np.array_equal(slow[:, 1], table[:, 1])


def test_an_amplitude_lengthens_what_is_turned() -> None:
    for plain, longer in zip(rope_table(Turns(64, 1e4, 4)), rope_table(Turns(64, 1e4, 4, (), 1.5)), strict=True):
        assert np.allclose(longer, 1.5 * plain, atol=1e-6)


def test_attention_is_the_plain_formula() -> None:
    generator = np.random.RandomState(1)
    queries = generator.standard_normal((3, 6, 4)).astype(np.float32)  # positions 5, 6, 7 of 8
    keys, values = generator.standard_normal((2, 2, 8, 4)).astype(np.float32)
    found = attend(queries, keys, values, 5).reshape(3, 6, 4)
    for query in range(3):
        for head in range(6):
            seen = slice(0, 5 + query + 1)
            weights = np.exp(keys[head // 3, seen] @ queries[query, head] / 2)
            np.testing.assert_allclose(found[query, head], weights @ values[head // 3, seen] / weights.sum(), rtol=1e-4)


def test_attention_with_a_window_a_scale_and_a_cap_is_the_plain_formula() -> None:
    generator = np.random.RandomState(1)
    queries = generator.standard_normal((3, 6, 4)).astype(np.float32)  # positions 5, 6, 7 of 8
    keys, values = generator.standard_normal((2, 2, 8, 4)).astype(np.float32)
    found = attend(queries, keys, values, 5, scale=0.7, window=3, cap=0.9).reshape(3, 6, 4)
    for query in range(3):
        for head in range(6):
            seen = slice(5 + query - 2, 5 + query + 1)
            weights = np.exp(0.9 * np.tanh(keys[head // 3, seen] @ queries[query, head] * 0.7 / 0.9))
            np.testing.assert_allclose(found[query, head], weights @ values[head // 3, seen] / weights.sum(), rtol=1e-4)


def test_a_sink_takes_its_share_of_the_attention() -> None:
    generator = np.random.RandomState(1)
    queries = generator.standard_normal((3, 6, 4)).astype(np.float32)  # positions 5, 6, 7 of 8
    keys, values = generator.standard_normal((2, 2, 8, 4)).astype(np.float32)
    sinks = np.linspace(-3, 3, 6, dtype=np.float32)
    found = attend(queries, keys, values, 5, sinks=sinks[None]).reshape(3, 6, 4)
    for query in range(3):
        for head in range(6):
            seen = slice(0, 5 + query + 1)
            weights = np.exp(keys[head // 3, seen] @ queries[query, head] / 2)
            expected = weights @ values[head // 3, seen] / (weights.sum() + np.exp(sinks[head]))
            np.testing.assert_allclose(found[query, head], expected, rtol=1e-4)


def test_a_clamped_gate_and_up() -> None:
    gate, up = np.array([[-1e4, -1.0, 2.0, 8.0, 8.0, 8.0]], np.float32), np.array([[1, 1, -9, 9, -9, 0]], np.float32)
    seven = 7 / (1 + np.exp(-1.702 * 7))
    expected = [0, -2 / (1 + np.exp(1.702)), -6 * 2 / (1 + np.exp(-1.702 * 2)), 8 * seven, -6 * seven, seven]
    np.testing.assert_allclose(clamped(gate, up)[0], expected, rtol=1e-5)


def test_equally_likely_experts_are_chosen_by_the_lower_id(tiny_model) -> None:
    shape = open_reference(tiny_model(seed=1, architecture="qwen3moe")).shape
    chosen, shares = choose(shape, np.array([[0, 1, 1, 1, 1, 1, 2, 0]], np.float32), None)
    assert chosen.tolist() == [[6, 1, 2]]
    likely = np.exp([2, 1, 1])
    np.testing.assert_allclose(shares, [likely / likely.sum()], rtol=1e-6)


def test_a_bias_counts_where_experts_are_chosen_only(tiny_model) -> None:
    shape = open_reference(tiny_model(seed=1, architecture="glm4moe", experts=4, experts_used=2)).shape
    assert shape.sigmoid_routing and shape.choice_bias and shape.normalize_experts
    bias = np.array([0, 2, 0, -2], np.float32)
    chosen, shares = choose(shape, np.array([[0, -3, 1, 4], [-200, -200, -200, -200]], np.float32), bias)
    assert chosen.tolist() == [[1, 2], [1, 0]]
    weights = 1 / (1 + np.exp([3.0, -1.0]))
    np.testing.assert_allclose(shares, [weights / weights.sum(), [0, 0]], rtol=1e-6)


def test_silu_overflows_nowhere() -> None:
    with np.errstate(all="raise", under="ignore"):
        assert silu(np.array([-1e4, 0, 1e4], np.float32)).tolist() == [0, 0, 1e4]
