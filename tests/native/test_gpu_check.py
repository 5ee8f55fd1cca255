"""scripts/gpu_check.py, which is for the day that has a GPU, goes through its steps here, on the emulated device."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ..procfs import is_running
from .emulated import _emulator

ROOT = Path(__file__).parents[2]
assert _emulator
TESTS = """
import os, sys, time, types
import pytest

@pytest.mark.parametrize("name", ["a, b", "crash", "a, b c", "hang", "lost", "wrong", "last"])
def test_one(name):
    if name == "crash":
        os._exit(3)
    if name == "hang":
        time.sleep(99)
    if name == "lost":
        def gpu():
            raise RuntimeError("an illegal memory access")
        sys.modules["tests.native.emulated"] = types.SimpleNamespace(KIND="cuda", gpu=gpu)
    assert name not in ("lost", "wrong")
"""


@pytest.fixture
def gpu_jobs(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("gpu_jobs")


def test_tests_go_on_after_one_that_ends_their_process(gpu_jobs: Any, tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "gpu_plugin", "-p", "no:cacheprovider"]
    words += ["-o", "timeout=5", "-o", "timeout_method=thread", str(tmp_path / "test_some.py")]
    ended: list[Any] = []
    job = gpu_jobs.Job("some", words, tmp_path / "some.log", 90, tests=True)
    other = gpu_jobs.Job("other", [sys.executable, "-c", "print('done')"], tmp_path / "other.log", 90)
    env = os.environ | {"PYTHONPATH": str(ROOT / "scripts")}
    gpu_jobs.run_jobs([job, other], 2, env, lambda job: ended.append(job.result()))
    found = {result.name: result for result in ended}
    assert (found["other"].state, found["other"].about) == ("ok", "done")
    assert found["some"].state == "failed"
    names = [test.partition("[")[2] for test in found["some"].failures]
    why = "AssertionError: assert '{}' not in ('lost', 'wrong')"
    lost, wrong = (f"{name}] (failed: {why.format(name)})" for name in ("lost", "wrong"))
    assert names == ["crash] (begun)", "hang] (begun)", lost, wrong]
    assert "DeviceLost" not in found["some"].log
    assert "an illegal memory access" in found["some"].log or "the device is lost" in found["some"].log
    assert found["some"].about == "7 tests: 3 passed, 2 begun, 2 failed; 4 processes"


def test_a_job_at_its_limit_ends_with_all_that_it_began(gpu_jobs: Any, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    program = (
        "import pathlib, subprocess, sys; child = subprocess.Popen(['sleep', '999']);"
        "pathlib.Path(sys.argv[1]).write_text(str(child.pid)); child.wait()"
    )
    job = gpu_jobs.Job("slow", [sys.executable, "-c", program, str(pid)], tmp_path / "slow.log", 4)
    begun = time.monotonic()
    nowhere = gpu_jobs.Job("nowhere", [str(tmp_path / "nothing")], tmp_path / "nowhere.log", 2)
    results: list[Any] = []
    gpu_jobs.run_jobs([job, nowhere], 1, dict(os.environ), lambda job: results.append(job.result()))
    assert time.monotonic() - begun < 60
    assert (results[0].state, results[0].about) == ("failed", "stopped after 4 s: slow.log")
    assert results[1].state == "failed"
    assert results[1].about.startswith("exit status 127: [Errno 2] No such file")
    deadline = time.monotonic() + 20
    while is_running(int(pid.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_at_the_end_of_all_time_nothing_runs_and_nothing_begins(gpu_jobs: Any, tmp_path: Path) -> None:
    jobs = [gpu_jobs.Job(f"{n}", ["sleep", "99"], tmp_path / f"{n}.log", 90) for n in range(4)]
    results: list[Any] = []
    begun = time.monotonic()
    gpu_jobs.run_jobs(jobs, 2, dict(os.environ), lambda job: results.append(job.result()), until=time.monotonic() + 0.5)
    assert time.monotonic() - begun < 30
    assert {result.state for result in results} == {"failed"} and len(results) == 4
    others = [result.about for result in results if not result.about.startswith("stopped after")]
    assert 2 <= len(others) <= 3 and set(others) == {"not begun: no time was left"}


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", "ok"),
        ("========= RACECHECK SUMMARY: 3 hazards displayed (0 errors, 3 warnings)", "failed"),
        ("nothing of the kind", "failed"),
    ],
)
def test_a_checkers_summary_is_its_verdict(gpu_jobs: Any, tmp_path: Path, said: str, state: str) -> None:
    job = gpu_jobs.Job("race", ["echo", said], tmp_path / "race.log", 60, summary="RACECHECK SUMMARY:")
    results: list[Any] = []
    gpu_jobs.run_jobs([job], 1, dict(os.environ), lambda job: results.append(job.result()))
    assert results[0].state == state
    assert said.partition("SUMMARY: ")[2] in results[0].about and "RACECHECK SUMMARY:" in results[0].about


def test_wheels_that_fit_are_unpacked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    own = f"cp{sys.version_info.major}{sys.version_info.minor}"
    names = [
        "a-1-py3-none-any",
        "b-1-py2.py3-none-any",
        f"c-1-{own}-{own}-manylinux_2_28_x86_64",
        "d-1-cp38-abi3-linux",
    ]
    for name in [*names, "e-1-cp38-cp38-manylinux1_x86_64"]:
        with zipfile.ZipFile(tmp_path / f"{name}.whl", "w") as wheel:
            wheel.writestr(f"{name[0]}.py", "")
    folder = tmp_path / "folder"
    assert importlib.import_module("gpu_here").unpack(tmp_path, folder) == ["e-1-cp38-cp38-manylinux1_x86_64.whl"]
    assert sorted(path.name for path in folder.iterdir()) == ["a.py", "b.py", "c.py", "d.py"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_gpu_check_goes_through_all_its_steps(tmp_path: Path) -> None:
    record = tmp_path / "check.json"
    words = ["--emulate", "--no-build", "--json", str(record)]
    # Without the demo model, as on a machine that has no network.
    env = os.environ | {"PYTHON": sys.executable, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run([ROOT / "scripts" / "gpu_check", *words], env=env, capture_output=True)
    steps = {step["name"]: step["state"] for step in json.loads(record.read_text())["steps"]}
    assert set(steps) == {"products", "schedules", "daemon", "memcheck", "racecheck", "bench"}, done.stderr
    assert all(steps[name] == "ok" for name in ("products", "schedules", "daemon", "bench"))
    assert steps["memcheck"] == "skipped"
