"""Many short requests through one process: every line is answered in its turn, every request ends once, every frame
comes in order, nothing is left behind and the memory stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
from soak import soak


def spread(memory: list[int]) -> float:
    """How far any of it is from their median, as a share of that."""
    middle = median(memory)
    return max(abs(size / middle - 1) for size in memory)


def growth(memory: list[int]) -> float:
    """Of the second half beside the first, by their medians: Python's arenas of 1 MiB come and go."""
    half = len(memory) // 2
    return median(memory[half:]) / median(memory[:half]) - 1


def test_two_thousand_requests() -> None:
    soak(2000, 1, "--coalesce")


@pytest.mark.slow
def test_a_hundred_thousand_requests_on_a_model(tiny_model: Callable[..., Path]) -> None:
    model = str(tiny_model(vocab=400, context=256))
    memory = soak(100_000, 2, "--coalesce", "--threads=1", model, engine="cpu").memory
    settled = memory[len(memory) // 3 :]
    told = [round(size / 1e6, 2) for size in memory]
    assert spread(settled) < 0.02, told
    assert growth(settled) < 0.015, told


@pytest.mark.slow
def test_ten_thousand_requests_in_too_little_room() -> None:
    soak(10_000, 3, "--no-reuse", "--cache-bytes=6000")
