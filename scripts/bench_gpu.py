"""The CUDA core's speed: products alone and whole steps, beside the bandwidth of copies on the same device.

    python scripts/bench_gpu.py --json benchmarks/cuda_NAME.json           # on the machine's first GPU; about 4 minutes
    python scripts/bench_gpu.py --models Qwen3-8B --formats Q4_K,Q8_0 --rows 1,8 --contexts 512 --no-products
    python scripts/bench_gpu.py --device emulator --tiny                   # that the script works, not how fast

Weights are random blocks that no file holds: 16 MiB of a matrix are packed and sent again and again. A product goes
over matrices of 32 MiB or more, several of them, 512 MiB in all, so that none is in a cache when its turn comes again.
A step is one token of each of so many rows, each with a context of its own; its milliseconds are the whole of it, from
the rows to their tokens in Python; `device_ms` is its graph alone, replayed back to back, and host_ms what is between
the two. Bytes are those of the weights once, of the cache of all rows, and of each recurrent state twice; `share` is
bytes per second over those of a copy, read and written, in the same run. `transformers` decodes beside it where it can
be imported: bfloat16, the same shape, a batch of equal contexts. A model or a number of rows that has no room or no
kernels is a line that says so.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bench_gpu_models import MODELS, Blocks, synthetic
from bench_gpu_peer import transformers_steps
from paceline.daemon.plan import Row
from paceline.native.core import PAGE
from paceline.native.device_memory import EmulatedMemory
from paceline.native.machine import describe_machine
from paceline.native.open_device import open_gpu

FORMATS = ("Q4_K", "Q8_0", "BF16", "NVFP4", "IQ2_XXS")
ROWS = (1, 2, 4, 8, 16, 32)
CONTEXTS = (512, 8192)
PEER_ROWS = (1, 8, 16)
COLUMNS = 4096  # of an isolated product
SHARE = 0.94  # of the free memory


class Device:
    """Where everything runs, and how large things are there."""

    def __init__(self, kind: str, tiny: bool) -> None:
        self.kind = kind
        self.matrix_bytes, self.sweep_bytes, self.copy_bytes = (
            (1 << 14, 1 << 16, 1 << 20) if tiny else (32 << 20, 512 << 20, 2 << 30)
        )
        self.columns = 512 if tiny else COLUMNS
        self.seconds = 0.02 if tiny else 0.3

    def open(self, shape: Any = None) -> tuple[Any, Any]:
        if self.kind == "emulator":
            from paceline.native import _emulator

            return _emulator, EmulatedMemory()
        return open_gpu(self.kind, lambda free: int(SHARE * free))


def timed(run: Callable[[], None], wait: Callable[[], Any], seconds: float) -> float:
    """Seconds of one run() among as many as take `seconds`, waited for at their end; the median of 5 such."""
    for _ in range(3):  # launched, captured, replayed
        run()
    wait()
    begun = time.perf_counter()
    run()
    wait()
    count = max(1, int(seconds / 5 / max(1e-6, time.perf_counter() - begun)))
    found = []
    for _ in range(5):
        begun = time.perf_counter()
        for _ in range(count):
            run()
        wait()
        found.append((time.perf_counter() - begun) / count)
    return statistics.median(found)


def copy_bandwidth(device: Device) -> float:
    """Bytes read and written per second."""
    _, memory = device.open()
    size = device.copy_bytes
    source, target = memory.allocate(size), memory.allocate(size)
    seconds = timed(lambda: memory.copy(source, target, size), lambda: memory.fetch([]), device.seconds)
    return 2 * size / seconds


def products(device: Device, kind: str, rows: tuple[int, ...], roof: float) -> Iterator[dict[str, Any]]:
    native, memory = device.open()
    columns = device.columns
    blocks = Blocks(kind, columns)
    outputs = -(-device.matrix_bytes // blocks.of(128, columns).size) * 128
    data = blocks.of(outputs, columns)
    count = max(2, device.sweep_bytes // data.size)
    probes = [native.ProductProbe(kind, outputs, columns, data, memory, most_columns=max(rows)) for _ in range(count)]
    inputs = np.random.RandomState(1).standard_normal((max(rows), columns)).astype(np.float32)
    x, out = memory.allocate(inputs.nbytes), memory.allocate(4 * max(rows) * probes[0].out_stride)
    memory.upload(x, inputs)
    for number in rows:
        for probe in probes:
            probe.quantize(x, number, memory.stream)

        def multiply(stream: int, number: int = number) -> None:
            for probe in probes:
                probe.multiply(number, out, stream)

        seconds = timed(lambda m=multiply, n=number: memory.run(n, m), lambda: memory.fetch([]), device.seconds) / count
        per_second = probes[0].bytes / seconds
        about = {"kind": "product", "format": kind, "rows": number, "outputs": outputs, "inputs": columns}
        yield about | {
            "ms": 1e3 * seconds,
            "bytes": probes[0].bytes,
            "bytes_per_s": per_second,
            "share": per_second / roof,
        }


def steps(
    device: Device, model: str, kind: str, rows: tuple[int, ...], contexts: tuple[int, ...], roof: float
) -> Iterator[dict[str, Any]]:
    """Whole steps of a model; contexts ascending."""
    shape, context = MODELS[model], max(contexts) + PAGE
    stepper, memory = synthetic(shape, kind, context, max(rows), device.open)
    stepper.make_room(max(rows), max(rows))
    held = context // PAGE + 1
    pages = min(max(rows) * held, memory.free // stepper.page_bytes)
    about = {"kind": "step", "model": model, "format": kind}
    if pages < 1:
        raise MemoryError("no room for a page of cache")
    stepper.take_pages(pages)
    weights = stepper.step([Row(0, 0, 0, [1], 0, 1, None, 1, array("i", [0]), False)])[1]
    for used in contexts:
        for number in rows:
            per_row = used // PAGE + 1
            if number * per_row > pages:
                yield about | {"rows": number, "context": used, "skipped": f"no room for {number * per_row} pages"}
                continue
            batch = []
            for slot in range(number):
                if stepper.state_bytes:
                    stepper.write_state(0, used.to_bytes(8, "little") + bytes(stepper.state_bytes))
                stepper.seat(slot, [1] * used, 0 if stepper.state_bytes else None)
                table = array("i", range(slot * per_row, (slot + 1) * per_row))
                batch.append(Row(0, slot, 0, [1], used, 1, None, used, table, False))
            seconds = timed(lambda batch=batch: stepper.step(batch) and None, lambda: None, device.seconds)
            alone = timed(stepper.run_again, lambda: memory.fetch([]), device.seconds)
            moved = weights + number * (used * stepper.page_bytes // PAGE + 2 * stepper.state_bytes)
            found = {"rows": number, "context": used, "ms": 1e3 * seconds, "device_ms": 1e3 * alone}
            found |= {"host_ms": 1e3 * (seconds - alone), "tokens_per_s": number / seconds, "bytes": moved}
            yield about | found | {"bytes_per_s": moved / seconds, "share": moved / seconds / roof}


def line(found: dict[str, Any]) -> str:
    name = f"{found['kind']:8} {found.get('model', ''):18} {found.get('format', ''):8}"
    sizes = (
        f"{found['rows']:3} rows" + (f" at {found['context']}" if "context" in found else "") if "rows" in found else ""
    )
    if "skipped" in found:
        return f"{name} {sizes:16} {found['skipped']}"
    host = f"  host {1e3 * found['host_ms']:6.0f} us" if "host_ms" in found else ""
    speed = f"  {found['tokens_per_s']:9.1f} tokens/s" if "tokens_per_s" in found else ""
    share = f"  {found['bytes_per_s'] / 1e9:7.1f} GB/s  {found['share']:4.0%} of a copy" if "share" in found else ""
    return f"{name} {sizes:16} {found['ms']:9.4f} ms{share}{speed}{host}"


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted(int(word) for word in text.split(",")))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:<n> or emulator")
    parser.add_argument("--tiny", action="store_true", help="a tiny model and small matrices")
    parser.add_argument("--models", type=words, help=f"of {', '.join(MODELS)}; default: all but tiny")
    parser.add_argument("--formats", type=words, default=FORMATS)
    parser.add_argument("--rows", type=numbers, default=ROWS)
    parser.add_argument("--contexts", type=numbers, default=CONTEXTS)
    parser.add_argument("--no-products", dest="products", action="store_false")
    parser.add_argument("--no-peer", dest="peer", action="store_false")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing new after so many")
    parser.add_argument("--json", type=Path)
    found = parser.parse_args()
    found.models = found.models or (("tiny",) if found.tiny else tuple(name for name in MODELS if name != "tiny"))
    for name in found.models:
        if name not in MODELS:
            parser.error(f"model {name!r}: expected of {', '.join(MODELS)}")
    return found


def main() -> int:
    chosen = arguments()
    begun = time.monotonic()
    device = Device(chosen.device, chosen.tiny)
    _, memory = device.open()
    name = memory.name
    del memory
    roof = copy_bandwidth(device)
    record: dict[str, Any] = {"device": name, "machine": describe_machine(), "date": time.strftime("%Y-%m-%d")}
    record |= {"copy_bytes_per_s": roof, "results": []}
    print(f"{name}: a copy moves {roof / 1e9:.1f} GB/s", flush=True)
    works: list[tuple[dict[str, Any], Callable[[], Iterator[dict[str, Any]]]]] = []
    if chosen.products:
        for kind in chosen.formats:
            works.append(({"kind": "product", "format": kind}, lambda k=kind: products(device, k, chosen.rows, roof)))
    for model in chosen.models:
        for kind in chosen.formats:
            about = {"kind": "step", "model": model, "format": kind}
            works.append((about, lambda m=model, k=kind: steps(device, m, k, chosen.rows, chosen.contexts, roof)))
        if chosen.peer:
            about = {"kind": "peer", "model": model, "format": "BF16"}
            rows = tuple(number for number in chosen.rows if number in PEER_ROWS)
            where = (rows, chosen.contexts, chosen.device)
            works.append((about, lambda m=model, w=where: transformers_steps(m, MODELS[m], *w)))
    failed = False
    for about, work in works:
        gc.collect()  # the memory of the one before
        try:
            if time.monotonic() - begun > chosen.seconds:
                raise TimeoutError(f"the {chosen.seconds:g} seconds are over")
            for found in work():
                record["results"].append(found)
                print(line(found), flush=True)
        except (ValueError, MemoryError, ImportError, TimeoutError) as reason:  # known not to be there
            record["results"].append(about | {"skipped": str(reason)})
        except Exception as error:
            failed = True
            record["results"].append(about | {"skipped": f"failed: {type(error).__name__}: {error}"})
        if "skipped" in (record["results"] or [{}])[-1]:
            print(line(record["results"][-1]), flush=True)
        if chosen.json:
            chosen.json.write_text(json.dumps(record, indent=1) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
