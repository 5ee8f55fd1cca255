"""Steps that the device begins before they are asked for: the bits of steps that it does not, whoever is in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paceline.native.core import open_core
from paceline.protocol import Sampling

from .begun_texts import CONTEXT, SLOTS, Texts, both, started
from .core_models import MODELS, ids_of
from .rows import table
from .test_no_numbers import BROKEN, planted

NAMES = ("float", "Q8_0", "qwen3moe", "deepseek2", "gemma4", "qwen35", "lfm2", "granitehybrid")


@pytest.fixture(scope="module", params=NAMES)
def path(request: pytest.FixtureRequest, tiny_model: Any) -> Path:
    return tiny_model(**MODELS[request.param])


@pytest.fixture
def plain(tiny_model: Any) -> Path:
    return tiny_model(**MODELS["Q8_0"])


def test_rows_that_continue_are_given_the_same(path: Path) -> None:
    """Past the end of a page, and as somebody leaves, others change places, newcomers come and slots change hands."""
    launches = []

    def work(texts: Texts) -> None:
        started(texts, 0, 1, 3)
        taken = [texts.step(0, 1, 3) for _ in range(4)]
        taken += [texts.step(3, 0) for _ in range(2)]  # the second has left
        texts.start(1, ids_of(8, 5, texts.core.vocab), own=texts.rows[1].table[::-1])
        taken += [texts.step(0, 1, 3) for _ in range(3)]  # another in its place, with its pages
        launches.append([*taken, texts.step(1)])

    both(path, work)
    assert launches == [[2, 1, 1, 1, 1, 1, 2, 1, 1, 1], [1] * 10]


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(rep_penalty=1.1, seed=0),
        Sampling(freq_penalty=0.05, pres_penalty=0.1, logit_bias=((5, 3.0), (9, 3.0)), seed=0, logprobs=2),
        Sampling(rep_penalty=2.0, freq_penalty=-0.3, temp=0.2, top_k=5, seed=3),
    ],
    ids=["repetition", "frequency", "draws"],
)
def test_penalties_count_the_token_that_the_device_has(plain: Path, sampling: Sampling) -> None:
    """One that has been before, and one that has not."""

    def work(texts: Texts) -> None:
        texts.start(0, [5, 5, 6])
        texts.rows[0] = texts.rows[0]._replace(sampling=sampling)
        for _ in range(60):
            texts.step(0)

    ahead, without = both(plain, work)
    assert ahead.launches == without.launches + 1
    tokens = [tokens[0] for tokens, _, _ in ahead.given[0]]
    assert 1 < len(set(tokens)) < len(tokens)
    cpu = Texts(open_core(plain, slots=SLOTS, context=CONTEXT), False)
    work(cpu)
    assert cpu.given == ahead.given


def test_a_text_goes_on_to_the_end_of_its_context(plain: Path) -> None:
    def work(texts: Texts) -> None:
        started(texts, 0)
        for _ in range(CONTEXT - 2):
            texts.step(0)

    ahead, without = both(plain, work)
    assert ahead.launches == without.launches == CONTEXT - 2


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": [1]},
        {"sampling": Sampling(temp=0.5, seed=1)},
        {"table": table(1, CONTEXT)},
        {"outputs": 0, "following": 3},
        {"allowed": bytes(4) + b"\xff" * 12},
    ],
    ids=str,
)
def test_what_is_asked_for_is_computed_whatever_was_begun(plain: Path, change: dict[str, Any]) -> None:
    def work(texts: Texts) -> None:
        started(texts, 0)
        texts.step(0)
        texts.step(0)
        row = texts.rows[0]
        if "table" in change:  # the same keys and values elsewhere
            texts.core.copy_page(row.table[0], change["table"][0])
        (result,), _ = texts.core.step([row._replace(continues=False, **change)])
        tokens, logits, logprobs, _ = result
        texts.given[0].append((tokens, None if logits is None else logits.tobytes(), logprobs))

    ahead, without = both(plain, work)
    assert ahead.launches == without.launches + 1


def test_what_was_begun_goes_with_the_seat(path: Path) -> None:
    """Whoever sits there next may have the same text and pages, but what was begun may be gone from them."""

    def work(texts: Texts) -> None:
        started(texts, 0, 1)
        for _ in range(3):
            texts.step(0, 1)
        row = texts.rows[0]
        if texts.core.state_bytes:
            texts.core.keep(0, 0)
        text = [*ids_of(0, 3, texts.core.vocab), *(token for given in texts.given[0] for token in given[0])]
        texts.core.seat(0, text[: row.position], 0 if texts.core.state_bytes else None)
        before = texts.launches
        texts.step(0, 1)
        assert texts.launches - before == 1 + texts.continues
        texts.step(0, 1)

    both(path, work)


def test_no_token_follows_no_number(tiny_model: Any, tmp_path: Path) -> None:
    """A prediction that is none has no successor: what was begun for it disturbs nobody."""

    def work(texts: Texts) -> None:
        texts.start(0, [3, BROKEN, 5])
        texts.start(2, [4, 5, 6])
        texts.step(0, 2)
        assert texts.given[0][0][0] == (-1,)
        texts.step(2)
        texts.step(2)

    both(planted(tiny_model(**MODELS["Q8_0"] | {"tied": False}), np.nan, tmp_path), work)
