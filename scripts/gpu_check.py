"""Builds the CUDA core for the GPU at hand, tests it there, looks for misuse of memory, measures it. One command.

    scripts/gpu_check [--wheels DIR] [--model SMOLLM2.gguf] [--json FILE] [--device cuda:0]
    scripts/gpu_check --emulate             # the same on the emulated device, tiny: that this script works

It needs no network. On the machine: a C++20 compiler, CMake, ninja or make, nvcc of CUDA 13 on the PATH or in
CUDA_HOME; and in this Python (3.11 or newer, PYTHON=... names another): CuPy (cupy-cuda13x), pybind11 3, NumPy,
safetensors, msgpack, tqdm, gguf, PyYAML, pytest and hypothesis; pytest-timeout too, or a test that hangs costs the
others of its file. What is missing can be given as wheels in --wheels DIR; those that fit this Python are unpacked into
the build folder, ahead of what is installed; beside PyTorch and CuPy often only gguf is missing. All but CuPy and
NumPy, for a Python 3.12, are 5 MB:
    pip download --no-deps --only-binary=:all: --python-version 3.12 --platform manylinux_2_28_x86_64
        --platform manylinux2014_x86_64 --platform manylinux1_x86_64 -d DIR gguf pyyaml 'pybind11>=3' safetensors
        msgpack tqdm hypothesis sortedcontainers attrs pytest pluggy iniconfig packaging pygments pytest-timeout
PyTorch with transformers, and compute-sanitizer, are used if they are installed; otherwise a line says so.

Steps; the others run even if one fails, unless it is the build. After the build all but the benchmark run side by
side, each with processors of its own (--jobs), and what would leave the benchmark no time is stopped:
    build       native/_cpu, _emulator and _cuda for this GPU's architecture alone, in build/gpu_check
    hashes      integer products have the emulated device's bits
    products, core, ...   tests/native/test_cuda_*.py on the GPU; one that loses the device is named, and the others go
                on in a new process
    daemon      the greedy tokens of a model through `paceline daemon --device`; SmolLM2 where its file is at hand
    memcheck, racecheck   compute-sanitizer over a few of the tests; ok is a summary of no error and no hazard
    bench       scripts/bench_gpu.py alone, with the time that is left
The last lines are a table. --json gets it too, with the benchmark's results, after every step and every few seconds.
Exit status: 0 if all that could run went well, 1 if something failed, 69 if the build did.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from math import inf
from pathlib import Path

from gpu_here import asked, check_packages, describe_gpu, describe_tools, find_nvcc, find_sanitizer, read_gpu, unpack
from gpu_jobs import ROOT, Job, Result, run_jobs

BUILD = ROOT / "build" / "gpu_check"
NEEDED = ("numpy", "pybind11", "gguf", "safetensors", "msgpack", "tqdm", "pytest", "hypothesis")
FIRST = ("core", "products", "schedules")
SANITIZED = (
    "tests/native/test_cuda_products.py::test_a_row_has_the_same_bits_in_any_company",
    "tests/native/test_cuda_core.py::test_a_step_has_the_bits_of_the_cpu",
)
QUICK = "Q8_0 or Q4_K or BF16 or qwen3"
BENCH_SECONDS = 150  # left for it by the tests, if they need all their time
TEST_SECONDS = 60


class Check:
    def __init__(self, chosen: argparse.Namespace) -> None:
        self.chosen = chosen
        self.begun = time.monotonic()
        self.results: list[Result] = []
        self.about: dict[str, object] = {}
        self.device = "emulator" if chosen.emulate else chosen.device
        self.architecture, self.at_once = "", chosen.jobs
        self.bench_record, self.bench_found = BUILD / "bench.json", None
        tools = str(Path(sys.executable).parent)  # a virtual environment's cmake and ninja
        paths = [str(BUILD / "packages"), str(ROOT / "scripts"), str(BUILD / "site"), os.environ.get("PYTHONPATH", "")]
        self.env = os.environ | {
            "PATH": os.pathsep.join((tools, os.environ.get("PATH", os.defpath))),
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            "PACELINE_TEST_DEVICE": self.device,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }

    def left(self) -> float:
        return 60 * self.chosen.minutes - (time.monotonic() - self.begun)

    def job(self, name: str, words: list[str], limit: float, tests: bool = False, summary: str = "") -> Job:
        return Job(name, words, BUILD / f"{name}.log", max(1, min(limit, self.left())), tests, summary)

    def run(self, jobs: list[Job], at_once: int = 1, seconds: float = inf) -> bool:
        """Runs jobs; whether all went well. Their output is in build/gpu_check/NAME.log, and its end is shown if one
        failed."""
        for job in jobs:
            print(f"== {job.name}: {' '.join(job.words)[:200]}", flush=True)
        before = len(self.results)
        run_jobs(jobs, at_once, self.env, self.ended, self.write, time.monotonic() + seconds)
        return all(result.state == "ok" for result in self.results[before:])

    def ended(self, job: Job) -> None:
        result = job.result()
        print(f"-- {result.name}: {result.state}, {result.seconds:.1f} s, {result.about}", flush=True)
        if result.state == "failed":
            print("\n".join(line[:200] for line in job.lines()[-40:]), flush=True)
        self.note(result)

    def note(self, result: Result) -> None:
        self.results.append(result)
        self.write()

    def prepare(self) -> None:
        """Prepares wheels and the package's own folder; ValueError says what is missing."""
        shutil.rmtree(BUILD / "packages", ignore_errors=True)
        for folder in (BUILD / "packages", BUILD / "site", BUILD / "cmake"):
            folder.mkdir(parents=True, exist_ok=True)
        link = BUILD / "site" / "paceline"
        if not link.is_symlink():
            link.symlink_to(ROOT, target_is_directory=True)
        for name in unpack(self.chosen.wheels, BUILD / "packages") if self.chosen.wheels else []:
            print(f"{name} is not for this Python {sys.version_info.major}.{sys.version_info.minor}")
        check_packages(self.env, NEEDED if self.chosen.emulate else (*NEEDED, "cupy"))
        if not self.chosen.emulate:
            self.architecture, self.at_once = read_gpu(self.env, self.device)
            self.about["tools"] = describe_tools(self.env)
            self.about["before"] = describe_gpu(self.env, self.device)

    def build(self) -> None:
        """ValueError where it fails."""
        folder = asked(self.env, "import pybind11; print(pybind11.get_cmake_dir())")
        words = ["cmake", "-S", str(ROOT), "-B", str(BUILD / "cmake"), "-DPACELINE_EMULATE=ON"]
        words += [f"-Dpybind11_DIR={folder}", f"-DPython_EXECUTABLE={sys.executable}"]
        words += ["-GNinja"] if shutil.which("ninja", path=self.env["PATH"]) else []
        if not self.chosen.emulate:
            words += ["-DPACELINE_CUDA=ON", f"-DPACELINE_CUDA_ARCHITECTURES={self.architecture}"]
            words += [f"-DCMAKE_CUDA_COMPILER={find_nvcc()}"]
        together = str(len(os.sched_getaffinity(0)))
        making = ["cmake", "--build", str(BUILD / "cmake"), "--parallel", together]
        if not self.run([self.job("configure", words, 120)]) or not self.run([self.job("build", making, 400)]):
            raise ValueError("the build failed")
        for module in (BUILD / "cmake").glob("_*.so"):
            fresh = ROOT / "native" / f".{module.name}.new"
            shutil.copy(module, fresh)
            fresh.replace(ROOT / "native" / module.name)

    def tests(self, name: str, words: list[str], limit: float, before: tuple[str, ...] = (), summary: str = "") -> Job:
        # Timeouts by a thread, which end the process: one that waits for a kernel does not react to a signal.
        each = 300 if self.chosen.emulate else limit if before else TEST_SECONDS
        base = ["-m", "pytest", "-q", "-p", "gpu_plugin", "-p", "no:cacheprovider", "-W", "ignore"]
        base += [f"--basetemp={BUILD / name}.tmp", "-o", f"timeout={each:.0f}", "-o", "timeout_method=thread", *words]
        return self.job(name, [*before, sys.executable, *base], limit, tests=True, summary=summary)

    def jobs(self, limit: float) -> list[Job]:
        """Everything but the build and the benchmark: the most informative first, then the longest."""
        quick = ["-k", "Q8_0 and (company or one_hash or greedy)"] if self.chosen.emulate else []
        paths = sorted((ROOT / "tests" / "native").glob("test_cuda_*.py"))
        names = {path.stem.removeprefix("test_cuda_"): str(path.relative_to(ROOT)) for path in paths}
        if self.chosen.emulate:
            names = {name: names[name] for name in ("products", "schedules")}
        found = []
        if not self.chosen.emulate:
            found.append(self.tests("hashes", [names["schedules"], "-k", "hash_to_the_emulators"], limit))
        daemon = [sys.executable, "scripts/gpu_daemon.py", self.device, *self.chosen.model]
        found.append(self.job("daemon", daemon, min(120, limit)))
        found += self.sanitizers(limit)
        order = sorted(names, key=lambda name: (name not in FIRST, name))
        found += [self.tests(name, [names[name], *quick], limit) for name in order]
        return found

    def sanitizers(self, limit: float) -> list[Job]:
        tool = "" if self.chosen.emulate else find_sanitizer()
        found = []
        for kind, summary in (("memcheck", "ERROR SUMMARY:"), ("racecheck", "RACECHECK SUMMARY:")):
            if not tool:
                why = "an emulated device" if self.chosen.emulate else "no compute-sanitizer here"
                self.note(Result(kind, "skipped", 0.0, why))
                continue
            # A call that fails is reported by its caller; the tool is asked for memory errors only. Its summary is
            # checked, because warnings do not change the exit status.
            before = ("env", "PACELINE_CUDA_PIECES=1", tool, "--tool", kind, "--error-exitcode", "9")
            before += ("--print-limit", "5", "--report-api-errors", "no", "--target-processes", "application-only")
            before += ("--launch-timeout", "300")  # seconds until the first CUDA call: 10 are few for Python and pytest
            found.append(self.tests(kind, [*SANITIZED, "-k", QUICK], limit, before, summary))
        return found

    def bench(self) -> None:
        tiny = self.chosen.emulate
        words = [sys.executable, "scripts/bench_gpu.py", "--device", self.device, "--json", str(self.bench_record)]
        words += ["--tiny", "--rows", "1,3", "--contexts", "64", "--formats", "Q4_K,BF16"] if tiny else []
        words += ["--seconds", str(int(max(20, self.left() - 45)))]
        job = self.job("bench", words, max(60, self.left()))
        good = self.run([job])
        self.about["after"] = {} if tiny else describe_gpu(self.env, self.device)
        self.write()
        if good:
            print("\n".join(job.lines()), flush=True)

    def table(self) -> None:
        print(f"\n{'step':12} {'result':8} {'seconds':>8}  about")
        for result in self.results:
            print(f"{result.name:12} {result.state:8} {result.seconds:8.1f}  {result.about}")
            print("".join(f"    {test}\n" for test in result.failures[:9]), end="")

    def write(self) -> None:
        with suppress(OSError, ValueError):  # missing, or just being written
            self.bench_found = json.loads(self.bench_record.read_text())
        steps = [asdict(one) for one in self.results]
        about = {"date": time.strftime("%Y-%m-%d"), "device": self.device} | self.about
        about |= {"bench": self.bench_found, "steps": steps}
        fresh = self.chosen.json.with_suffix(".new")
        fresh.write_text(json.dumps(about, indent=1) + "\n")
        fresh.replace(self.chosen.json)  # so there is a complete one at any time


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0", help="cuda:<n>")
    parser.add_argument("--model", nargs=1, default=[], help="for the daemon step (default: SmolLM2, or a tiny one)")
    parser.add_argument("--wheels", type=Path, help="a folder of wheels of what this Python lacks")
    parser.add_argument("--json", type=Path, default=BUILD / "gpu_check.json")
    parser.add_argument("--minutes", type=float, default=8.5, help="what the bench is shortened to (default 8.5)")
    parser.add_argument("--emulate", action="store_true", help="no GPU: the emulated device, and a short selection")
    parser.add_argument("--no-build", dest="build", action="store_false", help="what native/ has is tested")
    parser.add_argument("--jobs", type=int, default=6, help="steps at once (default 6); 1 where a GPU has one owner")
    check = Check(parser.parse_args())
    BUILD.mkdir(parents=True, exist_ok=True)
    check.bench_record.unlink(missing_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        check.prepare()
        if check.chosen.build:
            check.build()
    except (ValueError, subprocess.SubprocessError, OSError) as problem:
        print(f"gpu_check: {problem}", file=sys.stderr)
        check.note(Result("prepare", "failed", 0.0, str(problem)))
        check.table()
        return 69
    seconds = max(60.0, check.left() - BENCH_SECONDS)
    check.run(check.jobs(seconds), min(check.at_once, check.chosen.jobs), seconds)
    check.bench()
    check.table()
    print(f"written: {check.chosen.json}")
    return int(any(result.state == "failed" for result in check.results))


if __name__ == "__main__":
    sys.exit(main())
