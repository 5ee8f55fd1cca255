"""Builds the CUDA core for the GPU at hand, tests it there, looks for misuse of memory, measures it. One command.

    scripts/gpu_check [--wheels DIR] [--model SMOLLM2.gguf] [--json FILE] [--device cuda:0]
    scripts/gpu_check --emulate             # the same on the emulated device, tiny: that this script works

It needs no network. On the machine: a C++20 compiler, CMake, ninja or make, nvcc of CUDA 13 on the PATH or in
CUDA_HOME; and in this Python (3.11 or newer, PYTHON=... names another): CuPy (cupy-cuda13x), pybind11 3, NumPy,
safetensors, msgpack, tqdm, gguf (with its PyYAML), pytest and hypothesis. Whatever of these is missing may lie as
wheels in --wheels DIR (pip download --no-deps -d DIR gguf); they are unpacked into the build folder, not installed.
PyTorch with transformers is measured beside it where it is there, compute-sanitizer is used where it is there; without
them a line says so.

Steps, each with its own time limit; one that fails does not keep the others from running, but for the build:
    build       native/_cpu, _emulator and _cuda for this GPU's architecture alone, in build/gpu_check
    hashes      integer products have the emulated device's bits
    tests       tests/native/test_cuda_*.py on the GPU, and the memory tests
    daemon      the greedy tokens of a model through `paceline daemon --device`; SmolLM2 where its file is at hand
    memcheck, racecheck   compute-sanitizer over a few of the tests
    bench       scripts/bench_gpu.py with the time that is left
The last lines are a table of what each gave; --json writes it with the bench's record. Exit status: 0 if all that could
run went well, 1 if something failed, 69 if the build did.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "gpu_check"
NEEDED = ("numpy", "pybind11", "gguf", "safetensors", "msgpack", "tqdm", "pytest", "hypothesis")
TESTS = ("test_cuda_schedules", "test_cuda_products", "test_cuda_core", "test_cuda_memory")
SANITIZED = (
    "tests/native/test_cuda_products.py::test_a_row_has_the_same_bits_in_any_company",
    "tests/native/test_cuda_core.py::test_a_step_has_the_bits_of_the_cpu",
)
QUICK = "Q8_0 or Q4_K or qwen3"


@dataclass
class Result:
    name: str
    state: str  # ok, failed, skipped
    seconds: float
    about: str


class Check:
    def __init__(self, chosen: argparse.Namespace) -> None:
        self.chosen = chosen
        self.begun = time.monotonic()
        self.results: list[Result] = []
        self.device = "emulator" if chosen.emulate else chosen.device
        site = BUILD / "site"
        paths = [str(BUILD / "packages"), str(ROOT / "scripts"), str(site), os.environ.get("PYTHONPATH", "")]
        self.env = os.environ | {
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            "PACELINE_TEST_DEVICE": self.device,
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def left(self) -> float:
        return 60 * self.chosen.minutes - (time.monotonic() - self.begun)

    def run(self, name: str, words: list[str], limit: float, keep: int = 12) -> bool:
        """One step; its output goes to build/gpu_check/NAME.log, and its end to the terminal where it failed."""
        print(f"== {name}: {' '.join(words)[:160]}", flush=True)
        begun, log = time.monotonic(), BUILD / f"{name}.log"
        try:
            with log.open("wb") as out:
                done = subprocess.run(
                    words,
                    cwd=ROOT,
                    env=self.env,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    timeout=max(1, limit),
                    check=False,
                )
            code = f"exit status {done.returncode}"
            good = done.returncode == 0
        except (subprocess.TimeoutExpired, OSError) as error:
            code, good = str(error)[-120:], False
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.exists() else []
        print("\n".join(line[:200] for line in lines[-(3 if good else keep) :]), flush=True)
        about = lines[-1][:100] if lines and good else f"{code}; {log.relative_to(ROOT)}"
        self.note(name, "ok" if good else "failed", about, begun)
        return good

    def note(self, name: str, state: str, about: str, begun: float | None = None) -> None:
        self.results.append(Result(name, state, time.monotonic() - begun if begun else 0.0, about))

    def python(self, *words: str) -> list[str]:
        return [sys.executable, *words]

    def prepare(self) -> str | None:
        """Wheels and the package's own folder; what is missing, or None."""
        shutil.rmtree(BUILD / "packages", ignore_errors=True)
        for folder in (BUILD / "packages", BUILD / "site", BUILD / "cmake"):
            folder.mkdir(parents=True, exist_ok=True)
        link = BUILD / "site" / "paceline"
        if not link.exists():
            link.symlink_to(ROOT, target_is_directory=True)
        wheels = sorted(self.chosen.wheels.glob("*.whl")) if self.chosen.wheels else []
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as packed:
                packed.extractall(BUILD / "packages")
        wanted = (*NEEDED, *(() if self.chosen.emulate else ("cupy",)))
        problems = []
        for name in wanted:
            words = self.python("-c", f"import {name}")
            tried = subprocess.run(words, env=self.env, capture_output=True, text=True, check=False)
            if tried.returncode:
                problems.append(f"{name} ({(tried.stderr.strip().splitlines() or ['?'])[-1]})")
        if problems:
            return (
                f"this Python cannot import {', '.join(problems)}; put wheels into a folder and name it: --wheels DIR"
            )
        if not self.chosen.emulate and self.nvcc() is None:
            return "there is no nvcc on the PATH, in CUDA_HOME or in /usr/local/cuda"
        return None

    def nvcc(self) -> str | None:
        homes = [os.environ.get("CUDA_HOME", "/nowhere"), "/usr/local/cuda"]
        found = [os.environ.get("NVCC"), shutil.which("nvcc"), *(f"{home}/bin/nvcc" for home in homes)]
        return next((path for path in found if path and Path(path).exists()), None)

    def capability(self) -> str:
        """Of the GPU at hand, as nvcc names it: 90a and newer have instructions of their own."""
        number = int(self.device.partition(":")[2] or 0)
        code = f"import cupy; print(cupy.cuda.Device({number}).compute_capability)"
        asked = subprocess.run(self.python("-c", code), env=self.env, capture_output=True, text=True, check=False)
        if asked.returncode:
            raise ValueError((asked.stderr.strip().splitlines() or ["CuPy finds no GPU"])[-1])
        capability = asked.stdout.strip()
        return capability + "a" * (capability == "90")

    def build(self) -> bool:
        code = "import pybind11; print(pybind11.get_cmake_dir())"
        pybind11 = subprocess.run(self.python("-c", code), env=self.env, capture_output=True, text=True, check=True)
        words = ["cmake", "-S", str(ROOT), "-B", str(BUILD / "cmake"), "-DPACELINE_EMULATE=ON"]
        words += [f"-Dpybind11_DIR={pybind11.stdout.strip()}", f"-DPython_EXECUTABLE={sys.executable}"]
        words += ["-GNinja"] if shutil.which("ninja") else []
        if not self.chosen.emulate:
            words += ["-DPACELINE_CUDA=ON", f"-DPACELINE_CUDA_ARCHITECTURES={self.capability()}-real"]
            words += [f"-DCMAKE_CUDA_COMPILER={self.nvcc()}"]
        if not self.run("configure", words, 120):
            return False
        if not self.run("build", ["cmake", "--build", str(BUILD / "cmake"), "--parallel"], 400):
            return False
        for module in (BUILD / "cmake").glob("_*.so"):
            fresh = ROOT / "native" / f".{module.name}.new"
            shutil.copy(module, fresh)
            fresh.replace(ROOT / "native" / module.name)
        return True

    def pytest(self, name: str, words: list[str], limit: float, before: tuple[str, ...] = ()) -> None:
        base = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore"]
        self.run(name, [*before, *self.python(*base, *words)], limit, keep=30)

    def sanitize(self) -> None:
        tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        for kind in ("memcheck", "racecheck"):
            if self.chosen.emulate or not Path(tool).exists():
                self.note(kind, "skipped", "an emulated device" if self.chosen.emulate else "no compute-sanitizer here")
            else:
                before = (tool, "--tool", kind, "--error-exitcode", "9", "--print-limit", "5")
                self.pytest(kind, [*SANITIZED, "-k", QUICK], min(75, self.left()), before)

    def bench(self) -> None:
        tiny = self.chosen.emulate
        words = ["scripts/bench_gpu.py", "--device", self.device, "--json", str(BUILD / "bench.json")]
        words += ["--tiny", "--rows", "1,3", "--contexts", "64", "--formats", "Q4_K,BF16"] if tiny else []
        words += ["--seconds", str(int(max(20, self.left() - 45)))]
        if self.run("bench", self.python(*words), max(60, self.left()), keep=40):
            print((BUILD / "bench.log").read_text(errors="replace"), flush=True)

    def table(self) -> None:
        print(f"\n{'step':12} {'result':8} {'seconds':>8}  about")
        for result in self.results:
            print(f"{result.name:12} {result.state:8} {result.seconds:8.1f}  {result.about}")

    def write(self) -> None:
        record = BUILD / "bench.json"
        bench = json.loads(record.read_text()) if record.exists() else None
        chosen: Path = self.chosen.json
        about = {"date": time.strftime("%Y-%m-%d"), "device": self.device, "bench": bench}
        about["steps"] = [asdict(one) for one in self.results]
        chosen.write_text(json.dumps(about, indent=1) + "\n")
        print(f"written: {chosen}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0", help="cuda:<n>")
    parser.add_argument("--model", nargs=1, default=[], help="for the daemon step (default: SmolLM2, or a tiny one)")
    parser.add_argument("--wheels", type=Path, help="a folder of wheels of what this Python lacks")
    parser.add_argument("--json", type=Path, default=BUILD / "gpu_check.json")
    parser.add_argument("--minutes", type=float, default=8.5, help="what the bench is shortened to (default 8.5)")
    parser.add_argument("--emulate", action="store_true", help="no GPU: the emulated device, and a short selection")
    parser.add_argument("--no-build", dest="build", action="store_false", help="what native/ has is tested")
    check = Check(parser.parse_args())
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "bench.json").unlink(missing_ok=True)
    try:
        problem = check.prepare()
        if problem is None and check.chosen.build and not check.build():
            problem = "the build failed"
    except (ValueError, subprocess.CalledProcessError, OSError) as error:
        problem = str(error)
    if problem is not None:
        print(f"gpu_check: {problem}", file=sys.stderr)
        check.note("build", "failed", problem)
        check.table()
        check.write()
        return 69
    short = check.chosen.emulate
    check.pytest("hashes", ["tests/native/test_cuda_schedules.py", "-k", "hash_to_the_emulators"], 120)
    files = [f"tests/native/{name}.py" for name in TESTS]
    files += [str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests/native").glob("test_cuda_*.py"))]
    quick = ["-k", "Q8_0 and (company or one_hash or greedy)"] if short else []
    check.pytest("tests", [*dict.fromkeys(files), *quick], 240)
    check.run("daemon", check.python("scripts/gpu_daemon.py", check.device, *check.chosen.model), 60)
    check.sanitize()
    check.bench()
    check.table()
    check.write()
    return int(any(result.state == "failed" for result in check.results))


if __name__ == "__main__":
    sys.exit(main())
