"""The scripts for the day that has a GPU run here too, tiny and on the emulated device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .emulated import _emulator

ROOT = Path(__file__).parents[2]
assert _emulator


def test_the_benchmark_runs(tmp_path: Path) -> None:
    record = tmp_path / "bench.json"
    words = ["--device", "emulator", "--tiny", "--rows", "1,2", "--contexts", "64", "--formats", "Q4_K", "--no-peer"]
    script = ROOT / "scripts" / "bench_gpu.py"
    subprocess.run([sys.executable, str(script), *words, "--json", str(record)], check=True, capture_output=True)
    found = json.loads(record.read_text())
    assert found["copy_bytes_per_s"] > 0
    kinds = [(result["kind"], result["rows"]) for result in found["results"]]
    assert kinds == [("product", 1), ("product", 2), ("step", 1), ("step", 2)]
    assert all(result["ms"] > 0 and result["share"] > 0 for result in found["results"])


@pytest.mark.slow
def test_gpu_check_goes_through_all_its_steps(tmp_path: Path) -> None:
    record = tmp_path / "check.json"
    words = ["--emulate", "--no-build", "--json", str(record)]
    done = subprocess.run(
        [ROOT / "scripts" / "gpu_check", *words], env=os.environ | {"PYTHON": sys.executable}, capture_output=True
    )
    steps = {step["name"]: step["state"] for step in json.loads(record.read_text())["steps"]}
    assert set(steps) == {"hashes", "tests", "daemon", "memcheck", "racecheck", "bench"}, done.stderr
    assert steps["tests"] == steps["daemon"] == steps["bench"] == "ok"
    assert steps["memcheck"] == "skipped"
