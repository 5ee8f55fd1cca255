"""Log-probabilities of the CUDA core on the emulated device: the CPU core's, bit for bit, whatever the logits are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paceline.native import core as native_core
from paceline.native.core import Core, open_core
from paceline.native.weights import open_model
from paceline.protocol import Sampling

from .core_models import MODELS, ids_of
from .emulated import KIND, ORDERS, Floats, lanes
from .fake_cupy import CONTEXT as CUPY_CONTEXT
from .fake_cupy import FakeCupy, opened
from .rows import Row, table

CONTEXT = 128
SLOTS = 4
VOCAB = 1000
SMALL = {"type": "F32", "layers": 1, "width": 32, "heads": 1, "kv_heads": 1, "head_size": 32, "ffn": 32}
WISHES = (
    Sampling(logprobs=1),
    Sampling(logprobs=1000, temp=0.9, seed=4, logit_bias=((3, 1e9), (9, -1.0), (3, 2.0))),
    Sampling(temp=0.9, top_k=30, top_p=0.9, seed=5, logprobs=20, rep_penalty=1.3, freq_penalty=0.2),
    Sampling(temp=2.0, seed=6),
    Sampling(logprobs=1024, pres_penalty=1.5),
    Sampling(logprobs=300, temp=2.0, min_p=0.01, seed=7),
)


def flat(rows: Floats) -> Floats:
    return rows


def steep(rows: Floats) -> Floats:
    return rows * np.float32(4)


def tied(rows: Floats) -> Floats:
    """Seven rows again and again, one of them zeros."""
    few = rows[:7].copy()
    few[3] = 0
    return np.resize(few, rows.shape)


def broken(rows: Floats) -> Floats:
    """Some logits are no numbers, some are -inf; the largest is one."""
    rows = steep(rows)
    rows[[3, 900, 0, 17]] = np.nan
    rows[5:700:3] = np.abs(rows[5:700:3]) * np.float32(1e36)  # inputs of both signs: infinite, or no number
    return rows


def nothing(rows: Floats) -> Floats:
    return np.full_like(rows, np.nan)


def pair(monkeypatch: pytest.MonkeyPatch, path: Path, edit: Callable[[Floats], Floats]) -> tuple[Core, Core]:
    """Both cores, with other rows in the matrix that gives the logits."""
    metadata, tensors = open_model(path)
    (head,) = (tensor for tensor in tensors if tensor.name == "output.weight")
    with np.errstate(all="ignore"):
        rows = edit(head.data.view(np.float32).reshape(head.rows, head.columns).copy())
    edited = [replace(tensor, source=rows.view(np.uint8)) if tensor is head else tensor for tensor in tensors]
    monkeypatch.setattr(native_core, "open_model", lambda path, drafting: (metadata, edited))
    cpu, device = (open_core(path, slots=SLOTS, context=CONTEXT, kind=kind) for kind in ("cpu", KIND))
    return cpu, device


def outcomes(core: Core, wishes: tuple[Sampling, ...], order: str = "forward", logits: bool = False) -> list[Any]:
    """Tokens and what is told of them, of rows of 1 to 3 outputs."""
    rows = []
    for slot, sampling in enumerate(wishes):
        core.commit(slot, 0)
        ids = ids_of(slot, 9, VOCAB)
        rows.append(Row(slot, ids, 0, 1 + slot % 3, table(slot, CONTEXT), 5, sampling, logits))
    with lanes(order):
        return [(tokens, told) for tokens, _, told, _ in core.step(rows)[0]]


@pytest.mark.parametrize("edit", [flat, steep, tied, broken, nothing])
def test_they_are_the_cpus(tiny_model: Any, monkeypatch: pytest.MonkeyPatch, edit: Any) -> None:
    cpu, device = pair(monkeypatch, tiny_model(**SMALL, vocab=VOCAB), edit)
    for wishes in (WISHES[:4], WISHES[2:]):
        expected = outcomes(cpu, wishes)
        for order in ORDERS:
            assert repr(outcomes(device, wishes, order)) == repr(expected)  # no number is none like itself
        assert repr(outcomes(device, wishes, logits=True)) == repr(expected)
    assert [[len(top) for _, top in told or ()] for _, told in expected] == [[20], [], [VOCAB] * 3, [300]]


@pytest.mark.parametrize("edit", [flat, steep])
def test_they_are_the_cpus_where_candidates_are_too_many(
    tiny_model: Any, monkeypatch: pytest.MonkeyPatch, edit: Any
) -> None:
    cpu, device = pair(monkeypatch, tiny_model(**SMALL, vocab=20_000), edit)
    wishes = (Sampling(logprobs=3), Sampling(logprobs=1024, temp=1.0, top_p=0.9, seed=2))
    assert outcomes(device, wishes) == outcomes(cpu, wishes)


def test_company_changes_nothing(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, device = pair(monkeypatch, tiny_model(**SMALL, vocab=VOCAB), steep)
    (alone,) = outcomes(device, WISHES[2:3])
    for company in (WISHES[:2], (WISHES[3],), WISHES[3:6]):
        rows = []
        for slot, sampling in enumerate((*company, WISHES[2])):
            device.commit(slot, 0)
            last = slot == len(company)
            ids = ids_of(0 if last else 9 + slot, 9, VOCAB)
            rows.append(Row(slot, ids, 0, 1, table(slot, CONTEXT), 5, sampling, False))
        tokens, _, told, _ = device.step(rows)[0][-1]
        assert (tokens, told) == alone


def test_more_than_there_is_room_for_is_refused(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for core in pair(monkeypatch, tiny_model(**SMALL, vocab=VOCAB), flat):
        for count in (1025, -1):
            with pytest.raises(ValueError, match=f"row of slot 0: logprobs of {count}, expected 0 to 1024"):
                outcomes(core, (Sampling(logprobs=count),))


def test_a_few_numbers_come_back_and_the_graph_is_that_of_sampling(cupy: FakeCupy, tiny_model: Any) -> None:
    core, own = opened(tiny_model(**MODELS["Q8_0"])), table(0, CUPY_CONTEXT)
    sizes: list[int] = []
    copy = cupy.runtime.memcpyAsync

    def counted(target: int, source: int, bytes: int, kind: int, stream: int) -> None:
        if kind == cupy.runtime.memcpyDeviceToHost:
            sizes.append(bytes)
        copy(target, source, bytes, kind, stream)

    cupy.runtime.memcpyAsync = counted
    wishes = (
        Sampling(temp=1.0, seed=1),
        Sampling(temp=1.0, seed=1),
        Sampling(logprobs=5),
        Sampling(temp=1.0, seed=1, logprobs=2),
    )
    for position, sampling in enumerate(wishes):
        cupy.calls.clear()
        sizes.clear()
        core.step([Row(0, [3], position, 1, own, 1, sampling, False)])
        core.commit(0, position + 1)
        assert sizes == [4] + ([16 + 8 * sampling.logprobs] if sampling.logprobs else [])
        if position < 2:
            continue
        cupy.calls.pop("pinned", None)  # buffers as large as needed, once
        assert cupy.calls == {"upload": 1, "launch": 1, "download": 2, "wait": 2, "record": 2}
