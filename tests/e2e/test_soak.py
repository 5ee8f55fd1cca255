"""Many short requests through one process: every line is answered in its turn, every request ends once, every frame
comes in order, nothing is left behind and the memory stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .soak import soak


def flat(memory: list[int]) -> float:
    """How far the memory after the first third is from even, as a share of the least."""
    settled = memory[len(memory) // 3 :]
    return max(settled) / min(settled) - 1


def test_two_thousand_requests() -> None:
    soak(2000, 1, "--coalesce", checkpoints=2)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_requests_on_a_model(
    tiny_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is freed goes back page by page: arenas of 1 MiB, which Python has for itself, are up to 2 % of all.
    monkeypatch.setenv("PYTHONMALLOC", "malloc")
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    model = str(tiny_model(vocab=400, context=256))
    memory = soak(100_000, 2, "--coalesce", "--threads=1", model, engine="cpu").memory
    assert flat(memory) < 0.02, [round(size / 1e6, 2) for size in memory]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_thousand_requests_in_too_little_room() -> None:
    soak(10_000, 3, "--no-reuse", "--cache-bytes=6000")
