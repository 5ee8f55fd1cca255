"""Rows with drafted tokens, committed as far as those were right: the CPU core's tokens and logits, one by one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paceline.native.core import Core, open_core
from paceline.protocol import Sampling

from .core_models import ONE_ORDER, ids_of
from .emulated import KIND
from .rows import Row, table
from .seating import HYBRID

CONTEXT = 128
PROMPT = 20
TOKENS = 30
MOST = 8
MODELS = {name: ONE_ORDER[name] for name in ("Q8_0", "gemma3")} | {
    name: {"architecture": name, **HYBRID} for name in ("qwen35", "granitehybrid")
}
SAMPLINGS = (None, Sampling(temp=0.9, top_p=0.9, seed=4, rep_penalty=1.2))


@pytest.fixture(scope="module", params=MODELS)
def cores(request: pytest.FixtureRequest, tiny_model: Any) -> tuple[Core, Core]:
    path: Path = tiny_model(**MODELS[request.param])
    shape: dict[str, Any] = {"slots": 2, "context": CONTEXT, "replay": MOST + 1}
    return open_core(path, **shape), open_core(path, kind=KIND, **shape)


def one_by_one(core: Core, prompt: list[int], sampling: Sampling | None) -> tuple[list[int], np.ndarray]:
    """The tokens of slot 0, and the logits of each."""
    core.commit(0, 0)
    fed, position, found, logits = prompt, 0, [], []
    for _ in range(TOKENS):
        ((tokens, rows, *_),), _ = core.step([Row(0, fed, position, 1, table(0, CONTEXT), len(prompt), sampling)])
        position += len(fed)
        core.commit(0, position)
        fed = [*tokens]
        found += fed
        logits.append(rows)
    return found, np.concatenate(logits)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=("greedy", "sampled"))
def test_as_far_as_a_draft_is_right_its_tokens_are_those_of_single_steps(
    cores: tuple[Core, Core], sampling: Sampling | None
) -> None:
    cpu, device = cores
    chance = random.Random(5)
    prompt, other = ids_of(1, PROMPT, cpu.vocab), ids_of(2, 40, cpu.vocab)
    expected, logits = one_by_one(cpu, prompt, sampling)
    device.commit(0, 0)
    device.step([Row(0, prompt[:-1], 0, 0, table(0, CONTEXT), PROMPT)])
    device.commit(0, PROMPT - 1)
    known, wrong = 0, 0
    while known < TOKENS:
        draft = expected[known : known + min(chance.randint(0, MOST), TOKENS - known - 1)]
        false = chance.randrange(2 * MOST)
        draft = [(token + (index == false)) % cpu.vocab for index, token in enumerate(draft)]
        pending = expected[known - 1] if known else prompt[-1]
        position = PROMPT - 1 + known
        row = Row(0, [pending, *draft], position, 1 + len(draft), table(0, CONTEXT), PROMPT, sampling)
        device.commit(1, 0)
        company = [Row(1, other[: chance.randint(1, 40)], 0, 1, table(1, CONTEXT), 40)][: chance.randrange(2)]
        ((tokens, told, *_), *_), _ = device.step([row, *company])
        right = 1
        while right <= len(draft) and draft[right - 1] == tokens[right - 1]:
            right += 1
        wrong += right <= len(draft)
        assert [*tokens[:right]] == expected[known : known + right]
        np.testing.assert_array_equal(told[:right], logits[known : known + right])
        known += right
        device.commit(0, position + right)
    assert wrong, "some drafts are wrong"
