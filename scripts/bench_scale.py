"""A model of 8B's size: seconds to load, peak memory over weights and cache, milliseconds a step against used context.

    python scripts/bench_scale.py [--file 8b.gguf] [--short-file 8b-4-layers.gguf] [--threads N] [--json FILE]

Files that aren't given are made (random blocks of Q4_K in the shape of Qwen3-8B, 4.6 GB) and deleted again. Each run
has a process of its own, so that its peak memory is its own. The whole model decodes at 64 and 512 used positions.
Longer contexts are for a file of the same shape with 4 of its 36 layers, since a prefill of 4096 tokens through all of
them takes minutes, at two values of --max-ctx: a step's time follows what is used, not what is allowed. Those two are
measured minutes apart, and differ as far as the machine's speed changes meanwhile (8 % in the record).

A step's time is the least of 16, the lengths in turn, so that a machine that slows down does so for each length. Peak
memory is VmHWM: the most that was ever resident, mapped files included. Of the cache, the pages in use are counted. A
file that is not in the page cache loads as fast as its disk reads.
"""

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from array import array
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from paceline.daemon.plan import Row
from paceline.native.core import PAGE, Core, open_core
from paceline.native.machine import describe_machine, usable_cores

ROUNDS = 16
CHUNK = 256
LAYERS = 4
SHORT = (64, 512)
LONG = (64, 512, 2048, 4096)
MAX_CONTEXTS = (4096, 32768)


@dataclass(frozen=True, slots=True)
class Run:
    file: Path
    max_context: int
    used: tuple[int, ...]  # positions, ascending
    threads: int | None = None


def peak_bytes() -> int:
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def advance(core: Core, ids: list[int], begin: int, end: int, table: "array[int]", outputs: int) -> None:
    core.step([Row(0, 0, 0, ids[begin:end], begin, outputs, None, end, table, False)])
    core.commit(0, end)


def measure(run: Run) -> dict[str, Any]:
    """Opens the file, fills the longest of the used contexts, and decodes one token at the end of each, in turns."""
    begun = time.perf_counter()
    core = open_core(run.file, slots=1, context=run.max_context, threads=run.threads, progress=True)
    seconds = time.perf_counter() - begun
    longest = run.used[-1]
    ids = np.random.RandomState(1).randint(0, core.vocab, longest).tolist()
    table = array("i", range(-(-run.max_context // PAGE)))
    for begin in range(0, longest, CHUNK):
        advance(core, ids, begin, min(begin + CHUNK, longest), table, 0)
    times: dict[int, list[float]] = {used: [] for used in run.used}
    for _ in range(ROUNDS):
        for used in run.used:
            core.seat(0, ids[: used - 1], None)
            begun = time.perf_counter()
            advance(core, ids, used - 1, used, table, 1)
            times[used].append((time.perf_counter() - begun) * 1e3)
    milliseconds = {used: round(min(taken), 2) for used, taken in times.items()}
    weights: int = core.stepper.loaded_bytes
    cache = -(-longest // PAGE) * core.page_bytes
    peak = peak_bytes()
    return {
        "max_context": run.max_context,
        "device": core.device,
        "file_bytes": run.file.stat().st_size,
        "load_seconds": round(seconds, 2),
        "weight_bytes": weights,
        "cache_bytes": cache,
        "peak_bytes": peak,
        "peak_over_weights_and_cache": round(peak / (weights + cache), 3),
        "step_ms": milliseconds,
    }


def alone(run: Run) -> dict[str, Any]:
    """`measure` in a new process; prints what it found."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        result = pool.submit(measure, run).result()
    steps = ", ".join(f"{used}: {ms}" for used, ms in result["step_ms"].items())
    print(
        f"max context {run.max_context}: loaded in {result['load_seconds']} s, peak memory"
        f" {result['peak_over_weights_and_cache']} of weights and cache, ms a step at used context {steps}",
        flush=True,
    )
    return result


def made(path: Path | None, folder: str, layers: int | None) -> Path:
    if path is not None:
        return path
    out = Path(folder) / f"8b-{layers or 'all'}.gguf"
    flags = [] if layers is None else [f"--layers={layers}"]
    subprocess.run([sys.executable, Path(__file__).with_name("make_shaped_model.py"), "8b", out, *flags], check=True)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path)
    parser.add_argument("--short-file", type=Path, help="the same shape with 4 layers")
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        whole = made(arguments.file, folder, None)
        record = {
            "benchmark": "bench_scale",
            "date": time.strftime("%Y-%m-%d"),
            "machine": describe_machine(),
            "whole": alone(Run(whole, MAX_CONTEXTS[0], SHORT, arguments.threads)),
        }
        short = made(arguments.short_file, folder, LAYERS)
        long = [alone(Run(short, context, LONG, arguments.threads)) for context in MAX_CONTEXTS]
    for result in long:
        slope, fixed = np.polyfit(list(result["step_ms"]), list(result["step_ms"].values()), 1)
        result["fit_ms"] = {"fixed": round(float(fixed), 2), "per_1000_positions": round(float(slope) * 1000, 3)}
    record[f"{LAYERS}_layers"] = long
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
