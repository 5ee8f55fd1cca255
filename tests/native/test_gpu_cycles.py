"""scripts/gpu_cycles.py on code written here: what it reads from a disassembly, and how long loops take."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
NEVER = 7


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """script(name): a module of scripts/."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return import_module


def line(text: str, stall: int = 1, result: int = NEVER, operands: int = NEVER, waits: int = 0) -> str:
    """An instruction as nvdisasm prints it."""
    fields = stall | result << 5 | operands << 8 | waits << 11
    return f"        /*0010*/    {text} ;   /* 0x0000000405057227 */\n    /* 0x{fields << 41:016x} */"


def disassembly(*lines: str) -> str:
    return "\n".join([".text._ZN8paceline4cuda3addILi2EEEvPf:", *lines])


def only_loop(code: Any, text: str) -> Any:
    ((_, lines),) = code.kernels(text).items()
    ((begin, end),) = code.innermost_loops(lines, 1)
    return code.hot_path(lines, begin, end)


def test_instructions_are_read_with_what_the_scheduler_is_told(script: Any) -> None:
    code, cycles = script("gpu_code"), script("gpu_cycles")
    found = code.kernels(
        disassembly(line("@!P1 LDG.E.64 R4, [R2]", 4, result=3, operands=1, waits=0b100010), ".L_x_1:")
    )
    assert [cycles.short(name) for name in found] == ["addILi2"]
    (one, label) = found["_ZN8paceline4cuda3addILi2EEEvPf"]
    assert (one.text, one.kind, one.conditional) == ("LDG.E.64 R4, [R2]", "LDG", True)
    assert (one.stall, one.result, one.operands, one.waits) == (4, 3, 1, (1, 5))
    assert label == ".L_x_1"


def test_the_hot_path_has_the_most_products_and_skips_what_it_can(script: Any) -> None:
    text = disassembly(
        ".L_x_1:",
        line("@P0 BRA `(.L_x_2)"),  # past a product: not taken
        line("FFMA R1, R2, R3, R1"),
        ".L_x_2:",
        line("@P1 BRA `(.L_x_3)"),  # past what has none: taken
        line("MOV R1, R2"),
        line("@P2 EXIT"),
        ".L_x_3:",
        line("HMMA.16816.F32 R4, R8, R10, R4"),
        line("BRA.DIV UR9, `(.L_x_4)"),
        line("@P3 BRA `(.L_x_1)"),
        line("EXIT"),
        ".L_x_4:",
        line("BRA `(.L_x_1)"),  # a way back from outside the loop
    )
    ((_, lines),) = script("gpu_code").kernels(text).items()
    loops = list(script("gpu_code").innermost_loops(lines, 2))
    path = script("gpu_code").hot_path(lines, *loops[0])
    assert [one.kind for one in path] == ["BRA", "FFMA", "BRA", "HMMA", "BRA", "BRA"]
    assert list(script("gpu_code").innermost_loops(lines, 3)) == []


def test_a_loop_without_a_way_back_has_no_path(script: Any) -> None:
    text = disassembly(".L_x_1:", line("FFMA R1, R2, R3, R1"), line("EXIT"), line("BRA `(.L_x_1)"))
    assert only_loop(script("gpu_code"), text) == []


def test_a_unit_is_shared_by_the_warps_of_a_quarter(script: Any) -> None:
    code, cycles = script("gpu_code"), script("gpu_cycles").cycles_of
    end = line("BRA `(.L_x_1)")
    integers = [line("LOP3.LUT R1, R2, R3, R4")] * 8  # two cycles each
    loop = only_loop(code, disassembly(".L_x_1:", *integers, line("FFMA R5, R6, R7, R5"), end))
    assert cycles(loop, 1, 0.0) == pytest.approx((8 * 2 + 1) / 4, rel=0.05)  # by four quarters; the rest fits between
    assert cycles(loop, 4, 0.0) == pytest.approx((8 * 2 + 1) / 4, rel=0.05)
    floats = [line("FFMA R5, R6, R7, R5", stall=4)] * 8
    loop = only_loop(code, disassembly(".L_x_1:", *floats, end))
    assert cycles(loop, 1, 0.0) == pytest.approx((8 * 4 + 1) / 4, rel=0.05)
    assert cycles(loop, 4, 0.0) == pytest.approx((8 + 1) / 4, rel=0.1)  # others issue while one stalls


def test_a_warp_waits_for_what_it_loads_and_others_fill_the_time(script: Any) -> None:
    loop = only_loop(
        script("gpu_code"),
        disassembly(
            ".L_x_1:",
            line("LDG.E R4, [R2]", result=0),
            line("FFMA R5, R4, R7, R5", waits=1),
            line("BRA `(.L_x_1)", stall=5),
        ),
    )
    cycles = script("gpu_cycles")
    near, far = cycles.cycles_of(loop, 1, 0.0), cycles.cycles_of(loop, 1, 1.0)
    assert near == pytest.approx((cycles.LATENCY["LDG"] + 6) / 4, rel=0.15)
    assert far - near == pytest.approx((cycles.L2_LATENCY - cycles.LATENCY["LDG"]) / 4, rel=0.05)
    assert cycles.cycles_of(loop, 4, 1.0) == pytest.approx(far / 4, rel=0.1)
    assert near < cycles.cycles_of(loop, 1, 0.5) < far


def test_its_command_line_tells_what_is_missing(script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cycles = script("gpu_cycles")
    monkeypatch.setattr(cycles, "PTX", tmp_path)
    monkeypatch.setattr(sys, "argv", ["gpu_cycles.py", "product_256"])
    with pytest.raises(SystemExit, match=r"no PTX of product_256 in .*: run scripts/compile_cuda --keep 90a"):
        cycles.main()


def test_it_prints_a_line_for_each_loop(
    script: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cycles = script("gpu_cycles")
    text = disassembly(".L_x_1:", line("FFMA R1, R2, R3, R1"), line("BRA `(.L_x_1)"))
    monkeypatch.setattr(cycles, "disassembled", lambda name: text)
    monkeypatch.setattr(sys, "argv", ["gpu_cycles.py", "x", "--products", "1"])
    cycles.main()
    (printed,) = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"addILi2 +\d+\.\d cycles, 2 instructions: 1 float, 1 other", printed)
    monkeypatch.setattr(sys, "argv", ["gpu_cycles.py", "x", "--products", "1", "--only", "multiply"])
    cycles.main()
    assert capsys.readouterr().out == ""
