"""What the requests of a step's kernels to a GPU's memory come to, by line of source, without a GPU.

    scripts/ptx_check --build
    PYTHONPATH=build/ptx_check/site python scripts/gpu_traffic.py [--type Q4_K] [--architecture qwen3]
        [--rows 1] [--tokens 1] [--context 512] [--cache f16] [--most 30]

Runs one layer (of a hybrid two) with the head sizes of a real model on what nvcc made (docs/cuda.md) and prints the
instructions that move more than they must: 32-byte sectors of global memory, passes over the banks of shared memory. A
line of a loop or of a template stands for all instructions made of it. Sectors that another instruction uses soon after
come from L1.
"""

import argparse
import subprocess
import sys
import tempfile
from array import array
from pathlib import Path
from typing import NamedTuple

from paceline.native import _cpu
from paceline.native.core import Core, open_core

assert _cpu  # it registers types that the emulator's module uses
from paceline.native import _emulator  # noqa: E402

SHAPE = {"width": 1024, "heads": 8, "kv-heads": 2, "head-size": 128, "ffn": 2048, "vocab": 512, "layers": 1}
HYBRID = {"interval": 2, "layers": 2}

HEAD = f"{'kernel':22} {'line':24} {'of memory':21} {'requests':>9} {'bytes':>12} {'transfers':>10} {'least':>10} ratio"


class Row(NamedTuple):
    slot: int
    tokens: list[int]
    position: int
    outputs: int
    table: "array[int]"
    prompt_tokens: int = 0
    sampling: object = None
    logits: bool = False
    allowed: None = None
    ahead: int = 0
    following: int | None = None
    continues: bool = False


def table(core: Core, slot: int) -> "array[int]":
    """The slot's pages."""
    pages = core.context // 64
    return array("i", range(slot * pages, (slot + 1) * pages))


def run(core: Core, rows: int, tokens: int, context: int) -> None:
    """Fills the slots, then one measured step."""
    ids = [(7 * i + 3) % SHAPE["vocab"] for i in range(context + tokens)]
    for slot in range(rows):
        core.commit(slot, 0)
        if context:
            core.step([Row(slot, ids[:context], 0, 0, table(core, slot))])
            core.commit(slot, context)
    _emulator.measure(True)
    core.step([Row(slot, ids[context:], context, 1, table(core, slot)) for slot in range(rows)])


class Line(NamedTuple):
    transfers: int
    least: int
    text: str


def lines() -> list[Line]:
    """By how much more they transfer than the least."""
    sums: dict[tuple[str, str, int, bool, str], list[int]] = {}
    for kernel, file, line, shared, use, *figures in _emulator.measured():
        total = sums.setdefault((kernel, file, line, shared, use), [0, 0, 0, 0])
        total[:] = [a + b for a, b in zip(total, figures, strict=True)]
    found = []
    for (kernel, file, line, shared, use), (requests, bytes, transfers, least) in sums.items():
        space = f"{'shared' if shared else 'global'} {use}"
        what = f"{kernel:22} {f'{file}:{line}':24} {space:21} {requests:9,} {bytes:12,} {transfers:10,} {least:10,}"
        found.append(Line(transfers, least, f"{what} {transfers / max(1, least):5.1f}"))
    return sorted(found, key=lambda one: one.least - one.transfers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--type", default="Q4_K", help="of the weights")
    parser.add_argument("--architecture", default="qwen3")
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=1, help="of each row")
    parser.add_argument("--context", type=int, default=512, help="tokens before those")
    parser.add_argument("--cache", default="f16")
    parser.add_argument("--most", type=int, default=30, help="lines to print")
    options = parser.parse_args()
    if not _emulator.translated:
        sys.exit("these are not nvcc's kernels: PYTHONPATH=build/ptx_check/site, after scripts/ptx_check --build")
    shape = SHAPE | (HYBRID if options.architecture.startswith(("qwen35", "qwen3next")) else {})
    words = [f"--{name}={value}" for name, value in shape.items()]
    words += [f"--architecture={options.architecture}", f"--type={options.type}", "--seed=1"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shaped.gguf"
        script = Path(__file__).with_name("make_tiny_model.py")
        subprocess.run([sys.executable, str(script), f"--out={path}", *words], check=True)
        room = -(-(options.context + options.tokens) // 64) * 64
        core = open_core(
            path,
            slots=options.rows,
            context=room,
            kind="emulator",
            cache_type_k=options.cache,
            cache_type_v=options.cache,
        )
        run(core, options.rows, options.tokens, options.context)
    found = lines()
    print(HEAD)
    print(*(one.text for one in found[: options.most]), sep="\n")
    transfers, least = sum(one.transfers for one in found), sum(one.least for one in found)
    print(f"{len(found)} lines, {transfers:,} transfers, at least {least:,}")


if __name__ == "__main__":
    main()
