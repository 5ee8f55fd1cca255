"""What scripts/gpu_check.py has to know of the machine (no command of its own). ValueError says what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

JOB_BYTES = 6 << 30  # device memory for the tests of one process


def asked(env: Mapping[str, str], code: str) -> str:
    """What a line of code prints in this Python; ValueError with its last error line if it fails."""
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=180)
    if done.returncode:
        raise ValueError((done.stderr.strip().splitlines() or ["?"])[-1])
    return done.stdout.strip()


def check_packages(env: Mapping[str, str], names: Sequence[str]) -> None:
    problems = []
    for name in names:
        try:
            asked(env, f"import {name}")
        except ValueError as error:
            problems.append(f"{name} ({error})")
    if problems:
        raise ValueError(f"this Python cannot import {', '.join(problems)}; --wheels DIR may bring it")
    found = asked(env, "import pybind11; print(pybind11.__version__)")
    if int(found.partition(".")[0]) < 3:
        raise ValueError(f"pybind11 {found} is installed, expected at least 3; --wheels DIR may bring it")


def find_nvcc() -> str:
    found = _find_tool("nvcc", os.environ.get("NVCC"))
    if not found:
        raise ValueError("there is no nvcc on the PATH, in CUDA_HOME or in /usr/local/cuda")
    return found


def find_sanitizer() -> str:
    """compute-sanitizer, empty where there is none."""
    nvcc = _find_tool("nvcc", os.environ.get("NVCC"))
    return _find_tool("compute-sanitizer", nvcc and str(Path(nvcc).with_name("compute-sanitizer")))


def _find_tool(name: str, first: str | None) -> str:
    homes = [os.environ.get("CUDA_HOME", "/nowhere"), "/usr/local/cuda"]
    found = [first, shutil.which(name), *(f"{home}/bin/{name}" for home in homes)]
    return next((path for path in found if path and Path(path).exists()), "")


def read_gpu(env: Mapping[str, str], device: str) -> tuple[str, int]:
    """Its capability as nvcc names it, and for how many test processes it has room."""
    number = int(device.partition(":")[2] or 0)
    code = f"import cupy; own = cupy.cuda.Device({number}); print(own.compute_capability, own.mem_info[0])"
    capability, free = asked(env, code).split()
    return capability + "a" * (capability == "90"), max(1, int(free) // JOB_BYTES)  # 9.0 has features that need the "a"


def describe_gpu(env: Mapping[str, str], device: str) -> dict[str, str]:
    """What nvidia-smi says of it at this moment, its clocks among them; empty without nvidia-smi."""
    names = ("name", "driver_version", "clocks.sm", "clocks.max.sm", "clocks.mem", "power.draw", "temperature.gpu")
    words = ["nvidia-smi", f"--id={int(device.partition(':')[2] or 0)}", f"--query-gpu={','.join(names)}"]
    line = _line_of(env, [*words, "--format=csv,noheader"])
    return dict(zip(names, line.split(", "), strict=False)) if line else {}


def describe_tools(env: Mapping[str, str]) -> dict[str, str]:
    """Versions of what builds and runs the kernels, and the variables that change how."""
    code = "import cupy, numpy, sys; print(cupy.__version__, cupy.cuda.runtime.runtimeGetVersion(), numpy.__version__)"
    cupy, runtime, numpy = asked(env, code).split()
    found = {"cupy": cupy, "cuda_runtime": runtime, "numpy": numpy, "python": sys.version.split()[0]}
    found |= {
        "nvcc": _line_of(env, [_find_tool("nvcc", env.get("NVCC")), "--version"]),
        "commit": _line_of(env, ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]),
    }
    return found | {name: value for name, value in env.items() if name.startswith("PACELINE_CUDA")}


def _line_of(env: Mapping[str, str], words: Sequence[str]) -> str:
    """The last line that a command prints; empty if it fails."""
    try:
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return ""
    return (done.stdout.strip().splitlines() or [""])[-1]


def unpack(wheels: Path, folder: Path) -> list[str]:
    """Unpacks those of `wheels` that this Python can import into `folder`; returns the names of the others."""
    others = []
    for wheel in sorted(wheels.glob("*.whl")):
        if fits(wheel.stem):
            with zipfile.ZipFile(wheel) as packed:
                packed.extractall(folder)
        else:
            others.append(wheel.name)
    return others


def fits(stem: str) -> bool:
    """stem: name-version-python-abi-platform, as a wheel is called."""
    *_, python, abi, _ = ("", "", *stem.split("-"))
    own = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return abi in ("none", "abi3") or (abi == own and own in python.split("."))
