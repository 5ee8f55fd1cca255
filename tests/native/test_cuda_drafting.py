"""A layer that drafts on the emulated device: the drafts of the CPU core, bit for bit what they come of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from paceline.native.core import open_core
from paceline.native.drafting import ARCHITECTURES
from paceline.native.lost import DeviceLost
from paceline.protocol import Sampling

from .drafted_texts import CONTEXT, MOST, TINY, Writer, ids_of, opened, told
from .emulated import COUNTS_LOADS, KIND, counting_loads
from .rows import Row, table

COLD = Sampling(temp=1.5, seed=5, freq_penalty=0.5, logit_bias=((7, 1.0),))


@pytest.fixture(scope="module", params=ARCHITECTURES)
def path(request: pytest.FixtureRequest, tiny_model: Any) -> Path:
    return tiny_model(architecture=request.param, type="Q4_0", ffn=96, **TINY)


@pytest.mark.parametrize("sampling", [None, COLD], ids=["greedy", "drawn"])
def test_drafts_are_the_cpus(path: Path, sampling: Sampling | None) -> None:
    device, cpu = opened(path, kind=KIND), opened(path, threads=1)
    for seed, chunk in ((1, 300), (2, 7)):
        prompt = ids_of(seed, 20)
        theirs = told(device, 1, prompt, 16, sampling=sampling, chunk=chunk)
        ours = told(cpu, 1, prompt, 16, sampling=sampling, chunk=chunk)
        assert theirs == ours
    assert device.draft_cost == cpu.draft_cost


def test_drafts_are_the_same_in_company(path: Path) -> None:
    device = opened(path, kind=KIND)
    prompt = ids_of(3, 12)
    alone = told(device, 0, prompt, 8)
    others = [Writer(device, slot, ids_of(slot, 9 * slot), ahead) for slot, ahead in ((1, 2), (2, 0), (3, MOST))]
    assert told(device, 0, prompt, 8, chunk=11, company=others)[:3] == alone[:3]


@pytest.mark.skipif(not COUNTS_LOADS, reason="a GPU does not count what it loads")
def test_what_its_passes_read_is_told(path: Path) -> None:
    device = opened(path, kind=KIND)
    row = Row(0, ids_of(4, 5), 0, 1, table(0, CONTEXT), ahead=3)
    (_, told_bytes), read = counting_loads(lambda: device.step([row]))
    assert read <= told_bytes  # of experts an upper bound
    assert read > 0.7 * told_bytes
    (_, without), _ = counting_loads(lambda: device.step([row._replace(ahead=0)]))
    assert told_bytes > without


def test_a_chain_over_the_edge_of_a_split(tiny_model: Any) -> None:
    """The passes read the streams of the step, whose room must not be replaced before they have."""
    path, context = tiny_model(architecture="qwen35", type="Q4_0", ffn=96, **TINY), 1100
    device, cpu = (open_core(path, slots=1, context=context, kind=kind, drafting=True) for kind in (KIND, "cpu"))
    for count in (508, 1020):
        row = Row(0, ids_of(5, count), 0, 1, table(0, context), count, ahead=8)
        drafts = []
        for core in (device, cpu):
            core.commit(0, 0)
            drafts.append(core.step([row])[0][0][3])
        assert drafts[0] == drafts[1]
        assert len(drafts[0]) == 8


def test_a_step_whose_drafts_fail_is_made(path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    device, whole = opened(path, kind=KIND), opened(path, kind=KIND)
    memory, run, failing = device.stepper._memory, device.stepper._memory.run, [0, 2]

    def fails(key: Any, enqueue: Any) -> None:
        if isinstance(key, tuple) and key[0] == "draft":
            failing[0] += 1
            if failing[0] == failing[1]:
                raise RuntimeError("no launch today")
        run(key, enqueue)

    monkeypatch.setattr(memory, "run", fails)
    row = Row(0, ids_of(6, 9), 0, 1, table(0, CONTEXT), 9, ahead=3)
    (expected,), _ = whole.step([row])
    (found,), _ = device.step([row])
    assert found[0] == expected[0]
    assert found[3] == expected[3][:1]
    assert "a step ended before all was drafted: no launch today" in capfd.readouterr().err
    assert device.step([row])[0][0][3] == expected[3]
    failing[:] = 0, 1
    assert device.step([row])[0][0][3] == ()
    monkeypatch.setattr(memory, "run", raising(DeviceLost("gone")))
    with pytest.raises(DeviceLost):
        device.step([row])


def raising(error: Exception) -> Any:
    def function(*_: Any) -> None:
        raise error

    return function
