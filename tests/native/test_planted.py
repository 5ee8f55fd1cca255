"""The tests of the promises, run on cores with a fault built in: they must catch it.

ORDER sums in segments of 256 inputs where more columns share a product than half of what registers hold; UNPACK
unpacks the weights again for every run of columns (native/cpu/integer_product.h). The products of formats like Q4_1 by
one instruction set, that of the cores of this machine, are compiled anew; the rest is what scripts/setup has built.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from paceline.native import _cpu

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


def newest_build() -> Path:
    libraries = sorted((ROOT / "build").glob("*/libpaceline_cpu.a"), key=lambda path: path.stat().st_mtime)
    assert libraries, "no libpaceline_cpu.a in build/: run scripts/setup test"
    return libraries[-1].parent


def planted_extension(fault: str, folder: Path) -> Path:
    """The module _cpu, its product_32 compiled with the fault."""
    build, isa = newest_build(), _cpu.instruction_sets()[-1]
    (words,) = [
        words
        for entry in json.loads((build / "compile_commands.json").read_text())
        if Path(entry["file"]).match("native/cpu/product_32.cpp")
        and f"-DPACELINE_ISA={isa}" in (words := shlex.split(entry["command"]))
    ]
    product = folder / "product.o"
    words[words.index("-o") + 1] = str(product)
    subprocess.run([*words, f"-DPACELINE_PLANT_{fault}=1"], check=True, cwd=build)
    extension = folder / "_cpu.so"
    bindings = (build / "CMakeFiles" / "_cpu.dir" / "native" / "bindings").glob("*.o")
    # What the product defines is not taken from the library again.
    parts = [*bindings, product, build / "libpaceline_cpu.a"]
    subprocess.run([words[0], "-shared", "-fopenmp", "-o", extension, *parts], check=True)
    return extension


def run_on_planted(fault: str, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", RUN, str(planted_extension(fault, folder)), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_planted_change_of_order_is_caught(tmp_path: Path) -> None:
    bits = "tests/native/test_core.py::test_chunks_slots_and_company_change_no_bit"
    schedules = "tests/daemon/test_same_tokens.py::test_any_schedule_gives_the_bits_of_a_run_alone"
    result = run_on_planted("ORDER", tmp_path, bits, schedules, "-k", "Q4_1")
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"FAILED {bits}[Q4_1]" in result.stdout
    assert f"FAILED {schedules}[Q4_1-" in result.stdout


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_planted_second_unpacking_is_caught(tmp_path: Path) -> None:
    result = run_on_planted("UNPACK", tmp_path, "tests/native/test_core.py", "-k", "Q4_1 and (one_pass or chunks)")
    assert result.returncode == 1, result.stdout + result.stderr
    failed = {
        line.split()[1].split("::")[1].split("[")[0] for line in result.stdout.splitlines() if line.startswith("FAILED")
    }
    assert failed == {"test_one_pass_over_the_weights"}  # the bits are right, the bytes are not
