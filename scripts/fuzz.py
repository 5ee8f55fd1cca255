"""Damages what Paceline reads, and checks how it reacts.

    python scripts/fuzz.py gguf [--count 10000] [--seed 1] [--jobs 2] [--keep FOLDER]
    python scripts/fuzz.py folder [--count 1000] …
    python scripts/fuzz.py readers [--count 100000] [--seed 1]
    python scripts/fuzz.py snapshots [--count 100000] [--seed 1]

readers: the readers of lines, commands and frames (see fuzz_readers.py).
snapshots: the reader of snapshot files (see fuzz_snapshots.py).
gguf: GGUF files, folder: Hugging Face folders. Each mutant is opened as the daemon opens it, under a memory cap and a
time limit, and stepped if it loads. It must load or be refused with exit code 66 and one sentence. Anything else is
reported, --keep writes the mutant to a folder, and the exit code is 1. The same options give the same mutants.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import fuzz_readers
import fuzz_snapshots
import mutate_folder
import mutate_gguf
from fuzz_loading import Write, run
from fuzz_seeds import folders, gguf_files

COUNTS = {"gguf": 10000, "folder": 1000, "readers": 100000, "snapshots": 100000}
IN_PROCESS = {"readers": fuzz_readers.run, "snapshots": fuzz_snapshots.run}
SHOWN = 10  # failures that are printed


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=COUNTS)
    parser.add_argument("--count", type=int, help="mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes at a time")
    parser.add_argument("--keep", type=Path, help="a folder for the mutants that something went wrong with")
    chosen = parser.parse_args()
    chosen.count = chosen.count or COUNTS[chosen.target]
    return chosen


def gguf_writer(seed: int) -> Write:
    with tempfile.TemporaryDirectory() as folder:
        seeds = gguf_files(Path(folder))

    def write(index: int, folder: Path) -> Path:
        chance = random.Random(f"{seed} {index}")
        path = folder / "mutant.gguf"
        path.unlink(missing_ok=True)  # the last one may still be mapped
        path.write_bytes(mutate_gguf.mutant(seeds[chance.choice(sorted(seeds))], chance))
        return path

    return write


def folder_writer(seed: int) -> Write:
    seeds = folders()

    def write(index: int, folder: Path) -> Path:
        chance = random.Random(f"{seed} {index}")
        path = folder / "mutant"
        path.mkdir(exist_ok=True)
        for name, data in mutate_folder.mutant(seeds[chance.choice(sorted(seeds))], chance).items():
            (path / name).unlink(missing_ok=True)
            (path / name).write_bytes(data)
        return path

    return write


def main() -> int:
    chosen = options()
    write = None
    begun = time.monotonic()
    if chosen.target in IN_PROCESS:
        outcomes, failures = IN_PROCESS[chosen.target](chosen.count, chosen.seed)
    else:
        write = gguf_writer(chosen.seed) if chosen.target == "gguf" else folder_writer(chosen.seed)
        outcomes, failures = run(chosen.count, chosen.jobs, write)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    print(f"{chosen.target}, seed {chosen.seed}: {counts} in {time.monotonic() - begun:.0f} s")
    alike: dict[str, list[int]] = {}
    for index, what in sorted(failures.items()):
        alike.setdefault(what.splitlines()[-1], []).append(index)
    for indexes in list(alike.values())[:SHOWN]:
        print(f"\nmutant {indexes[0]} and {len(indexes) - 1} like it: {failures[indexes[0]][-2000:]}")
    if chosen.keep and write is not None:
        for index in failures:
            (chosen.keep / str(index)).mkdir(parents=True, exist_ok=True)
            write(index, chosen.keep / str(index))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
