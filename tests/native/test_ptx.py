"""PTX in C++ (scripts/ptx_to_cpp.py, native/emulate/ptx*.h): instructions against NumPy, and what the emulated device
says of programs that break its rules."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from .ptx_instructions import INSTRUCTIONS
from .ptx_misuses import MISUSES, TRAFFIC, WAIT
from .ptx_programs import HEAD, aligned, compiled, kernel, run, translate
from .ptx_vectors import LANES

MATRICES = {
    "u8": ("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32", 32, np.uint8, np.int8),
    "s8": ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 32, np.int8, np.int8),
    "u8 of 16": ("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32", 16, np.uint8, np.int8),
    "s8 of 16": ("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", 16, np.int8, np.int8),
    "f16": ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, np.float16, np.float16),
    "bf16": ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 16, np.float16, np.float16),
}


def packed(name: str, values: np.ndarray) -> np.ndarray:
    """As 32-bit registers. Small whole numbers are exact in bfloat16 too."""
    if name == "bf16":
        values = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.view(np.uint32)


def matrix_kernel(name: str, instruction: str, a: int, b: int) -> str:
    """%rd1: 10 words of each lane, as many of A, of B and four of C; %rd2: four words of each."""
    loads = "".join(f"ld.global.u32 %r{i + 1}, [%rd3+{4 * i}];" for i in range(10))
    registers = [f"%r{i + 1}" for i in range(a)], [f"%r{i + 5}" for i in range(b)], [f"%r{i + 7}" for i in range(4)]
    operands = ", ".join("{" + ", ".join(part) + "}" for part in registers)
    stores = "".join(f"st.global.u32 [%rd4+{4 * i}], %r{i + 11};" for i in range(4))
    return kernel(
        name,
        f"mul.wide.u32 %rd3, %r0, 40; add.s64 %rd3, %rd3, %rd1; mul.wide.u32 %rd4, %r0, 16; add.s64 %rd4, %rd4, %rd2;"
        f"{loads} {instruction} {{%r11, %r12, %r13, %r14}}, {operands}; {stores}",
    )


def named(name: str) -> str:
    return "case_" + "".join(letter if letter.isalnum() else "_" for letter in name)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    begin = "mul.wide.u32 %rd3, %r0, 12; add.s64 %rd3, %rd3, %rd1; mul.wide.u32 %rd4, %r0, 4; add.s64 %rd4, %rd4, %rd2;"
    begin += "".join(f"ld.global.u32 %r{i + 1}, [%rd3+{4 * i}]; mov.b32 %f{i + 1}, %r{i + 1};" for i in range(3))
    kernels = [
        kernel(named(name), begin + case.text + "st.global.u32 [%rd4], %r9;") for name, case in INSTRUCTIONS.items()
    ]
    kernels += [
        matrix_kernel(
            named(name), text, depth // 8 if kind != np.float16 else 4, depth // 16 if kind != np.float16 else 2
        )
        for name, (text, depth, kind, _) in MATRICES.items()
    ]
    kernels += [kernel(name, body, line=i + 1) for i, (name, (body, _)) in enumerate(MISUSES.items())]
    kernels += [kernel(name, WAIT + body, line=1000 + i) for i, (name, (body, _)) in enumerate(TRAFFIC.items())]
    return compiled(tmp_path_factory.mktemp("ptx"), kernels)


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_an_instruction_does_what_numpy_does(library: ctypes.CDLL, name: str) -> None:
    case = INSTRUCTIONS[name]
    for seed in range(1, 7):
        given, found = aligned(3 * LANES, np.uint32), aligned(LANES, np.uint32)
        a, b, c = (case.inputs(7 * i + seed) for i in range(3))
        given[:] = np.stack([a, b, c], 1).ravel()
        assert run(library, named(name), given, found, shared=128) is None
        with np.errstate(all="ignore"):
            expected = np.asarray(case.expected(a, b, c)).astype(np.uint32)
        assert np.array_equal(found, expected), (a, b, c, found, expected)


@pytest.mark.parametrize("name", MATRICES)
def test_a_matrix_product_has_the_fragments_of_the_manual(library: ctypes.CDLL, name: str) -> None:
    """Each value is put where the figures of the PTX manual say, one by one."""
    _, depth, of_a, of_b = MATRICES[name]
    chance = np.random.default_rng(5)
    span = (0, 9) if of_a == np.float16 else (-128, 128)
    a = chance.integers(*((0, 256) if of_a == np.uint8 else span), (16, depth)).astype(of_a)
    b = chance.integers(*span, (depth, 8)).astype(of_b)
    per_word = 4 // a.itemsize
    c = chance.integers(-1000, 1000, (16, 8)).astype(np.float32 if of_a == np.float16 else np.int32)
    given, found = aligned(LANES * 10, np.uint32), aligned(LANES * 4, np.uint32)
    lanes = given.reshape(LANES, 10)
    expected = np.zeros((LANES, 4), np.uint32)
    product = (a.astype(np.float64) @ b.astype(np.float64) + c).astype(c.dtype)
    for lane in range(LANES):
        group, within = lane // 4, lane % 4
        of_lane = np.zeros(16, of_a)
        for i in range(16 * depth // LANES):
            if per_word == 4 and depth == 32:
                row, column = group + (8 if 4 <= i < 8 or i >= 12 else 0), within * 4 + (i & 3) + (16 if i >= 8 else 0)
            elif per_word == 4:
                row, column = group + (8 if i >= 4 else 0), within * 4 + (i & 3)
            else:
                row, column = group + (8 if i in (2, 3, 6, 7) else 0), within * 2 + (i & 1) + (8 if i >= 4 else 0)
            of_lane[i] = a[row, column]
        lanes[lane, :4] = packed(name, of_lane[: 4 * per_word])
        of_lane = np.zeros(8, of_b)
        for i in range(8 * depth // LANES):
            row = within * per_word + i % per_word + i // per_word * 4 * per_word
            of_lane[i] = b[row, group]
        lanes[lane, 4:6] = packed(name, of_lane[: 2 * per_word])
        for i in range(4):
            place = group + (8 if i >= 2 else 0), within * 2 + (i & 1)
            lanes[lane, 6 + i] = c[place].view(np.uint32)
            expected[lane, i] = product[place].view(np.uint32)
    assert run(library, named(name), given, found) is None
    assert np.array_equal(found.reshape(LANES, 4), expected)


@pytest.mark.parametrize("name", MISUSES)
def test_the_device_sees_what_a_program_may_not_do(library: ctypes.CDLL, name: str) -> None:
    said = MISUSES[name][1]
    memory, other = aligned(1024, np.uint32), aligned(64, np.uint32)
    library.watch(1)
    try:
        assert run(library, "own_places", memory, other, blocks=2, threads=64, shared=256, early=True) is None
        fault = run(library, name, memory, other, blocks=2, threads=64, shared=256, early=True)
    finally:
        library.watch(0)
    assert (fault is None) if said is None else (fault is not None and said in fault), fault
    if fault and "race" in fault:
        assert f"programs.cu:{list(MISUSES).index(name) + 1}:" in fault and f"kernel {name}" in fault


@pytest.mark.parametrize(
    ("name", "said"), [("early_read", "of what the host has rewritten"), ("early_strong_read", None)]
)
def test_what_the_host_rewrites_is_not_read_early_through_l1(library: ctypes.CDLL, name: str, said: str | None) -> None:
    memory = aligned(64, np.uint32)
    library.watch(1)
    try:
        library.note_host_write(ctypes.c_void_p(memory.ctypes.data), ctypes.c_size_t(memory.nbytes))
        assert run(library, name, memory, memory, threads=64, shared=256, early=True) is None  # nobody has read it yet
        library.note_host_write(ctypes.c_void_p(memory.ctypes.data), ctypes.c_size_t(memory.nbytes))
        fault = run(library, name, memory, memory, threads=64, shared=256, early=True)
    finally:
        library.watch(0)
    assert (fault is None) if said is None else (fault is not None and said in fault), fault


def test_what_the_host_launches_after_all_else_has_waited(library: ctypes.CDLL) -> None:
    assert run(library, "forgotten_wait", aligned(64, np.uint32), aligned(64, np.uint32)) is None


@pytest.mark.parametrize("name", TRAFFIC)
def test_requests_to_memory_are_counted_as_a_gpu_divides_them(library: ctypes.CDLL, name: str) -> None:
    memory = aligned(1024, np.uint32)
    library.measure(1)
    try:
        assert run(library, name, memory, memory, shared=4096) is None
        found = (ctypes.c_uint64 * 4)()
        library.measured(1000 + list(TRAFFIC).index(name), found)
    finally:
        library.measure(0)
    assert tuple(found) == TRAFFIC[name][1]


@pytest.mark.parametrize(
    "text",
    [
        "ex2.approx.f32 %f1, %f2;",
        "add.ftz.f32 %f1, %f2, %f3;",
        "add.f32 %f1, %f2, %f3;",
        "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%r1}, {%r1}, {%r1}, {%r1};",
        "atom.global.add.u32 %r1, [%rd1], 1;",
        "bar.sync 1, 64;",
        "mov.u32 %r1, %laneid;",
        "add.s32 %r1, %r2, %unknown;",
        "ld.const.u32 %r1, [%rd1];",
    ],
)
def test_what_has_no_meaning_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.ptx").write_text(HEAD + kernel("odd", text))
    assert "odd" in translate(tmp_path / "odd.ptx", tmp_path) and not (tmp_path / "odd.cpp").exists()
    assert text.split()[0] in translate(tmp_path / "odd.ptx", tmp_path)
