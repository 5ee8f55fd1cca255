"""How many cycles an SM would take for the hot loops of kernels, by nvcc's code, without a GPU.

    scripts/compile_cuda --keep 90a                  # leaves the PTX from which this makes machine code
    pip install --target build/nvdisasm nvidia-cuda-nvdisasm
    python scripts/gpu_cycles.py product_256 --only 'wide_product.*E13E' [--warps 2] [--from-l2 0.3] [--products 8]

For each innermost loop with as many products (mma or fma) it prints the instructions of a turn by the unit that takes
them, and the cycles per turn of an SM whose four quarters have so many warps each, all in that loop. Simulated are one
instruction a cycle and quarter, how long each unit is busy, and the stalls and barriers that nvcc wrote into the code.
Not simulated are banks of registers and of shared memory, the instruction cache, and memory's bandwidth; a load takes
as many passes as a lane has words of it, even where lanes share them, and misses L1 by chance. So it is for comparing
two ways of writing a loop. What it says of kernels that were measured is in docs/cuda.md.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from gpu_code import Instruction, hot_path, innermost_loops, kernels
from gpu_code import Path as Loop

ROOT = Path(__file__).parents[1]
PTX = ROOT / "build" / "compile_cuda" / "ptx"
QUARTERS = 4
WARM, TURNS = 8, 24  # turns of each warp before, and in all

# Cycles for which an instruction of a warp keeps its unit from the next: of a quarter's 16 lanes for integers (CUDA's
# guide, compute capability 9.0), of 32 for floats; an mma of 4096 multiplications of bytes or half as many of halves.
BUSY = {"integer": 2, "multiply": 2, "float": 1, "mma": 6, "special": 8, "memory": 2, "other": 2}
UNITS = {
    "multiply": "IMAD IDP",
    "float": "FFMA FADD FMUL HFMA2 HADD2 HMUL2",
    "mma": "IMMA HMMA",
    "special": "MUFU I2F F2F F2I",
    "memory": "LDS LDSM STS SHFL LDG LDGSTS LDC STG LDL STL",
    "integer": "LOP3 IADD3 SHF PRMT ISETP SEL IMNMX LEA FSETP FMNMX MOV PLOP3 P2R R2P VIADD FSEL VIMNMX IABS SGXT "
    "BMSK I2FP VIADDMNMX F2FP FCHK",
}
UNIT_OF = {name: unit for unit, names in UNITS.items() for name in names.split()}
# Cycles from issue to result where nvcc waits for a barrier.
LATENCY = {"LDS": 26, "LDSM": 26, "LDG": 38, "LDL": 38, "SHFL": 24, "LDC": 30, "special": 22}
L2_LATENCY = 280
OTHER_LATENCY = 12
OPERANDS_READ = 16


def unit_of(instruction: Instruction) -> str:
    return UNIT_OF.get(instruction.kind, "other")


def passes(instruction: Instruction) -> int:
    return 4 if ".128" in instruction.name else 2 if ".64" in instruction.name else 1


@dataclass
class Warp:
    at: int  # of its loop
    ready: int = 0
    turns: int = 0
    barriers: dict[int, int] = field(default_factory=dict)  # when each is released

    def waits(self, instruction: Instruction, now: int) -> bool:
        return self.ready > now or any(self.barriers.get(barrier, 0) > now for barrier in instruction.waits)


def cycles_of(loop: Loop, warps: int, from_l2: float, seed: int = 1) -> float:
    """Cycles per turn of an SM: with four quarters, `warps` each, that is the time in which one warp's turn is made.

    from_l2: the share of loads from global memory that miss L1.
    """
    draw = random.Random(seed)
    units = [unit_of(instruction) for instruction in loop]
    quarters = [[Warp(draw.randrange(len(loop))) for _ in range(warps)] for _ in range(QUARTERS)]
    busy: list[Counter[str]] = [Counter() for _ in range(QUARTERS)]
    everyone = [warp for quarter in quarters for warp in quarter]
    memory = now = began = turns_then = 0
    while (turns := sum(warp.turns for warp in everyone)) < TURNS * len(everyone):
        if not began and turns >= WARM * len(everyone):
            began, turns_then = now, turns
        for quarter, until in zip(quarters, busy, strict=True):
            for warp in quarter:
                instruction, unit = loop[warp.at], units[warp.at]
                if warp.waits(instruction, now) or until[unit] > now or (unit == "memory" and memory > now + 8):
                    continue
                until[unit] = now + BUSY[unit]
                latency = LATENCY.get(instruction.kind, LATENCY.get(unit, OTHER_LATENCY))
                if instruction.kind == "LDG" and draw.random() < from_l2:
                    latency = L2_LATENCY
                if unit == "memory":  # one path for all quarters
                    latency += max(memory, now) - now + passes(instruction)
                    memory = max(memory, now) + passes(instruction)
                if instruction.result is not None:
                    done = warp.barriers.get(instruction.result, 0)
                    warp.barriers[instruction.result] = max(done, now + latency)
                if instruction.operands is not None:
                    done = warp.barriers.get(instruction.operands, 0)
                    warp.barriers[instruction.operands] = max(done, now + min(latency, OPERANDS_READ))
                warp.ready = now + instruction.stall
                warp.at = (warp.at + 1) % len(loop)
                warp.turns += warp.at == 0
                quarter.remove(warp)
                quarter.insert(0, warp)  # it goes on while it can
                break
        now += 1
    return (now - began) / (turns - turns_then)


def tool(name: str, *folders: Path) -> Path:
    for folder in (*folders, ROOT / "build" / "nvdisasm" / "nvidia" / "cu13" / "bin"):
        if (folder / name).is_file():
            return folder / name
    if there := shutil.which(name):
        return Path(there)
    raise SystemExit(f"no {name}: it comes with nvcc, or see --help")


def disassembled(name: str) -> str:
    """Of native/cuda/<name>.cu."""
    (ptx,) = [*sorted((PTX / name).glob("*.ptx"))[:1]] or [None]
    if ptx is None:
        raise SystemExit(f"no PTX of {name} in {PTX}: run scripts/compile_cuda --keep 90a")
    beside = Path((PTX / "nvcc").read_text().strip()).resolve().parent
    with tempfile.NamedTemporaryFile(suffix=".cubin") as code:
        subprocess.run([tool("ptxas", beside), "-arch=sm_90a", "-o", code.name, ptx], check=True)
        words = [tool("nvdisasm", beside), "-hex", "-c", code.name]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def short(mangled: str) -> str:
    """_ZN8paceline4cuda12wide_productILNS_6FormatE13EEEvNS0_7ProductE -> wide_productILNS_6FormatE13"""
    name = rest = mangled.removeprefix("_ZN")
    while length := re.match(r"\d+", rest):  # of the next name
        name = rest[length.end() :]
        rest = name[int(length[0]) :]
    return name.split("EEEv")[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="a name of native/cuda/, without .cu")
    parser.add_argument("--only", default="", help="a pattern that the kernel's mangled name has")
    parser.add_argument("--warps", type=int, default=4, help="of a quarter of an SM")
    parser.add_argument("--from-l2", type=float, default=0.0, help="the share of global loads that miss L1")
    parser.add_argument("--products", type=int, default=8, help="loops with as many at least")
    chosen = parser.parse_args()
    for name, code in kernels(disassembled(chosen.source)).items():
        if not re.search(chosen.only, name):
            continue
        for begin, end in innermost_loops(code, chosen.products):
            loop = hot_path(code, begin, end)
            if not loop:
                continue
            by_unit = Counter(map(unit_of, loop))
            cycles = cycles_of(loop, chosen.warps, chosen.from_l2)
            told = ", ".join(f"{count} {unit}" for unit, count in by_unit.most_common())
            print(f"{short(name):48} {cycles:7.1f} cycles, {len(loop)} instructions: {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
