"""NVFP4 against IQ2_XXS on this processor: passes over a model's matrices, by format, kernels and rows in a step.

    python scripts/bench_formats.py --model moe --isa avx2 --json benchmarks/nvfp4_iq2xxs.json   # replaces these there
    python scripts/bench_formats.py --table     # writes the tables of docs/nvfp4-iq2xxs.md from the record
    python scripts/bench_formats.py --check     # exit 1 if the tables there are not those of the record

Random blocks; no attention, vocabulary, router or norms: tokens per second are rows / (seconds of a layer's matrices x
layers). Before each pass other memory is read, so that weights come from memory and not from a cache. Kernels "once"
unpack a tile of weights once for all rows of a step, kernels "each" again for every row, while the tile is in the
core's cache. Formats, kernels and numbers of rows take turns in every round; medians of the rounds.
"""

import argparse
import json
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from paceline.native._cpu import PassProbe, instruction_sets
from paceline.native.machine import describe_machine, processor_words, usable_cores
from page_table import ROOT, write

RECORD = ROOT / "benchmarks" / "nvfp4_iq2xxs.json"
FORMATS = ("IQ2_XXS", "NVFP4", "Q4_K", "Q8_0")
ROWS = (1, 2, 4, 8, 16)
KERNELS = ("once", "each")
PAGE = ROOT / "docs" / "nvfp4-iq2xxs.md"
SWEEP = 256 << 20  # bytes, many times the last cache

Matrix = tuple[int, int]  # outputs, inputs
Phases = list[list[tuple[int, int]]]  # (matrix, its columns): one after another, as in a step


@dataclass(frozen=True)
class Shapes:
    like: str
    layers: int
    held: int  # layers in memory, a pass goes over all
    mixer: list[list[Matrix]]  # phases
    ffn: list[list[Matrix]]
    experts: int = 0
    used: int = 0


MODELS = {
    "dense": Shapes(
        "Qwen3-8B", 36, 2, [[(4096, 4096), (1024, 4096), (1024, 4096)], [(4096, 4096)]],
        [[(12288, 4096), (12288, 4096)], [(4096, 12288)]],
    ),
    "moe": Shapes(
        "Qwen3-30B-A3B", 48, 1, [[(4096, 2048), (512, 2048), (512, 2048)], [(2048, 4096)]],
        [[(768, 2048), (768, 2048)], [(2048, 768)]], 128, 8,
    ),
}  # fmt: skip


def random_blocks(name: str, rows: int, columns: int, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """[rows, bytes of a row]: any codes, scales that are ordinary numbers."""
    size, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    blocks = rng.integers(0, 256, (rows, columns // size, block_bytes), np.uint8)
    if name == "NVFP4":
        blocks[..., :4] = rng.integers(8, 120, (*blocks.shape[:2], 4))
    else:
        halves = 2 if name == "Q4_K" else 1
        scales = rng.uniform(0.001, 0.1, (*blocks.shape[:2], halves)).astype(np.float16)
        blocks[..., : 2 * halves] = scales.view(np.uint8)
    return blocks.reshape(rows, -1)


@dataclass(frozen=True)
class Held:
    """A model's matrices in one format, by their numbers: mixers [layer][phase], experts [layer][expert][phase]."""

    probe: PassProbe
    mixers: list[list[list[int]]]
    experts: list[list[list[list[int]]]]


def hold(shapes: Shapes, name: str, threads: int) -> Held:
    probe = PassProbe(threads)
    rng = np.random.default_rng(0)

    def add(phases: list[list[Matrix]]) -> list[list[int]]:
        return [[probe.add(name, *shape, random_blocks(name, *shape, rng)) for shape in phase] for phase in phases]

    mixers = [add(shapes.mixer) for _ in range(shapes.held)]
    experts = [[add(shapes.ffn) for _ in range(max(shapes.experts, 1))] for _ in range(shapes.held)]
    return Held(probe, mixers, experts)


def pass_phases(shapes: Shapes, held: Held, rows: int, rng: np.random.Generator) -> Phases:
    """A dense layer meets all rows; an expert meets those that chose it, each row choosing `used` at random."""
    phases: Phases = []
    for mixer, experts in zip(held.mixers, held.experts, strict=True):
        phases += [[(matrix, rows) for matrix in phase] for phase in mixer]
        counts = np.full(1, rows)
        if shapes.experts:
            chosen = [rng.choice(shapes.experts, shapes.used, replace=False) for _ in range(rows)]
            counts = np.bincount(np.concatenate(chosen), minlength=shapes.experts)
        active = [(expert, int(count)) for expert, count in zip(experts, counts, strict=True) if count]
        for index in range(len(shapes.ffn)):
            phases.append([(matrix, count) for expert, count in active for matrix in expert[index]])
    return phases


def measure(model: str, isa: str, threads: int, rounds: int, rows: tuple[int, ...]) -> list[dict[str, Any]]:
    shapes = MODELS[model]
    models = {name: hold(shapes, name, threads) for name in FORMATS}
    times: dict[tuple[str, str, int], list[float]] = {}
    sizes: dict[tuple[str, int], list[int]] = {}
    sweeps = []
    for turn in range(rounds + 1):
        for count in rows:
            for kernels in KERNELS:
                for name, held in models.items():
                    rng = np.random.default_rng([turn, count])  # the same choices for all
                    phases = pass_phases(shapes, held, count, rng)
                    swept = held.probe.sweep(SWEEP)
                    seconds, unpacked = held.probe.pass_over(phases, per_column=kernels == "each", isa=isa)
                    if not turn:  # a warm-up
                        continue
                    sweeps.append(swept)
                    times.setdefault((kernels, name, count), []).append(seconds / shapes.held)
                    if kernels == "once":  # what memory gave: each weight once
                        sizes.setdefault((name, count), []).append(unpacked // shapes.held)
    results = []
    for (kernels, name, count), taken in times.items():
        seconds = statistics.median(taken)
        size = statistics.median(sizes[name, count])
        results.append(
            {
                "model": model,
                "isa": isa,
                "kernels": kernels,
                "format": name,
                "rows": count,
                "milliseconds_a_layer": round(seconds * 1e3, 4),
                "tokens_per_second": round(count / (seconds * shapes.layers), 2),
                "megabytes_a_layer": round(size / 1e6, 2),
                "gigabytes_per_second": round(size / seconds / 1e9, 2),
            }
        )
        print(f"{model} {isa} {kernels:5}{name:8}{count:3}{results[-1]['tokens_per_second']:10.2f} tokens/s"
              f"{results[-1]['gigabytes_per_second']:8.2f} GB/s", flush=True)  # fmt: skip
    roof = round(SWEEP / statistics.median(sweeps) / 1e9, 2)
    print(f"plain reads {roof} GB/s")
    return [result | {"read_gigabytes_per_second": roof} for result in results]


def earlier_results(path: Path, threads: int, rounds: int) -> list[dict[str, Any]]:
    """Of the record there; one of another machine is not mixed with this one's."""
    if not path.exists():
        return []
    record = json.loads(path.read_text())
    for name, own in (("machine", describe_machine()), ("threads", threads), ("rounds", rounds)):
        if record[name] != own:
            sys.exit(f"{path} has {name} {record[name]}, this run has {own}: expected another file, or none there")
    return record["results"]


def merge(path: Path, results: list[dict[str, Any]], threads: int, rounds: int) -> None:
    """The record with these results in the place of earlier ones of the same model and instruction set."""
    earlier = earlier_results(path, threads, rounds)
    new = {(result["model"], result["isa"]) for result in results}
    kept = [result for result in earlier if (result["model"], result["isa"]) not in new]
    record = {
        "benchmark": "bench_formats",
        "date": time.strftime("%Y-%m-%d"),
        "threads": threads,
        "rounds": rounds,
        "machine": describe_machine(),
        "models": {
            name: {"like": shapes.like, "layers": shapes.layers, "mixer": shapes.mixer, "ffn": shapes.ffn,
                   "experts": shapes.experts, "used": shapes.used} for name, shapes in MODELS.items()
        },
        "results": sorted(kept + results, key=lambda result: (result["model"], result["isa"])),
    }  # fmt: skip
    path.write_text(json.dumps(record, indent=1) + "\n")


def table(record: dict[str, Any]) -> str:
    machine = record["machine"]
    text = [
        f"{record['threads']} threads of an {processor_words(machine)}, {record['date']}, medians of "
        f"{record['rounds']} rounds. Cells: tokens per second, and in brackets the gigabytes per second of weights "
        "read from memory.\n"
    ]
    found = {tuple(r[key] for key in ("model", "isa", "kernels", "format", "rows")): r for r in record["results"]}
    for model, isa in dict.fromkeys((key[0], key[1]) for key in found):
        roof = next(r for key, r in found.items() if key[:2] == (model, isa))["read_gigabytes_per_second"]
        text += [f"**{model}, {isa}** (a plain read of memory gave {roof:.1f} GB/s in the same run)\n"]
        names = "".join(f" {name} |" for name in FORMATS)
        text += [f"| kernels | rows |{names} NVFP4 / IQ2_XXS |", "|---|---|" + "---|" * len(FORMATS) + "---|"]
        for kernels in KERNELS:
            for rows in ROWS:
                cells = [found[model, isa, kernels, name, rows] for name in FORMATS]
                rates = {cell["format"]: cell["tokens_per_second"] for cell in cells}
                shown = [f"{cell['tokens_per_second']:.1f} ({cell['gigabytes_per_second']:.1f})" for cell in cells]
                ratio = rates["NVFP4"] / rates["IQ2_XXS"]
                text.append(f"| {kernels} | {rows} | {' | '.join(shown)} | {ratio:.2f} |")
        text.append("")
    return "\n".join(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="dense")
    parser.add_argument("--isa", choices=instruction_sets(), default=instruction_sets()[-1])
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--table", action="store_true", help="only write the page's tables from the record")
    parser.add_argument("--check", action="store_true", help="only compare the page's tables with the record")
    arguments = parser.parse_args()
    if arguments.table or arguments.check:
        return write("results", table(json.loads(RECORD.read_text())), arguments.check, PAGE)
    if arguments.json:
        earlier_results(arguments.json, arguments.threads, arguments.rounds)
    results = measure(arguments.model, arguments.isa, arguments.threads, arguments.rounds, tuple(arguments.rows))
    if arguments.json:
        merge(arguments.json, results, arguments.threads, arguments.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
