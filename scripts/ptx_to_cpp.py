#!/usr/bin/env python3
"""Translates what nvcc compiles kernels to into C++, so that it runs on the emulated device.

    scripts/ptx_to_cpp.py FILE.ptx … --out FOLDER      FOLDER/FILE.cpp of each, FILE up to its first point

A thread of a kernel is a call of its function; native/emulate/ptx.h says what the instructions do. Ends with code 1
and a sentence at the first instruction that has no meaning there.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from ptx_instructions import write
from ptx_operands import REGISTERS, Operands
from ptx_text import Kernel, Statement, Table, Unknown, kernels, place_of, sources, tables, target


def translated(text: str) -> str:
    """The C++ file of a PTX file."""
    known = list(tables(text))
    parts = ['#include "native/emulate/ptx.h"', "", "namespace paceline::ptx {", "namespace {", ""]
    parts += [_table(i, table) for i, table in enumerate(known)]
    symbols = {table.name: f"reinterpret_cast<u64>(table{i})" for i, table in enumerate(known)}
    extern = re.findall(r"\.extern\s+\.shared\s+\.align\s+\d+\s+\.b8\s+([\w$]+)\[\]", text)
    symbols |= dict.fromkeys(extern, "kSharedWindow")
    found = list(kernels(text))
    for i, kernel in enumerate(found):
        parts += [*_function(f"kernel{i}", kernel, symbols, sources(text)), ""]
    for i, kernel in enumerate(found):
        parts += _entry(i, kernel, target(text))
    return "\n".join([*parts, "", "}  // namespace", "}  // namespace paceline::ptx", ""])


def _table(i: int, table: Table) -> str:
    data = ", ".join(str(value) for value in table.data)
    return f"alignas({table.alignment}) const u8 table{i}[] = {{{data}}};"


def _entry(i: int, kernel: Kernel, architecture: int) -> list[str]:
    sizes = ", ".join(str(size) for size in kernel.parameters) or "0"
    return [
        f"const unsigned bytes{i}[] = {{{sizes}}};",
        f'[[maybe_unused]] const bool known{i} = know({{"{kernel.name}", {architecture}, {kernel.most_threads}, '
        f"{len(kernel.parameters)}, bytes{i}, kernel{i}}});",
    ]


def _function(name: str, kernel: Kernel, symbols: dict[str, str], files: dict[str, str]) -> list[str]:
    own = {f"{kernel.name}_param_{i}": f"reinterpret_cast<u64>(parameters[{i}])" for i in range(len(kernel.parameters))}
    operands = Operands(symbols | own)
    lines = []
    for statement in kernel.body:
        try:
            lines.append(_statement(statement, operands, files))
        except (Unknown, KeyError, ValueError) as problem:
            words = f"{statement.opcode} {', '.join(statement.operands)}"
            raise Unknown(f"{kernel.name}: {words}: {problem}") from problem
    sites = ", ".join(f'{{"{file}", {line}}}' for file, line in operands.sites) or '{"", 0}'
    head = [f"void {name}(const u8* const* parameters) {{", f"static constexpr Site sites[] = {{{sites}}};"]
    return [*head, "const Here me = here();", *lines, "(void)me; (void)parameters;", "}"]


def _statement(statement: Statement, operands: Operands, files: dict[str, str]) -> str:
    opcode = statement.opcode
    if opcode in ("{", "}"):
        return opcode
    if opcode.endswith(":"):
        return f"{opcode.lstrip('$')};"
    if opcode == ".pragma":
        return ""
    if opcode == ".loc":
        operands.place = place_of(" ".join(statement.operands), files) or operands.place
        return ""
    if opcode == ".reg":
        return _registers(statement.operands, operands)
    if opcode == ".local":
        found = re.fullmatch(r"\.align\s+(\d+)\s+\.b8\s+(\w+)\[(\d+)\]", statement.operands[0])
        if not found:
            raise Unknown("a .local that is no array of bytes")
        operands.symbols[found[2]] = f"reinterpret_cast<u64>({found[2]})"
        return f"alignas({found[1]}) u8 {found[2]}[{found[3]}];"
    return write(statement, operands)


def _registers(words: tuple[str, ...], operands: Operands) -> str:
    kind, rest = words[0].split(None, 1)
    names = []
    for one in (rest, *words[1:]):
        found = re.fullmatch(r"%(\w+)<(\d+)>", one.strip())
        names += [f"{found[1]}{i}_" for i in range(1, int(found[2]))] if found else [one.strip().lstrip("%") + "_"]
    operands.registers |= dict.fromkeys(names, REGISTERS[kind.lstrip(".")])
    return f"{REGISTERS[kind.lstrip('.')]} {', '.join(names)};" if names else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.ptx")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the C++ files")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    names = [path.stem.split(".")[0] for path in options.files]
    if len(set(names)) < len(names):
        print("two of the files have one name", file=sys.stderr)
        return 1
    for path in options.files:
        try:
            text = translated(path.read_text())
        except Unknown as problem:
            print(f"{path}: {problem}", file=sys.stderr)
            return 1
        out = options.out / f"{path.stem.split('.')[0]}.cpp"
        if not out.exists() or out.read_text() != text:  # else what was compiled of it still holds
            out.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
