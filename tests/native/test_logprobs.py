"""What a step tells of its choices, and a bias on them: against the logits, and the same bits for everybody."""

from __future__ import annotations

import numpy as np
import pytest
from paceline.native.core import Core, open_core
from paceline.protocol import Sampling

from .core_models import SETS
from .rows import Row, table

CONTEXT = 128
IDS = [5, 9, 2, 77, 31, 8]


@pytest.fixture(scope="module", params=SETS)
def core(request: pytest.FixtureRequest, tiny_model) -> Core:
    return open_core(tiny_model(type="Q4_1"), slots=3, context=CONTEXT, threads=2, isa=request.param)


def step(core: Core, sampling: Sampling, company: int = 0, outputs: int = 1):
    for slot in range(3):
        core.commit(slot, 0)
    rows = [Row(slot, IDS[slot:], 0, 1, table(slot, CONTEXT)) for slot in range(1, 1 + company)]
    rows.append(Row(0, IDS, 0, outputs, table(0, CONTEXT), sampling=sampling))
    return core.step(rows)[0][-1]


@pytest.mark.parametrize("count", [1, 5, 1000])
def test_they_are_the_log_softmax_of_the_logits(core: Core, count: int) -> None:
    tokens, logits, told, _ = step(core, Sampling(logprobs=count), outputs=3)
    exact = logits.astype(np.float64)
    exact -= exact.max(-1, keepdims=True)
    expected = exact - np.log(np.exp(exact).sum(-1, keepdims=True))
    assert len(told) == len(tokens) == 3
    for token, row, (chosen, top) in zip(tokens, expected, told, strict=True):
        order = np.lexsort((np.arange(len(row)), -row))[:count]
        assert [id for id, _ in top] == order.tolist()
        assert np.allclose([value for _, value in top], row[order], atol=1e-5)
        assert chosen == top[0][1] and token == top[0][0]
    if count == 1000:
        assert sum(np.exp(value) for _, value in told[0][1]) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("vocab", [1000, 70000])
def test_a_sum_of_whole_numbers_loses_less_than_a_millionth(tiny_model, vocab: int) -> None:
    core = open_core(tiny_model(type="Q8_0", vocab=vocab, layers=1), slots=3, context=CONTEXT)
    _, logits, told, _ = step(core, Sampling(logprobs=5), outputs=3)
    for row, (chosen, top) in zip(logits.astype(np.float64), told, strict=True):
        row -= row.max()
        expected = row - np.log(np.exp(row).sum())
        assert chosen == top[0][1]
        assert np.abs([value - expected[id] for id, value in top]).max() < 1e-6


def test_nothing_is_told_unless_it_is_asked_for(core: Core) -> None:
    assert step(core, Sampling())[2] is None
    assert step(core, None)[2] is None


def test_they_are_of_the_model_whatever_changes_the_choice(core: Core) -> None:
    plain = step(core, Sampling(logprobs=4))
    for sampling in (
        Sampling(logprobs=4, rep_penalty=1.9),
        Sampling(logprobs=4, logit_bias=((3, 1e9),)),
        Sampling(logprobs=4, temp=2.0, seed=1),
    ):
        tokens, logits, told, _ = step(core, sampling)
        assert told[0][1] == plain[2][0][1]
        assert np.array_equal(logits, plain[1])
        everything = dict(step(core, Sampling(logprobs=1000))[2][0][1])
        assert told[0][0] == everything[tokens[0]]


def test_a_bias_forces_and_forbids(core: Core) -> None:
    best, second = (id for id, _ in step(core, Sampling(logprobs=2))[2][0][1])
    assert step(core, Sampling(logit_bias=((best, -1e9),)))[0] == (second,)
    assert step(core, Sampling(logit_bias=((17, 1e9),), temp=1.5, seed=4))[0] == (17,)
    logits = step(core, Sampling())[1][0]
    close = float(logits[best] - logits[second])
    assert step(core, Sampling(logit_bias=((second, close * 1.01),)))[0] == (second,)


def test_a_bias_outside_the_vocabulary_is_refused(core: Core) -> None:
    with pytest.raises(ValueError, match="bias for token 100000"):
        step(core, Sampling(logit_bias=((100000, 1.0),)))


def test_company_changes_nothing(core: Core) -> None:
    sampling = Sampling(logprobs=7, logit_bias=((4, 0.5),), freq_penalty=0.3, temp=0.9, seed=3)
    alone = step(core, sampling)
    for company in (1, 2):
        tokens, logits, told, _ = step(core, sampling, company)
        assert (tokens, told) == (alone[0], alone[2])
        assert np.array_equal(logits, alone[1])
