"""The code that runs on a GPU, with a CuPy of NumPy and the emulated device behind it: what is called, and what for."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from paceline.daemon.engine import NativeEngine
from paceline.daemon.execution import execute
from paceline.daemon.plan import Plan, RowFailure
from paceline.daemon.plan import Row as PlanRow
from paceline.native import open_device
from paceline.native.arena import Arena
from paceline.native.core import open_core
from paceline.native.cupy_memory import CupyMemory
from paceline.native.device_memory import EmulatedMemory
from paceline.native.lost import DeviceLost
from paceline.protocol import Sampling

from .core_models import MODELS, ids_of
from .emulated import same_bits
from .fake_cupy import CONTEXT, CUDARuntimeError, FakeCupy, opened
from .rows import Row, all_logits, table

LOST = CUDARuntimeError(700)


@pytest.fixture
def path(tiny_model: Any) -> Path:
    return tiny_model(**MODELS["Q8_0"])


@pytest.mark.parametrize("name", ["Q8_0", "qwen3moe, Q8_0", "qwen3next"])
def test_graphs_give_the_bits_of_the_cpu(cupy: FakeCupy, tiny_model: Any, name: str) -> None:
    path = tiny_model(**MODELS[name])
    cpu, device = open_core(path, slots=6, context=CONTEXT), opened(path)
    for seed in (1, 2, 3):
        ids = ids_of(seed, 90, cpu.vocab)
        cuts = [40, 72, *range(73, 90)]
        assert same_bits(all_logits(device, seed, ids, cuts), all_logits(cpu, 0, ids))
    assert cupy.calls["launch"] > 30 > cupy.calls["capture"] > 0
    assert device.device == "fake"


def test_pages_and_errors_go_through_the_arena(cupy: FakeCupy, path: Path) -> None:
    core = opened(path)
    data = np.random.default_rng(1).bytes(core.page_bytes)
    core.write_page(3, data)
    core.copy_page(3, 5)
    assert core.read_page(5) == data
    assert cupy.calls["malloc"] == 1  # the arena, and nothing after it


def test_pages_are_what_memory_allows(cupy: FakeCupy, path: Path) -> None:
    full = 6 * CONTEXT // 64
    assert opened(path).pages == full
    share = opened(path, gpu_memory=0.5)
    assert full < share.pages < cupy.free // 2 // share.page_bytes
    assert opened(path, gpu_memory=1.0).pages > share.pages
    assert opened(path, cache_bytes=9 * share.page_bytes, gpu_memory=0.5).pages == 9
    with pytest.raises(MemoryError, match="more than the 268435456 bytes that are free"):
        opened(path, gpu_memory=2.0**40)
    with pytest.raises(MemoryError, match="left"):
        opened(path, gpu_memory=2.0**16)
    with pytest.raises(MemoryError, match=r"\d+ pages of cache take 2\d{8} bytes, and .* are left"):
        opened(path, gpu_memory=0.5, cache_bytes=cupy.free)


def test_more_slots_of_a_hybrid_are_more_memory(
    tiny_model: Any, cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their states and the updates that they keep, which is most of it, are counted before anything is taken."""
    asked: list[int] = []
    taken = [0, 0]

    class Counted(EmulatedMemory):
        def __init__(self, cupy: Any, number: int, bytes: int) -> None:
            super().__init__()
            asked.append(bytes)

        def allocate(self, bytes: int) -> int:
            taken[len(asked) - 1] += bytes
            return super().allocate(bytes)

    def stop(*arguments: Any, **options: Any) -> None:
        raise StopIteration

    monkeypatch.setattr(open_device, "SHARE", 1e9)
    monkeypatch.setattr(open_device, "CupyMemory", Counted)
    monkeypatch.setattr("paceline.native.core.load", stop)
    for slots in (2, 30):
        with pytest.raises(StopIteration):
            opened(tiny_model(**MODELS["qwen3next"]), slots=slots, cache_bytes=1 << 20)
    assert asked[1] - asked[0] >= taken[1] - taken[0] > 1 << 20


def test_memory_that_somebody_took_meanwhile_is_a_sentence(cupy: FakeCupy, path: Path) -> None:
    cupy.fail["malloc"] = CUDARuntimeError(2)
    with pytest.raises(MemoryError, match=r"\d+ bytes of the device: cudaErrorMemoryAllocation"):
        opened(path)


@pytest.mark.parametrize("call", ["use", "native device"])
def test_a_gpu_that_cannot_be_used_is_a_sentence(cupy: FakeCupy, path: Path, call: str) -> None:
    cupy.fail[call] = CUDARuntimeError(46)
    with pytest.raises(ValueError, match=r"--device cuda: the GPU cannot be used \(cudaErrorDevicesUnavailable"):
        opened(path)


def plan_row(slot: int, tokens: tuple[int, ...], position: int, outputs: int) -> PlanRow:
    return PlanRow(1, slot, 1, tokens, position, outputs, None, 0, table(slot, CONTEXT), False)


def plan(*rows: PlanRow) -> Plan:
    return SimpleNamespace(moves=(), commits=(), batches=(rows,))  # type: ignore[return-value]


def plan_of(position: int, slots: tuple[int, ...]) -> Plan:
    return plan(*(plan_row(slot, (3,), position, 1) for slot in slots))


def test_a_bad_launch_fails_the_step_and_no_more(cupy: FakeCupy, path: Path) -> None:
    engine = NativeEngine(opened(path), path)
    cupy.fail["enqueue"] = RuntimeError("product: invalid configuration argument")
    (result,) = execute(engine, plan_of(0, (0, 1)), lambda: 0.0)
    assert result.rows == [RowFailure("RuntimeError: product: invalid configuration argument")] * 2
    cupy.fail.clear()
    (result,) = execute(engine, plan_of(0, (0, 1)), lambda: 0.0)
    assert not any(isinstance(outcome, RowFailure) for outcome in result.rows)


def test_no_room_for_a_step_fails_it_and_no_more(cupy: FakeCupy, path: Path) -> None:
    core = opened(path, step_tokens=1, slots=1, gpu_memory=0.5)
    engine = NativeEngine(core, path)
    (result,) = execute(engine, plan(plan_row(0, (3,) * 600, 0, 1)), lambda: 0.0)
    assert isinstance(result.rows[0], RowFailure)
    assert "MemoryError" in result.rows[0].error
    (result,) = execute(engine, plan_of(0, (0,)), lambda: 0.0)
    assert not isinstance(result.rows[0], RowFailure)


def test_drafts_of_all_slots_fit_where_the_pages_have_the_rest(cupy: FakeCupy, tiny_model: Any) -> None:
    """With penalties over a long history and a set for each output: all that a step's input can hold."""
    most, slots = 8, 2
    path = tiny_model(**MODELS["Q8_0"] | {"vocab": 4096})
    room: dict[str, Any] = {"step_tokens": 64, "step_outputs": slots * (most + 1), "slots": slots}
    core = opened(path, gpu_memory=0.5, replay=most + 1, **room)
    chance = np.random.default_rng(1)
    everything = bytes([255]) * (4096 // 8) * (most + 1)
    rows = []
    for slot in range(slots):
        ids = chance.permutation(4096)[: CONTEXT - most - 1].tolist()
        begun = 0
        while begun < len(ids):
            fed = ids[begun : begun + 64]
            core.step([Row(slot, fed, begun, 0, table(slot, CONTEXT), len(ids))])
            begun += len(fed)
            core.commit(slot, begun)
        sampling = Sampling(temp=0.9, rep_penalty=1.1, seed=1)
        fed = ids[: most + 1]
        rows.append(Row(slot, fed, begun, most + 1, table(slot, CONTEXT), len(ids), sampling, False, everything))
    before = cupy.calls["malloc"]
    results, _ = core.step(rows)
    assert [len(tokens) for tokens, *_ in results] == [most + 1] * slots and cupy.calls["malloc"] == before


@pytest.mark.parametrize("call", ["upload", "wait", "launch"])
def test_an_error_that_stays_is_a_lost_device(cupy: FakeCupy, path: Path, call: str) -> None:
    engine = NativeEngine(opened(path), path)
    for _ in range(2):
        execute(engine, plan_of(0, (0,)), lambda: 0.0)
    cupy.fail |= {call: LOST, "synchronize": LOST}
    with pytest.raises(DeviceLost, match="illegal memory access"):
        execute(engine, plan_of(0, (0,)), lambda: 0.0)


def test_uploads_go_in_pieces(cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.native.cupy_memory.PIECE", 1000)
    memory = CupyMemory(cupy, 0, 1 << 16)
    data = np.random.default_rng(1).integers(0, 256, 4321, np.uint8)
    memory.allocate(np.int64(1000))  # type: ignore[arg-type]  # a number that CuPy would not take for an address
    place = memory.allocate(data.size)
    memory.upload(place, data)
    assert np.array_equal(memory.download(place, data.size), data)
    first, nothing, second = memory.fetch([(place, 7), (place, 0), (place + 100, 9)])
    assert (bytes(first), bytes(second), nothing.size) == (bytes(data[:7]), bytes(data[100:109]), 0)


def test_pieces_of_their_own_are_the_same_to_a_step(
    cupy: FakeCupy, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = ids_of(1, 30, 64)
    whole = all_logits(opened(path), 0, ids)
    before = cupy.calls["malloc"]
    monkeypatch.setenv("PACELINE_CUDA_PIECES", "1")
    assert same_bits(all_logits(opened(path), 0, ids), whole)
    assert cupy.calls["malloc"] > before + 10
    memory = CupyMemory(cupy, 0, 1000)
    place = memory.allocate(700)
    with pytest.raises(MemoryError, match="700 bytes are wanted"):
        memory.allocate(700)
    memory.release(place)
    memory.release(memory.allocate(700))


def test_an_arena_joins_what_is_given_back() -> None:
    arena = Arena(4096)
    a, b, c = arena.take(1000), arena.take(1), arena.take(2000)
    assert (a, b, c, arena.free) == (0, 1024, 1280, 768)
    with pytest.raises(MemoryError, match="1000 bytes are wanted, and 768 of the 4096 are left"):
        arena.take(1000)
    arena.give_back(a)
    arena.give_back(c)
    assert (arena.free, arena.largest) == (3840, 2816)
    arena.give_back(b)
    assert arena.take(4096) == 0
    with pytest.raises(KeyError):
        arena.give_back(1024)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    def said(**runtime: Any) -> str:
        fake = FakeCupy()
        for name, value in runtime.items():
            setattr(fake.runtime, name, value)
        monkeypatch.setitem(sys.modules, "paceline.native._cuda", ModuleType("_cuda"))
        monkeypatch.setitem(sys.modules, "cupy", fake)  # type: ignore[arg-type]
        with pytest.raises(ValueError) as caught:
            opened(path, kind="cuda:1")
        return str(caught.value)

    def fails(status: int) -> Any:
        def call() -> int:
            raise CUDARuntimeError(status)

        return call

    driver = said(getDeviceCount=fails(35))
    assert "no NVIDIA driver" in driver
    assert "CUDA 13" in driver
    assert "sees no GPU" in said(getDeviceCount=fails(100))
    assert "sees no GPU" in said(getDeviceCount=lambda: 0)
    assert "this machine has 1 GPU, numbered from 0" in said()
    old = said(getDeviceCount=lambda: 2, getDeviceProperties=lambda number: {"name": b"", "major": 7, "minor": 5})
    assert "compute capability 7.5, expected at least 8.0" in old
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ValueError, match=r"CuPy is not there .*pip install 'paceline\[cuda\]'"):
        opened(path)
    monkeypatch.setitem(sys.modules, "paceline.native._cuda", None)
    with pytest.raises(ValueError, match=r"not in this build .*PACELINE_CUDA=ON"):
        opened(path)
    for wrong in ("cuda:", "cuda:x"):
        with pytest.raises(ValueError, match="expected cpu, cuda or cuda:<number>"):
            opened(path, kind=wrong)


def test_cupy_is_not_imported_for_the_cpu(path: Path) -> None:
    monkey = set(sys.modules)
    importlib.import_module("paceline.native.core")
    open_core(path, slots=1, context=64)
    assert not {"cupy", "paceline.native._cuda"} & (set(sys.modules) - monkey)
