"""PTX as text: kernels, tables and statements, as nvcc writes them for our kernels. A module of ptx_to_cpp.py."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path


class Unknown(Exception):
    """PTX that has no meaning here."""


@dataclass(frozen=True)
class Table:
    """`.global` data: its name, alignment, and bytes."""

    name: str
    alignment: int
    data: tuple[int, ...]


@dataclass(frozen=True)
class Statement:
    """A label (`opcode` ends with a colon), a declaration (begins with a dot), a brace, or an instruction."""

    opcode: str
    operands: tuple[str, ...] = ()
    guard: str = ""  # a predicate register, with ! before it


@dataclass
class Kernel:
    name: str
    parameters: list[int] = field(default_factory=list)  # bytes of each
    most_threads: int = 1024
    body: list[Statement] = field(default_factory=list)


SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}
_TABLE = re.compile(r"\.global\s+\.align\s+(\d+)\s+\.b8\s+([\w$]+)\[(\d+)\]\s*=\s*\{([^}]*)\};")
_KERNEL = re.compile(r"(?:\.visible\s+|\.weak\s+)?\.entry\s+([\w$]+)\s*\(([^)]*)\)([^{]*)\{")
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.[busf](8|16|32|64)\s+([\w$]+)(?:\[(\d+)\])?")


def target(text: str) -> int:
    """`.target sm_90a` -> 90."""
    found = re.search(r"^\.target\s+sm_(\d+)", text, re.M)
    if not found:
        raise Unknown("no .target")
    return int(found[1])


def tables(text: str) -> Iterator[Table]:
    for found in _TABLE.finditer(text):
        data = tuple(int(word) for word in found[4].split(","))
        yield Table(found[2], int(found[1]), data + (0,) * (int(found[3]) - len(data)))


def kernels(text: str) -> Iterator[Kernel]:
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"^(\s*\.loc\b.*)$", r"\1;", text, flags=re.M)  # .loc alone has no semicolon
    if re.search(r"^\s*(?:\.visible\s+|\.weak\s+)?\.func\b", text, re.M):
        raise Unknown("a .func: kernels that call functions")
    for found in _KERNEL.finditer(text):
        kernel = Kernel(found[1])
        for i, words in enumerate(_operands(found[2])):
            parameter = _PARAMETER.fullmatch(words)
            if not parameter or parameter[2] != f"{kernel.name}_param_{i}":
                raise Unknown(f"{kernel.name}: the parameter {words}")
            kernel.parameters.append(SIZES[parameter[1]] * int(parameter[3] or 1))
        most = re.search(r"\.maxntid\s+(\d+)", found[3])
        kernel.most_threads = int(most[1]) if most else 1024
        kernel.body = list(statements(text[found.end() : _end(text, found.end())]))
        yield kernel


def sources(text: str) -> dict[str, str]:
    """Numbers of source files, as .loc uses them -> their names."""
    return {number: Path(name).name for number, name in re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', text, re.M)}


# Where an inline function of these is used is of interest, not where in it.
_EVERYWHERE = ("compat.h", "intrinsics.h", "intrinsics.hpp", "functions.hpp")


def place_of(words: str, names: Mapping[str, str]) -> tuple[str, int] | None:
    """File and line of a .loc's operands, of the innermost function that is not used everywhere."""
    for found in re.finditer(r"(?:^|inlined_at )(\d+) (\d+) \d+", words):
        name = names.get(found[1], "?")
        if not name.endswith(_EVERYWHERE):
            return name, int(found[2])
    return None


def _end(text: str, begin: int) -> int:
    """Where the brace that was opened before `begin` is closed."""
    depth = 1
    for found in re.compile(r"[{}]").finditer(text, begin):
        depth += 1 if found[0] == "{" else -1
        if not depth:
            return found.start()
    raise Unknown("a kernel without an end")


_STATEMENT = re.compile(r"\s*(?:(\$?\w+):|(\{)|(\})|(?:@(!?%\w+)\s+)?([.a-z][\w.:]*)\s*([^;]*);)")


def statements(text: str) -> Iterator[Statement]:
    at, text = 0, text.rstrip()
    while at < len(text):
        found = _STATEMENT.match(text, at)
        if not found:
            raise Unknown(text[at : at + 80].strip())
        at = found.end()
        label, opened, closed, guard, opcode, rest = found.groups()
        if opcode:
            yield Statement(opcode, tuple(_operands(rest)), guard or "")
        else:
            yield Statement(f"{label}:" if label else opened or closed)


def _operands(text: str) -> Iterator[str]:
    """Divided by the commas that are in no braces."""
    depth, begin = 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "{[") - (letter in "}]")
        if letter == "," and not depth:
            yield text[begin:at].strip()
            begin = at + 1
    if text[begin:].strip():
        yield text[begin:].strip()
