"""The tests of the promises, run on cores with a fault built in: they must catch it.

ORDER sums in segments of 256 inputs where more columns share a product than half of what registers hold; UNPACK
unpacks the weights again for every run of columns (native/cpu/integer_product.h). Each build takes a minute.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
# Puts the planted extension in the place of the installed one, then runs pytest.
RUN = """
import importlib.util, sys
import pytest, paceline.native
spec = importlib.util.spec_from_file_location("paceline.native._cpu", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["paceline.native._cpu"] = paceline.native._cpu = module
spec.loader.exec_module(module)
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[2:]]))
"""


def run_on_planted(fault: str, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--disable-pip-version-check",
        f"-w{folder}",
        str(ROOT),
    ]
    build += [f"--config-settings=cmake.define.PACELINE_PLANT={fault}", f"--config-settings=build-dir={folder}/build"]
    # CI's has the emulated device, too, which takes long and is not looked at.
    environment = {name: value for name, value in os.environ.items() if name != "SKBUILD_CMAKE_DEFINE"}
    subprocess.run(build, check=True, env=environment)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(folder / "wheel")], check=True)
    (extension,) = (folder / "wheel" / "paceline" / "native").glob("_cpu*.so")
    command = [sys.executable, "-c", RUN, str(extension), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_planted_change_of_order_is_caught(tmp_path: Path) -> None:
    bits = "tests/native/test_core.py::test_chunks_slots_and_company_change_no_bit"
    schedules = "tests/daemon/test_same_tokens.py::test_any_schedule_gives_the_bits_of_a_run_alone"
    result = run_on_planted("ORDER", tmp_path, bits, schedules, "-k", "Q4_1")
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"FAILED {bits}[Q4_1]" in result.stdout
    assert f"FAILED {schedules}[Q4_1-" in result.stdout


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_planted_second_unpacking_is_caught(tmp_path: Path) -> None:
    result = run_on_planted("UNPACK", tmp_path, "tests/native/test_core.py", "-k", "one_pass or chunks")
    assert result.returncode == 1, result.stdout + result.stderr
    failed = {
        line.split()[1].split("::")[1].split("[")[0] for line in result.stdout.splitlines() if line.startswith("FAILED")
    }
    assert failed == {"test_one_pass_over_the_weights"}  # the bits are right, the bytes are not
