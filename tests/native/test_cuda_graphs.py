"""Graphs of steps, with the CuPy and the emulated device of fake_cupy.py: when they are made, and what if not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from paceline.daemon.engine import NativeEngine
from paceline.native.core import open_core
from paceline.native.cupy_memory import CupyMemory

from .core_models import MODELS, ids_of
from .emulated import same_bits
from .fake_cupy import CONTEXT, CUDARuntimeError, FakeCupy, opened
from .rows import Row, all_logits, table


@pytest.fixture
def path(tiny_model: Any) -> Path:
    return tiny_model(**MODELS["Q8_0"])


def test_a_steady_step_is_one_of_each(cupy: FakeCupy, path: Path) -> None:
    core, own = opened(path), table(0, CONTEXT)

    def step(position: int) -> None:
        core.step([Row(0, [3], position, 1, own, logits=False)])
        core.commit(0, position + 1)

    for position in range(3):
        cupy.calls.clear()
        step(position)
        cupy.calls.pop("pinned", None)  # buffers as large as needed, once
        expected = {"upload": 1, "download": 1, "wait": 2, "record": 2}  # for the upload before, and for the results
        made = {"capture": 1, "enqueue": 1, "graph": 1, "graph upload": 1}
        assert cupy.calls == expected | ({"enqueue": 1}, made | {"launch": 1}, {"launch": 1})[position]


def test_a_step_is_begun_before_the_results_of_the_last_one_are_there(cupy: FakeCupy, path: Path) -> None:
    core, own = opened(path), table(0, CONTEXT)
    seen: list[dict[str, int]] = []
    assert core.meanwhile(lambda: seen.append(dict(cupy.calls)))
    tokens, given = [3], []
    for position in range(40):
        cupy.calls.clear()
        (result,), _ = core.step([Row(0, tokens, position, 1, own, logits=False, continues=position < 39)])
        core.commit(0, position + 1)
        tokens = list(result[0])
        given += tokens
        if 3 <= position < 39:
            assert cupy.calls == {"upload": 1, "download": 1, "wait": 2, "record": 2, "launch": 1}
            assert cupy.calls["wait"] == seen[-1]["wait"] + 1 and seen[-1]["launch"] == 1
    assert cupy.calls == {"download": 1, "wait": 1, "record": 1}  # the last one was on its way
    cpu = open_core(path, slots=1, context=CONTEXT)
    ids = [3, *given[:-1]]
    assert all_logits(cpu, 0, ids).argmax(axis=1).tolist() == given


def test_a_step_larger_than_the_room_forgets_the_graphs(cupy: FakeCupy, path: Path) -> None:
    core = opened(path, step_tokens=8)
    cpu = open_core(path, slots=6, context=CONTEXT)
    ids = ids_of(7, 80, cpu.vocab)
    cuts = [1, 2, 3, 4, 60, 61, 62, 63]
    assert same_bits(all_logits(core, 0, ids, cuts), all_logits(cpu, 0, ids))


def test_a_capture_that_fails_is_ended_and_launched(cupy: FakeCupy) -> None:
    memory = CupyMemory(cupy, 0, 1 << 16)
    ran = []

    def enqueue(stream: int) -> None:
        ran.append(cupy.streams[0].capture)
        if len(ran) in (2, 5):
            raise RuntimeError("norm: too many resources requested for launch")

    for _ in range(3):
        memory.run("key", enqueue)
    assert ran == [None, "begun", None, None]
    assert memory.without_graph == "norm: too many resources requested for launch"
    with pytest.raises(RuntimeError, match="too many resources"):  # it is the launch that fails
        memory.run("key", enqueue)
    memory.run("other", enqueue)
    memory.run("other", enqueue)
    assert (cupy.calls["capture"], cupy.calls["launch"]) == (2, 1)


@pytest.mark.parametrize("made", ["graph", "graph upload"])
def test_without_memory_for_a_graph_steps_are_launched(cupy: FakeCupy, path: Path, made: str) -> None:
    core = opened(path)
    cupy.fail[made] = CUDARuntimeError(2)
    ids = ids_of(5, 70, core.vocab)
    cuts = list(range(60, 70))
    assert same_bits(all_logits(core, 0, ids, cuts), all_logits(open_core(path, slots=6, context=CONTEXT), 0, ids))
    assert cupy.calls[made] > 0 == cupy.calls["launch"]


def test_what_a_capture_does_not_allow_spoils_it(cupy: FakeCupy) -> None:
    memory = CupyMemory(cupy, 0, 1 << 16)
    ran = []

    def enqueue(stream: int) -> None:
        ran.append(stream)
        if len(ran) == 2:
            memory.clear(memory.allocate(256), 256)

    for _ in range(3):
        memory.run("key", enqueue)
    assert "not permitted when stream is capturing" in str(memory.without_graph)
    assert len(ran) == 4


def test_the_host_works_while_the_device_does(cupy: FakeCupy, path: Path) -> None:
    core, own = opened(path), table(0, CONTEXT)
    seen: list[dict[str, int]] = []
    assert NativeEngine(core, path).meanwhile(lambda: seen.append(dict(cupy.calls)))
    for position in range(3):
        core.step([Row(0, [3], position, 1, own, logits=False)])
        core.commit(0, position + 1)
    assert (seen[-1]["launch"], cupy.calls["launch"]) == (2, 2)
    assert cupy.calls["wait"] == seen[-1]["wait"] + 1  # it was not waited for yet
