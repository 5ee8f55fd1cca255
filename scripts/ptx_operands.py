"""Registers, literals and addresses of PTX in C++. A module of ptx_to_cpp.py.

Register %r1 is r1_ there. Those of type .f32 are floats, predicates bools, all others unsigned integers of their width.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ptx_text import SIZES, Unknown

REGISTERS = {
    "pred": "bool", "b16": "u16", "u16": "u16", "s16": "u16", "b32": "u32", "u32": "u32", "s32": "u32",
    "b64": "u64", "u64": "u64", "s64": "u64", "f32": "f32", "f64": "f64",
}  # fmt: skip
SPECIAL = {
    "%tid.x": "me.tid_x", "%ntid.x": "me.ntid_x",
    "%ctaid.x": "me.ctaid_x", "%ctaid.y": "me.ctaid_y", "%ctaid.z": "me.ctaid_z",
}  # fmt: skip


class Operands:
    """Of a kernel.

    registers: name -> C++ type; symbols: name -> C++ address; sites: the source lines of instructions that say where
    they are, to which the C++ refers as `sites[i]`; place: the source line of what is written next.
    """

    def __init__(self, symbols: Mapping[str, str]) -> None:
        self.registers: dict[str, str] = {}
        self.symbols = dict(symbols)
        self.sites: list[tuple[str, int]] = []
        self.place = ("?", 0)

    def site(self) -> str:
        self.sites.append(self.place)
        return f"sites[{len(self.sites) - 1}]"

    def name(self, register: str) -> str:
        name = register.lstrip("%") + "_"  # f32 is a type
        if name not in self.registers:
            raise Unknown(f"register {register}")
        return name

    def value(self, operand: str, kind: str) -> str:
        """As a C++ value of a type of PTX: u32, s32, f32, b32, pred, …; what is wider is cut."""
        kind = kind.replace("b", "u") if kind[0] == "b" else kind
        if operand in SPECIAL:
            return f"({kind}){SPECIAL[operand]}"
        if operand in self.symbols:
            return f"({kind}){self.symbols[operand]}"
        if operand.startswith("0f"):
            bits = f"0x{operand[2:]}u"
            return f"std::bit_cast<f32>({bits})" if kind == "f32" else bits
        if operand.startswith("0d"):
            bits = f"0x{operand[2:]}ull"
            return f"std::bit_cast<f64>({bits})" if kind == "f64" else bits
        if not operand.startswith("%"):
            return self._literal(operand, kind)
        name = self.name(operand)
        own = self.registers[name]
        if kind in ("f32", "f64") or own in ("f32", "f64"):
            return name if kind == own else f"std::bit_cast<{kind}>({name})"
        return name if kind in (own, "pred") else f"({kind}){name}"

    def _literal(self, operand: str, kind: str) -> str:
        if not re.fullmatch(r"-?(\d+|0x[0-9a-fA-F]+)", operand):
            raise Unknown(f"operand {operand}")
        number = int(operand, 0)
        if kind == "pred":
            return "true" if number else "false"
        bits = 8 * SIZES[kind[1:]]
        return f"({kind})0x{number % (1 << bits):x}ull"

    def put(self, register: str, value: str, kind: str) -> str:
        """Assigns a value of that type; one narrower than the register is extended, with its sign if it has one."""
        if register == "_":
            return f"(void)({value});"
        name = self.name(register)
        own = self.registers[name]
        kind = kind.replace("b", "u") if kind[0] == "b" else kind
        if own == kind or (own == "bool" and kind == "pred"):
            return f"{name} = {value};"
        if own in ("f32", "f64") or kind in ("f32", "f64"):
            return f"{name} = std::bit_cast<{own}>(({value}));"
        if kind[0] == "s":
            return f"{name} = ({own})(s{own[1:]})({kind})({value});"
        return f"{name} = ({kind})({value});"

    def address(self, operand: str, width: str) -> str:
        found = re.fullmatch(r"\[\s*([%\w$.]+)\s*(?:\+\s*(-?\d+))?\s*\]", operand)
        if not found:
            raise Unknown(f"address {operand}")
        base = self.value(found[1], width)
        return f"{base} + ({width}){found[2]}" if found[2] else base


def members(vector: str) -> list[str]:
    return [one.strip() for one in vector.strip("{} ").split(",")]


def cpp(kind: str) -> str:
    return "u" + kind[1:] if kind[0] == "b" else kind
