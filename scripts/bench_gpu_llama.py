"""llama.cpp beside scripts/bench_gpu.py: built for the GPU at hand, a file of the same shape, its llama-batched-bench.

That decodes a number of sequences at once, each after a prompt of its own of `context` random tokens; its tokens per
second are those of the TOKENS steps after the prompt, and of one sequence also those of the prompt. The file holds
random blocks in one format and no tokenizer; it is put into the folder that TMPDIR names, and one in memory (/dev/shm)
is faster than most disks.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
from bench_gpu_child import json_lines, with_missing
from bench_gpu_models import MODELS
from make_shaped_model import add_metadata, add_tensor_infos, contents, tensor_bytes, tensors

BUILDS = Path(__file__).resolve().parent.parent / "build" / "llama.cpp"
PROGRAM = "llama-batched-bench"
OFF = ("BUILD_SHARED_LIBS", "LLAMA_OPENSSL", "LLAMA_USE_PREBUILT_UI", "GGML_CUDA_NCCL")
OFF += tuple(f"LLAMA_BUILD_{part}" for part in ("TESTS", "EXAMPLES", "APP", "SERVER", "UI"))
FORMATS = ("Q4_K", "Q8_0")
ARCHITECTURES = ("qwen3",)  # those whose metadata make_shaped_model writes completely
TOKENS = 64
SPARE = 2 << 30  # bytes of the disk that must stay free


def sources_of(given: Path) -> Path:
    """The folder of its sources: `given`, or the copy in llama-cpp-python's archive, unpacked into build/."""
    if not given.is_file():
        found = [folder for folder in (given, given / "vendor" / "llama.cpp") if (folder / "ggml").is_dir()]
        if not found:
            raise ValueError(f"{given}: expected a folder of llama.cpp's sources, or llama-cpp-python's .tar.gz")
        return found[0].resolve()
    unpacked = BUILDS / given.name.removesuffix(".tar.gz")
    if not unpacked.is_dir():
        with tarfile.open(given) as archive, tempfile.TemporaryDirectory(dir=unpacked.parent) as fresh:
            inside = [one for one in archive if "/vendor/llama.cpp/" in one.name]
            if not inside:
                raise ValueError(f"{given}: there is no vendor/llama.cpp in it")
            archive.extractall(fresh, members=inside, filter="data")
            (top,) = Path(fresh).iterdir()
            (top / "vendor" / "llama.cpp").rename(unpacked)
    return unpacked


def capability(device: str) -> str:
    """Of cuda:<n>, without a point: "90"."""
    import cupy

    return str(cupy.cuda.Device(int(device.partition(":")[2] or 0)).compute_capability)


def build_words(sources: Path, folder: Path, architecture: str) -> list[list[str]]:
    """Builds only that program, only for this machine's processor and GPU; without `architecture` for the processor
    alone."""
    configure = ["cmake", "-S", str(sources), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON"]
    configure += [f"-D{name}=OFF" for name in OFF]
    configure += ["-GNinja"] if shutil.which("ninja") and not (folder / "CMakeCache.txt").exists() else []
    if architecture:
        configure += ["-DGGML_CUDA=ON", f"-DCMAKE_CUDA_ARCHITECTURES={architecture}-real"]
        homes = [os.environ.get("CUDA_HOME", "/nowhere"), "/usr/local/cuda"]
        compilers = [shutil.which("nvcc"), *(f"{home}/bin/nvcc" for home in homes)]
        there = [path for path in compilers if path and Path(path).exists()]
        configure += [f"-DCMAKE_CUDA_COMPILER={path}" for path in there[:1]]
    jobs = os.environ.get("JOBS", str(os.cpu_count()))
    return [configure, ["cmake", "--build", str(folder), "--target", PROGRAM, "--parallel", jobs]]


def program(given: Path, device: str, limit: float) -> Path:
    """Its llama-batched-bench: one that is in `given` or in its bin/, or is built within `limit` seconds.

    A build that was stopped is continued the next time. ValueError says why there is none.
    """
    for folder in (given, given / "bin", given / "build" / "bin"):
        if (folder / PROGRAM).is_file():
            return (folder / PROGRAM).resolve()
    BUILDS.mkdir(parents=True, exist_ok=True)
    sources = sources_of(given)
    architecture, begun = "" if device == "emulator" else capability(device), time.monotonic()
    folder = BUILDS / f"{sources.name}-{architecture or 'cpu'}"
    log = BUILDS / "build.log"
    with log.open("w") as out:
        for words in build_words(sources, folder, architecture):
            try:
                made = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
            except OSError as error:
                raise ValueError(f"it cannot be built: {error}") from None
            try:
                code = made.wait(max(1, limit - (time.monotonic() - begun)))
            except subprocess.TimeoutExpired:
                raise ValueError(
                    f"its build was stopped after {limit:.0f} seconds; another goes on from there"
                ) from None
            finally:
                stop(made)
            if code:
                raise ValueError(f"its build failed: exit status {code}; {log}")
    return folder / "bin" / PROGRAM


def stop(build: subprocess.Popen[bytes]) -> None:
    """Ends a build that is still running, and its compilers: ninja runs them in process groups of their own and passes
    the signal on."""
    if build.poll() is None:
        os.killpg(build.pid, signal.SIGTERM)
        try:
            build.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(build.pid, signal.SIGKILL)
            build.wait()


class LlamaCpp:
    """The program, and the files that it reads, in a folder that close() removes."""

    def __init__(self, program: Path, device: str) -> None:
        self._program, self._device = program, device
        self._folder = tempfile.TemporaryDirectory(prefix="bench_gpu.")

    def close(self) -> None:
        self._folder.cleanup()

    def file(self, model: str, kind: str) -> Path:
        """Written when it is first asked for. MemoryError where the disk has no room."""
        shape = MODELS[model]
        path = Path(self._folder.name) / f"{model}.{kind}.gguf".replace(" ", "-")
        if path.exists():
            return path
        size = sum(tensor_bytes(rows, columns, own) for _, rows, columns, own in tensors(shape, kind))
        free = shutil.disk_usage(self._folder.name).free
        if free < size + SPARE:
            raise MemoryError(
                f"{self._folder.name} has {free / 1e9:.1f} GB free, and the file takes {size / 1e9:.1f}; "
                "TMPDIR names another folder"
            )
        fresh = path.with_suffix(".part")
        writer = gguf.GGUFWriter(fresh, shape.architecture)
        add_metadata(writer, shape, model)
        writer.add_tokenizer_model("none")
        add_tensor_infos(writer, shape, kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for tensor in tensors(shape, kind):
            writer.write_tensor_data(contents(*tensor))
        writer.close()
        return fresh.rename(path)

    def steps(
        self, model: str, kind: str, rows: tuple[int, ...], context: int, limit: float, over: str
    ) -> Iterator[dict[str, Any]]:
        """Seconds per step for each number of rows at one context, and of one row's prompt as long, within `limit`
        seconds for all."""
        begun = time.monotonic()
        path = self.file(model, kind)
        making = time.monotonic() - begun
        words = [str(self._program), "-m", str(path), "--output-format", "jsonl", "-npp", str(context)]
        words += ["-ntg", str(TOKENS), "-c", str(max(rows) * (context + TOKENS))]
        numbers = (rows[0], *rows, rows[0])  # the first warms up, and the last one's line can get lost as it ends
        words += ["-npl", ",".join(map(str, numbers))]
        if self._device != "emulator":
            words += ["-ngl", "999", "-sm", "none", "-mg", self._device.partition(":")[2] or "0"]
        about = {"kind": "peer", "peer": "llama.cpp", "model": model, "format": kind, "context": context}
        expected = [about | {"rows": number} for number in rows]
        lines = self._figures(words, about | {"making_s": making}, len(rows), max(1, limit - making))
        yield from with_missing(lines, expected, over)

    def _figures(self, words: list[str], about: dict[str, Any], count: int, limit: float) -> Iterator[dict[str, Any]]:
        for number, found in enumerate(json_lines(words, limit)):
            if 1 <= number <= count:
                seconds, rows = found["t_tg"] / found["tg"], found["pl"]
                yield about | {"rows": rows, "ms": 1e3 * seconds, "tokens_per_s": rows / seconds}
                if rows == 1:
                    prompt = {"rows": 1, "context": 0, "tokens": found["pp"]}
                    speed = {"ms": 1e3 * found["t_pp"], "tokens_per_s": found["pp"] / found["t_pp"]}
                    yield about | prompt | speed
