"""nvcc's code of a kernel, as `nvdisasm -hex -c` prints it: instructions, with what the compiler wrote into them for
the scheduler, and the hot paths of loops.

Of an instruction's 128 bits, bits 105 to 121 are for the scheduler: how many cycles the warp waits before its next
instruction; which of six barriers its result releases, and which the reading of its operands; a mask of those that it
waits for. (Undocumented, but the same since Volta.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

NO_BARRIER = 7
LABEL = re.compile(r"(\.L_\w+):")
FIRST = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?);\s+/\* 0x[0-9a-f]{16} \*/")
SECOND = re.compile(r"\s+/\* 0x([0-9a-f]{16}) \*/")
TARGET = re.compile(r"\((\.L_\w+)\)")


@dataclass(frozen=True)
class Instruction:
    """text: without its predicate; stall: cycles until the warp's next instruction; result, operands: the barriers that
    are released when there is a result, and when the operands have been read, or None; waits: for which."""

    text: str
    conditional: bool
    stall: int
    result: int | None
    operands: int | None
    waits: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.text.split()[0]

    @property
    def kind(self) -> str:
        """LDG.E.64 is an LDG."""
        return self.name.split(".")[0]

    @property
    def target(self) -> str | None:
        """Of a branch that is not taken to bring a warp's lanes together again."""
        found = TARGET.search(self.text) if self.kind == "BRA" and "DIV" not in self.name else None
        return found[1] if found else None


Line = str | Instruction  # a label, or an instruction
Path = list[Instruction]
Best = dict[int, tuple[int, tuple[int, int] | None]]


def instruction(text: str, upper: int) -> Instruction:
    """upper: the upper 64 bits."""
    fields = upper >> 41
    barriers = [field if field != NO_BARRIER else None for field in (fields >> 5 & 7, fields >> 8 & 7)]
    waits = tuple(barrier for barrier in range(6) if fields >> (11 + barrier) & 1)
    words = re.fullmatch(r"(@!?U?P\w+\s+)?(.*)", text.strip())
    assert words
    return Instruction(words[2].strip(), bool(words[1]), max(1, fields & 15), *barriers, waits)


def kernels(disassembly: str) -> dict[str, list[Line]]:
    """By their mangled names."""
    found: dict[str, list[Line]] = {}
    own: list[Line] = []
    text = ""
    for line in disassembly.splitlines():
        if line.startswith(".text."):
            own = found[line.strip()[len(".text.") : -1]] = []
        elif label := LABEL.match(line):
            own.append(label[1])
        elif first := FIRST.match(line):
            text = first[1]
        elif text and (second := SECOND.match(line)):
            own.append(instruction(text, int(second[1], 16)))
            text = ""
    return found


def is_product(line: Line) -> bool:
    return isinstance(line, Instruction) and ("MMA" in line.kind or line.kind == "FFMA")


def innermost_loops(code: list[Line], least: int) -> Iterator[tuple[int, int]]:
    """From its label to its branch back, of each loop with `least` products in it and no such loop inside."""
    places = {line: at for at, line in enumerate(code) if isinstance(line, str)}
    jumps = [
        (places.get(line.target or "", at + 1), at) for at, line in enumerate(code) if isinstance(line, Instruction)
    ]
    loops = [(begin, end) for begin, end in jumps if begin <= end and sum(map(is_product, code[begin:end])) >= least]
    for begin, end in loops:
        if not any((begin, end) != other and begin <= other[0] and other[1] <= end for other in loops):
            yield begin, end


def hot_path(code: list[Line], begin: int, end: int) -> Path:
    """One turn of a loop: of the ways with the most products, that with the fewest instructions. Empty where none
    leads back."""
    places = {line: at for at, line in enumerate(code) if isinstance(line, str)}
    # At each place, by the number of products so far: how many instructions, and the place and products before it.
    reached: dict[int, Best] = {begin: {0: (0, None)}}
    back: Best = {}
    for at in range(begin, end + 1):
        line = code[at]
        following = [at + 1]
        if isinstance(line, Instruction) and (target := line.target):
            place = places.get(target, -1)
            following = [at + 1] if line.conditional else []
            following += [place] if place == begin or at < place <= end else []
        elif isinstance(line, Instruction) and line.kind in ("EXIT", "RET") and not line.conditional:
            following = []
        more, length = int(is_product(line)), int(isinstance(line, Instruction))
        for place in following:
            best = back if place == begin else reached.setdefault(place, {})
            for products, (count, _) in reached.get(at, {}).items():
                if count + length < best.get(products + more, (1 << 30, None))[0]:
                    best[products + more] = (count + length, (at, products))
    path: Path = []
    step = back[max(back)][1] if back else None
    while step:
        line = code[step[0]]
        if isinstance(line, Instruction):
            path.append(line)
        step = reached[step[0]][step[1]][1]
    return path[::-1]
