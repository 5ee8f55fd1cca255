"""Sampling against its definition in NumPy, and its promises: ties, seeds, positions, instruction sets."""

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from paceline.native import _cpu


def candidates(
    logits: npt.NDArray[np.float64], temp: float, top_k: int, top_p: float, min_p: float
) -> dict[int, float]:
    """The definition: temperature, then top-k, top-p over what it left, min-p relative to the largest."""
    weights = np.exp((logits - logits.max()) / temp)
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
    order = order[: top_k or None]
    total, kept, reached = sum(weights[i] for i in order), [], 0.0
    for i in order:
        kept.append(i)
        reached += weights[i]
        if reached >= top_p * total:
            break
    return {i: weights[i] for i in kept if weights[i] >= min_p}


def penalized(
    logits: npt.NDArray[np.float32], history: list[int], prompt: int, rep: float, freq: float, pres: float
) -> npt.NDArray[np.float64]:
    out = logits.astype(np.float64)
    for i in set(history):
        out[i] = out[i] / rep if out[i] > 0 else out[i] * rep
        count = history[prompt:].count(i)
        out[i] -= count * freq + (count > 0) * pres
    return out


logit_rows = st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=70).map(lambda row: np.array(row, np.float32))


@given(
    logit_rows,
    st.integers(0, 1000),
    st.floats(0.25, 4, width=32),
    st.integers(0, 80),
    st.floats(0.125, 1, width=32),
    st.floats(0, 0.5, width=32),
)
def test_only_candidates_are_drawn(
    row: npt.NDArray[np.float32], seed: int, temp: float, top_k: int, top_p: float, min_p: float
) -> None:
    allowed = candidates(row.astype(np.float64), temp, top_k, top_p * (1 + 1e-5), min_p * (1 - 1e-5))
    drawn = _cpu.sample(row, [0] * 3, 0, temp=temp, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed)
    assert drawn in allowed


@pytest.mark.parametrize("spread", [0.01, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("temp", [0.5, 2.0, 100.0])
def test_a_draw_is_where_the_running_sum_passes_its_share(spread: float, temp: float) -> None:
    """Over rows in which few or all are likely: by logit where top-p decides, else by id."""
    rng = np.random.default_rng(int(spread * 100 + temp))
    for seed, (top_k, top_p, min_p) in enumerate(itertools.product((0, 7, 900), (1.0, 0.999, 0.5), (0.0, 0.05))):
        row = rng.normal(0, spread, 3000).astype(np.float32)
        kept = candidates(row.astype(np.float64), temp, top_k, top_p, min_p)
        ids = list(kept) if top_p < 1.0 else sorted(kept)
        ends = np.cumsum([kept[i] for i in ids]) / sum(kept.values())
        drawn = _cpu.sample(row, [0] * 5, 0, temp=temp, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed)
        place, share = ids.index(drawn), _cpu.uniform(seed, 5)
        assert (ends[place - 1] if place else 0.0) - 2e-4 <= share <= ends[place] + 2e-4


def test_draws_follow_the_weights() -> None:
    row = np.array([0.0, 1.0, 2.0, -1.0, 1.5], np.float32)
    kept = candidates(row.astype(np.float64), 0.8, 4, 0.95, 0.0)
    counts = np.zeros(5)
    for seed in range(20000):
        counts[_cpu.sample(row, [], 0, temp=0.8, top_k=4, top_p=0.95, seed=seed)] += 1
    expected = np.array([kept.get(i, 0.0) for i in range(5)]) / sum(kept.values()) * 20000
    assert np.abs(counts - expected).max() < 5 * np.sqrt(5000)
    assert (counts[expected == 0] == 0).all()


@given(logit_rows, st.data(), st.floats(0.5, 2, width=32), st.floats(-2, 2, width=32), st.floats(-2, 2, width=32))
def test_penalties_shift_the_largest(
    row: npt.NDArray[np.float32], data: st.DataObject, rep: float, freq: float, pres: float
) -> None:
    history = data.draw(st.lists(st.integers(0, len(row) - 1), max_size=30))
    prompt = data.draw(st.integers(0, len(history)))
    expected = penalized(row, history, prompt, rep, freq, pres)
    ranked = np.sort(expected)
    assume(len(row) == 1 or ranked[-1] - ranked[-2] > 1e-3)
    chosen = _cpu.sample(row, history, prompt, temp=0.0, rep_penalty=rep, freq_penalty=freq, pres_penalty=pres)
    assert chosen == int(np.argmax(expected))


@given(st.integers(1, 60), st.integers(0, 59))
def test_ties_go_to_the_lower_id(size: int, place: int) -> None:
    row = np.zeros(size, np.float32)
    row[place % size :] = 1.0
    assert _cpu.sample(row, [], 0, temp=0.0) == place % size
    assert _cpu.sample(row, [], 0, temp=1.0, top_k=1) == place % size


@pytest.mark.parametrize("temp", [1e-50, 1e-44, 2e-39, 1e-31, 1e-20])
def test_the_colder_the_greedier(temp: float) -> None:
    row = np.linspace(-3, 3, 500).astype(np.float32)
    assert {_cpu.sample(row, [], 0, temp=temp, seed=seed) for seed in range(20)} == {499}


def test_no_number_is_never_drawn() -> None:
    row = np.array([np.nan, 1.0, np.nan, 0.5, np.nan] * 40, np.float32)
    for seed in range(50):
        assert not np.isnan(row[_cpu.sample(row, [], 0, temp=1.0, top_k=7, seed=seed)])
        assert not np.isnan(row[_cpu.sample(row, [], 0, temp=1.0, top_p=0.9, seed=seed)])


@pytest.mark.parametrize("isa", _cpu.instruction_sets())
def test_instruction_sets_draw_alike(isa: str) -> None:
    rng = np.random.default_rng(3)
    for seed in range(60):
        row = rng.normal(0, 3, 1000).astype(np.float32)
        options = {
            "temp": 0.9,
            "top_k": (0, 40)[seed % 2],
            "top_p": (1.0, 0.9)[seed // 2 % 2],
            "min_p": (0.0, 0.02)[seed // 4 % 2],
        }
        assert _cpu.sample(row, [1], 0, seed=seed, isa=isa, **options) == _cpu.sample(
            row, [1], 0, seed=seed, isa="plain", **options
        )


def test_the_draw_depends_on_the_position() -> None:
    row = np.zeros(1000, np.float32)
    assert len({_cpu.sample(row, [0] * n, 0, temp=1.0, seed=1) for n in range(50)}) > 40


@pytest.mark.parametrize("options", [{"min_p": 0.1}, {"top_k": 3}, {"top_p": 0.5}, {"rep_penalty": 1.5}, {}])
@pytest.mark.parametrize("temp", [0.0, 0.8])
def test_of_logits_that_are_no_numbers_none_is_the_token(options: dict[str, float], temp: float) -> None:
    row = np.full(40, np.nan, np.float32)
    assert _cpu.sample(row, [1], 1, temp=temp, seed=3, **options) == -1
    row[[7, 9]] = -1.0, -2.0
    assert _cpu.sample(row, [1], 1, temp=temp, seed=3, top_k=1) == 7
    row[7] = np.inf
    assert _cpu.sample(row, [1], 1, temp=temp, seed=3, **options) == 7


def words_of(allowed: list[int], size: int) -> list[int]:
    return [sum(1 << i % 32 for i in allowed if i // 32 == word) for word in range((size + 31) // 32)]


@given(
    logit_rows,
    st.data(),
    st.integers(0, 1000),
    st.sampled_from([0.0, 0.5, 2.0]),
    st.integers(0, 80),
    st.floats(0.125, 1, width=32),
    st.floats(0.5, 2, width=32),
)
def test_what_is_not_allowed_might_as_well_not_exist(
    row: npt.NDArray[np.float32], data: st.DataObject, seed: int, temp: float, top_k: int, top_p: float, rep: float
) -> None:
    """The same token as from a row in which nothing else weighs anything."""
    allowed = data.draw(st.lists(st.integers(0, len(row) - 1), min_size=1, unique=True).map(sorted))
    history = data.draw(st.lists(st.integers(0, len(row) - 1), max_size=9))
    options = {"temp": temp, "top_k": top_k, "top_p": top_p, "rep_penalty": rep, "seed": seed}
    alone = np.full(len(row), -np.inf, np.float32)
    alone[allowed] = row[allowed]
    chosen = _cpu.sample(row, history, 0, allowed=words_of(allowed, len(row)), **options)
    assert chosen in allowed
    assert chosen == _cpu.sample(alone, history, 0, **options)
    everything = words_of(list(range(len(row))), len(row))
    assert _cpu.sample(row, history, 0, allowed=everything, **options) == _cpu.sample(row, history, 0, **options)


@pytest.mark.parametrize("options", [{"min_p": 0.1}, {"top_k": 3}, {"top_p": 0.5}, {}])
@pytest.mark.parametrize("temp", [0.0, 0.8])
def test_allowed_logits_that_weigh_nothing(options: dict[str, float], temp: float) -> None:
    row = np.zeros(70, np.float32)
    row[[40, 50, 60]] = np.nan, -np.inf, -np.inf
    assert _cpu.sample(row, [], 0, temp=temp, allowed=words_of([40], 70), **options) == -1
    assert _cpu.sample(row, [], 0, temp=temp, allowed=words_of([40, 50, 60], 70), **options) == 50
    row[60] = -3.0
    assert _cpu.sample(row, [], 0, temp=temp, allowed=words_of([40, 50, 60], 70), **options) == 60
