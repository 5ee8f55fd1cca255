"""The wheel that is built is whole: installed into an environment of its own, it runs."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_the_wheel_runs_where_nothing_else_is(tmp_path: Path) -> None:
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        f"-w{tmp_path}",
        f"--config-settings=build-dir={tmp_path}/build",
        # Kernels are what takes long, and scripts/setup has built all of them.
        "--config-settings=cmake.define.PACELINE_INSTRUCTION_SETS=",
    ]
    # CI's has the emulated device, too, which nobody installs.
    environment = {name: value for name, value in os.environ.items() if name != "SKBUILD_CMAKE_DEFINE"}
    subprocess.run([*build, str(ROOT)], check=True, env=environment)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if name.endswith((".cpp", ".h", "CMakeLists.txt"))]
    assert {"paceline/protocol/SPEC.md", "paceline/native/_cpu.pyi", "paceline/daemon/py.typed"} <= set(names)
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", str(wheel)], check=True, cwd=tmp_path)
    run = subprocess.run(
        [tmp_path / "venv" / "bin" / "paceline", "daemon", "--engine", "null", "--stream", "text"],
        input="REQ 1 START ids:1,2,3 4\n", capture_output=True, text=True, timeout=60, cwd=tmp_path,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "-2 1 -1"
    code = "from paceline.native import _cpu; print(_cpu.instruction_sets()[0])"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert found.stdout == "plain\n", found.stderr
