"""What tests of the code for GPUs share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=os.environ.get("PACELINE_WATCH") == "1")
def watched_anew() -> None:
    """What kernels did in earlier tests is forgotten: of each byte, it takes 200."""
    from .emulated import _emulator

    _emulator.watch(True)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A FakeCupy, in the place of CuPy and of the module of kernels."""
    from paceline.native import open_device

    from .fake_cupy import FakeCupy, Launching

    fake = FakeCupy()
    monkeypatch.setattr(open_device, "find_modules", lambda kind: (Launching(fake), fake))
    yield fake
    fake.fail.clear()
