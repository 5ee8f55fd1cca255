"""Small PTX programs, translated by scripts/ptx_to_cpp.py and compiled with the emulated device: for test_ptx.py."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent.parent
HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 16 .b8 memory[];\n"
SOURCES = ("grid", "fiber", "watch", "traffic", "ptx_kernels")
FLAGS = "-std=c++20 -O1 -shared -fPIC -fvisibility=hidden -ffp-contract=off -fno-strict-aliasing -Wall -Wextra -Werror"
UNUSED = (
    "-Wno-unused-but-set-variable -Wno-unused-variable -Wno-unused-label -Wno-maybe-uninitialized -Wno-uninitialized"
)


def kernel(name: str, body: str, parameters: int = 2, line: int = 0) -> str:
    """An entry whose parameters are addresses: %rd1, %rd2, … Registers %p, %h (16 bits), %r, %rd, %f, %d of 40 each;
    %r0 is the thread's index. `line`: of the source that its accesses are said to be from."""
    listed = ",\n".join(f".param .u64 {name}_param_{i}" for i in range(parameters))
    loads = "\n".join(f"ld.param.u64 %rd{i + 1}, [{name}_param_{i}];" for i in range(parameters))
    kinds = {"pred": "p", "b16": "h", "b32": "r", "b64": "rd", "f32": "f", "f64": "d"}
    registers = "\n".join(f".reg .{kind} %{letter}<40>;" for kind, letter in kinds.items())
    place = f".loc 1 {line} 0\n" if line else ""
    return (
        f".entry {name}(\n{listed}\n)\n{{\n{registers}\n.reg .b32 %r0;\n{loads}\nmov.u32 %r0, %tid.x;\n"
        f"{place}{body}\nret;\n}}\n"
    )


def compiled(folder: Path, kernels: list[str]) -> ctypes.CDLL:
    """A library of these kernels, with ptx_runner.cpp."""
    (folder / "programs.ptx").write_text(HEAD + "\n".join(kernels) + '\n.file 1 "programs.cu"\n')
    translate(folder / "programs.ptx", folder)
    sources = [ROOT / "native" / "emulate" / f"{name}.cpp" for name in SOURCES]
    sources += [ROOT / "tests" / "native" / "ptx_runner.cpp", folder / "programs.cpp"]
    command = [
        "c++",
        *FLAGS.split(),
        *UNUSED.split(),
        f"-I{ROOT}",
        *map(str, sources),
        "-o",
        str(folder / "programs.so"),
    ]
    subprocess.run([*command, "-pthread"], check=True)
    library = ctypes.CDLL(str(folder / "programs.so"))
    library.run.restype = ctypes.c_char_p
    return library


def translate(path: Path, folder: Path) -> str:
    """What the script says on stderr; its exit status is 0 where that is nothing, else 1."""
    script = ROOT / "scripts" / "ptx_to_cpp.py"
    done = subprocess.run([sys.executable, str(script), str(path), f"--out={folder}"], capture_output=True, text=True)
    assert (done.returncode, bool(done.stderr)) in ((0, False), (1, True)), done.stderr
    return done.stderr


def run(
    library: ctypes.CDLL,
    name: str,
    *arrays: Any,
    blocks: int = 1,
    threads: int = 32,
    shared: int = 0,
    early: bool = False,
) -> str | None:
    """Runs a kernel on the arrays' memory. The fault's text, if there is one."""
    addresses = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
    pointers = (ctypes.c_void_p * len(addresses))(*(ctypes.addressof(one) for one in addresses))
    fault = library.run(name.encode(), blocks, threads, ctypes.c_size_t(shared), int(early), pointers)
    return fault.decode() if fault else None


def aligned(count: int, kind: Any) -> Any:
    """An array of zeros, aligned to 64 bytes."""
    kind = np.dtype(kind)
    room = np.zeros(count * kind.itemsize + 64, np.uint8)
    begin = -room.ctypes.data % 64
    return room[begin : begin + count * kind.itemsize].view(kind)
