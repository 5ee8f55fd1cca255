"""The readers of the wire, given damaged commands and frames (see scripts/fuzz_readers.py)."""

import subprocess
import sys

import pytest

from ..conftest import ROOT


@pytest.mark.parametrize("count", [3000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_the_readers(count: int) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "fuzz.py"), "readers", f"--count={count}", "--seed=3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
