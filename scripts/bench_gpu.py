"""The CUDA core's speed: products alone and whole steps, beside the bandwidth of copies on the same device.

    python scripts/bench_gpu.py --json benchmarks/cuda_NAME.json           # on the machine's first GPU
    python scripts/bench_gpu.py --seconds 240 --llama-cpp llama_cpp_python-0.3.36.tar.gz
    python scripts/bench_gpu.py --models Qwen3-8B --formats Q4_K,Q8_0 --rows 1,8 --contexts 512 --no-products
    python scripts/bench_gpu.py --device emulator --tiny                   # that the script works, not how fast

Weights are random blocks that no file holds: 16 MiB of a matrix are packed and sent once, and copied. A product is
measured over several matrices of 32 MiB or more, 512 MiB in all, so that none is still in a cache when its turn comes
again. A step computes one token for each of so many rows, each with a context of its own, and feeds it to the next; its
milliseconds are those of the whole, from the rows to their tokens in Python, where the device begins the next step by
itself; `waiting_ms` are those where it waits for the host. `device_ms` is a step's graph alone, replayed back to back,
and host_ms what the whole takes more. Bytes are those of the weights once (of experts, as many as rows that choose at
random reach), of the cache of all rows, and of each recurrent state twice; `share` is bytes per second over those of a
copy, read and written, in the same run. A prompt is one step with all its tokens, from the row to the first token it
predicts. For a model or a number of rows without room or kernels, a line says so.

Peers decode the same shapes in the same run, at 1, 8 and 16 rows: transformers where it can be imported (bfloat16, a
static batch and its continuous batching: bench_gpu_peer), and llama.cpp where --llama-cpp names its sources (Q4_K and
Q8_0 of the dense model, and a prompt as long as the context: bench_gpu_llama). `ratios` are our tokens per second over
theirs: BF16 beside transformers, the same format beside llama.cpp.

With PyTorch, a line tells which kernels the time of some steps goes to (bench_gpu_kernels).

What matters most comes first (bench_gpu_order); after --seconds nothing new is begun, peers are stopped, and what is
missing is recorded with that reason. `at_s` is when a figure was ready, `making_s` how long its weights took before.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench_gpu_llama import LlamaCpp, program
from bench_gpu_measure import Clock, Device
from bench_gpu_models import MODELS
from bench_gpu_order import Plan
from bench_gpu_peer import numbers
from bench_gpu_table import line, ratio_line, ratios, table
from bench_gpu_worker import KNOWN, Worker
from paceline.native.machine import describe_machine

FORMATS = ("Q4_K", "Q8_0", "BF16", "NVFP4", "IQ2_XXS")
ROWS = (1, 2, 4, 8, 16, 32)
CONTEXTS = (512, 8192)
PROMPTS = (64, 128, 512)  # tokens, of one request
MOST_OF_A_COPY = 60.0  # seconds


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:<n> or emulator")
    parser.add_argument("--tiny", action="store_true", help="a tiny model and small matrices")
    parser.add_argument("--models", type=words, help=f"of {', '.join(MODELS)}; default: all that are not tiny")
    parser.add_argument("--formats", type=words, default=FORMATS)
    parser.add_argument("--rows", type=numbers, default=ROWS)
    parser.add_argument("--contexts", type=numbers, default=CONTEXTS)
    parser.add_argument("--prompts", type=numbers, default=PROMPTS, help="their tokens")
    parser.add_argument("--no-products", dest="products", action="store_false")
    parser.add_argument("--no-kernels", dest="kernels", action="store_false", help="not which take a step's time")
    parser.add_argument("--no-peer", dest="peer", action="store_false", help="not transformers")
    parser.add_argument("--llama-cpp", type=Path, help="a folder of it, or llama-cpp-python's .tar.gz")
    parser.add_argument("--build-seconds", type=float, default=600, help="of llama.cpp, before all others")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing new after so many")
    parser.add_argument("--json", type=Path)
    found = parser.parse_args()
    found.models = found.models or (("tiny",) if found.tiny else tuple(n for n in MODELS if not n.startswith("tiny")))
    for name in found.models:
        if name not in MODELS:
            parser.error(f"model {name!r}: expected of {', '.join(MODELS)}")
    return found


class Record:
    """The results as they come, printed and written."""

    def __init__(self, clock: Clock, path: Path | None, about: dict[str, Any]) -> None:
        self._clock, self._path = clock, path
        self.results: list[dict[str, Any]] = []
        self.about = about

    def add(self, found: dict[str, Any]) -> None:
        self.results.append(found | {"at_s": round(self._clock.spent(), 1)})
        print(line(found), flush=True)
        self.write()

    def write(self) -> None:
        if self._path:
            whole = self.about | {"results": self.results, "ratios": ratios(self.results)}
            self._path.write_text(json.dumps(whole, indent=1) + "\n")


def llama_cpp(chosen: argparse.Namespace) -> LlamaCpp | str | None:
    """The program; or why there is none, though it was asked for; or None if it was not."""
    if chosen.llama_cpp is None:
        return None
    try:
        return LlamaCpp(program(chosen.llama_cpp, chosen.device, chosen.build_seconds), chosen.device)
    except (ValueError, OSError) as error:
        return str(error)


def measure(plan: Plan, record: Record, clock: Clock) -> bool:
    """Whether every figure of ours that is possible was measured. A peer that fails only gets a line, as its faults are
    not ours."""
    good = True
    for work in plan.works():
        try:
            if clock.left() <= 0:
                raise TimeoutError(clock.over)
            for found in work.run():
                record.add(found)
        except KNOWN as reason:
            record.add(work.about | {"skipped": str(reason)})
        except Exception as error:
            good = good and work.about["kind"] == "peer"
            record.add(work.about | {"skipped": f"failed: {error!r}"})
    return good


def main() -> int:
    chosen = arguments()
    worker = Worker(Device(chosen.device, chosen.tiny))
    llama = llama_cpp(chosen)
    clock = Clock(chosen.seconds)
    (about,) = worker.run("roof", clock=Clock(MOST_OF_A_COPY))
    roof = about["copy_bytes_per_s"]
    record = Record(clock, chosen.json, about | {"machine": describe_machine(), "date": time.strftime("%Y-%m-%d")})
    print(f"{about['device']}: a copy moves {roof / 1e9:.1f} GB/s", flush=True)
    if isinstance(llama, str):
        record.add({"kind": "peer", "peer": "llama.cpp", "skipped": llama})
        llama = None
    asked = (chosen.models, chosen.formats, chosen.rows, chosen.contexts, chosen.prompts)
    plan = Plan(chosen.device, worker, *asked, roof, clock, chosen.products, chosen.peer, llama, chosen.kernels)
    try:
        good = measure(plan, record, clock)
        with suppress(*KNOWN, RuntimeError):
            (again,) = worker.run("roof", clock=Clock(MOST_OF_A_COPY))
            record.about["copy_bytes_per_s_after"] = again["copy_bytes_per_s"]  # clocks may have dropped
    finally:
        worker.close()
        if llama:
            llama.close()
    record.write()
    print("\n".join(["", *map(ratio_line, ratios(record.results)), "", *table(record.results)]), flush=True)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
