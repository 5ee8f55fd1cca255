"""C++ for one PTX instruction, made of native/emulate/ptx.h. A module of ptx_to_cpp.py.

Register %r1 is r1_ there. Those of type .f32 are floats, predicates bools, all others unsigned integers of their width.
What has no meaning here raises Unknown: nothing is passed over in silence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ptx_text import SIZES, Statement, Unknown

REGISTERS = {
    "pred": "bool", "b16": "u16", "u16": "u16", "s16": "u16", "b32": "u32", "u32": "u32", "s32": "u32",
    "b64": "u64", "u64": "u64", "s64": "u64", "f32": "f32", "f64": "f64",
}  # fmt: skip
SPECIAL = {
    "%tid.x": "me.tid_x", "%ntid.x": "me.ntid_x",
    "%ctaid.x": "me.ctaid_x", "%ctaid.y": "me.ctaid_y", "%ctaid.z": "me.ctaid_z",
}  # fmt: skip
ORDERED = {"eq": "==", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
NEGATED = {"neu": "==", "ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<"}  # "or no number": not the ordered opposite
FLOAT_FUNCTIONS = {
    "fma": "fma", "sqrt": "square_root", "neg": "negated", "abs": "absolute", "min": "least", "max": "most",
}  # fmt: skip
MATRICES = {"u8.s8": "U8", "s8.s8": "S8", "f16.f16": "F16", "bf16.bf16": "Brain"}


class Writer:
    """Writes a kernel's instructions.

    registers: name -> C++ type; symbols: name -> C++ address; sites: the source lines of those that access memory, to
    which the C++ refers as `sites[i]`; place: the source line of what is written next.
    """

    def __init__(self, symbols: Mapping[str, str]) -> None:
        self.registers: dict[str, str] = {}
        self.symbols = dict(symbols)
        self.sites: list[tuple[str, int]] = []
        self.place = ("?", 0)

    def site(self) -> str:
        self.sites.append(self.place)
        return f"sites[{len(self.sites) - 1}]"

    def write(self, statement: Statement) -> str:
        for pattern, method in _MEANINGS:
            found = pattern.fullmatch(statement.opcode)
            if found:
                text = method(self, statement.operands, *found.groups())
                if statement.guard:
                    no = "!" if statement.guard.startswith("!") else ""
                    text = f"if ({no}{self.name(statement.guard.lstrip('!'))}) {{ {text} }}"
                return text
        raise Unknown(f"{statement.opcode} {', '.join(statement.operands)}")

    # Operands.

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

    # Instructions: each method has the operands, and what its pattern found.

    def move(self, operands: tuple[str, ...], kind: str) -> str:
        to, source = operands
        if to.startswith("{"):  # halves of a wider register
            low, high = _members(to)
            half = f"u{int(kind[1:]) // 2}"
            wide = f"(u{kind[1:]}){self.value(source, kind)}"
            shift = int(kind[1:]) // 2
            puts = f"{self.put(low, f'({half})w', half)} {self.put(high, f'({half})(w >> {shift})', half)}"
            return f"{{ const auto w = {wide}; {puts} }}"
        if source.startswith("{"):
            low, high = _members(source)
            half = f"u{int(kind[1:]) // 2}"
            wide = f"u{kind[1:]}"
            both = f"({wide})({self.value(high, half)}) << {int(kind[1:]) // 2} | ({wide})({self.value(low, half)})"
            return self.put(to, both, kind)
        return self.put(to, self.value(source, kind), kind)

    def load_parameter(self, operands: tuple[str, ...], many: str | None, kind: str) -> str:
        return self._load(
            operands, many, kind, f"reinterpret_cast<const {_cpp(kind)}*>({self.address(operands[1], 'u64')})"
        )

    def load(self, operands: tuple[str, ...], space: str | None, many: str | None, kind: str) -> str:
        return self._load(operands, many, kind, self._place(operands[1], space, many, kind, "Load"))

    def load_read_only(self, operands: tuple[str, ...], many: str | None, kind: str) -> str:
        return self._load(operands, many, kind, self._place(operands[1], "global", many, kind, "ReadOnly"))

    def _load(self, operands: tuple[str, ...], many: str | None, kind: str, place: str) -> str:
        into = _members(operands[0]) if many else [operands[0]]
        puts = " ".join(self.put(one, f"q[{i}]", kind) for i, one in enumerate(into))
        return f"{{ const auto* q = {place}; {puts} }}"

    def store(self, operands: tuple[str, ...], space: str | None, many: str | None, kind: str) -> str:
        values = _members(operands[1]) if many else [operands[1]]
        puts = " ".join(f"q[{i}] = {self.value(one, kind)};" for i, one in enumerate(values))
        return f"{{ auto* q = {self._place(operands[0], space, many, kind, 'Store')}; {puts} }}"

    def _place(self, operand: str, space: str | None, many: str | None, kind: str, use: str) -> str:
        kinds = f"<{_cpp(kind)}, {({None: 1, 'v2': 2, 'v4': 4})[many]}, Use::{use}>"
        if space == "shared":
            return f"at_shared{kinds}({self.site()}, me, {self.address(operand, 'u32')})"
        return f"at{kinds}({self.site()}, {self.address(operand, 'u64')})"

    def arithmetic(self, operands: tuple[str, ...], operation: str, kind: str) -> str:
        sign = {"add": "+", "sub": "-", "mul.lo": "*"}[operation]
        unsigned = "u" + kind[1:]  # wraps
        to, a, b = operands
        return self.put(to, f"({unsigned})({self.value(a, unsigned)} {sign} {self.value(b, unsigned)})", unsigned)

    def multiply_add(self, operands: tuple[str, ...], kind: str) -> str:
        unsigned = "u" + kind[1:]
        to, a, b, c = (self.value(one, unsigned) if i else one for i, one in enumerate(operands))
        return self.put(to, f"{a} * {b} + {c}", unsigned)

    def multiply_wide(self, operands: tuple[str, ...], kind: str) -> str:
        to, a, b = operands
        wide = f"{kind[0]}{2 * int(kind[1:])}"
        return self.put(to, f"({wide}){self.value(a, kind)} * ({wide}){self.value(b, kind)}", wide)

    def logic(self, operands: tuple[str, ...], operation: str, kind: str) -> str:
        to, a, b = operands
        sign = {"and": "&", "or": "|", "xor": "^"}[operation]
        if kind == "pred":
            return self.put(to, f"(bool)({self.value(a, kind)} {sign} {self.value(b, kind)})", kind)
        return self.put(to, f"{self.value(a, kind)} {sign} {self.value(b, kind)}", kind)

    def complement(self, operands: tuple[str, ...], kind: str) -> str:
        return self.put(operands[0], ("!" if kind == "pred" else "~") + self.value(operands[1], kind), kind)

    def negate(self, operands: tuple[str, ...], kind: str) -> str:
        return self.put(operands[0], f"0 - {self.value(operands[1], 'u' + kind[1:])}", "u" + kind[1:])

    def shift(self, operands: tuple[str, ...], way: str, kind: str) -> str:
        to, a, n = operands
        return self.put(to, f"{way}({self.value(a, kind)}, {self.value(n, 'u32')})", kind)

    def integer_function(self, operands: tuple[str, ...], name: str, kind: str) -> str:
        function = {"div": "divide", "rem": "remainder", "min": "least", "max": "most"}[name]
        to, a, b = operands
        return self.put(to, f"{function}<{kind}>({self.value(a, kind)}, {self.value(b, kind)})", kind)

    def insert(self, operands: tuple[str, ...]) -> str:
        to, *given = operands
        return self.put(to, f"insert_bits({', '.join(self.value(one, 'u32') for one in given)})", "b32")

    def permute(self, operands: tuple[str, ...]) -> str:
        to, *given = operands
        return self.put(to, f"permute({', '.join(self.value(one, 'u32') for one in given)})", "b32")

    def float_arithmetic(self, operands: tuple[str, ...], operation: str, kind: str) -> str:
        to, a, b = operands
        sign = {"add": "+", "sub": "-", "mul": "*", "div": "/"}[operation]
        return self.put(to, f"canonical({self.value(a, kind)} {sign} {self.value(b, kind)})", kind)

    def float_function(self, operands: tuple[str, ...], name: str) -> str:
        to, *given = operands
        function = FLOAT_FUNCTIONS[name]
        return self.put(to, f"{function}({', '.join(self.value(one, 'f32') for one in given)})", "f32")

    def reciprocal(self, operands: tuple[str, ...]) -> str:
        return self.put(operands[0], f"canonical(1.0f / {self.value(operands[1], 'f32')})", "f32")

    def compare(self, operands: tuple[str, ...], relation: str, kind: str) -> str:
        to, a, b = operands[0], self.value(operands[1], kind), self.value(operands[2], kind)
        if relation == "num":
            text = f"{a} == {a} && {b} == {b}"
        elif relation == "nan":
            text = f"{a} != {a} || {b} != {b}"
        elif relation == "ne":
            text = f"{a} < {b} || {a} > {b}" if kind[0] == "f" else f"{a} != {b}"
        elif relation in ORDERED:
            text = f"{a} {ORDERED[relation]} {b}"
        else:
            text = f"!({a} {NEGATED[relation]} {b})"
        return self.put(to, text, "pred")

    def select(self, operands: tuple[str, ...], kind: str) -> str:
        to, a, b, which = operands
        return self.put(to, f"{self.value(which, 'pred')} ? {self.value(a, kind)} : {self.value(b, kind)}", kind)

    def convert_integer(self, operands: tuple[str, ...], to_kind: str, from_kind: str) -> str:
        return self.put(operands[0], f"({to_kind})({from_kind})({self.value(operands[1], from_kind)})", to_kind)

    def to_float(self, operands: tuple[str, ...], to_kind: str, from_kind: str) -> str:
        return self.put(operands[0], f"({to_kind})({from_kind})({self.value(operands[1], from_kind)})", to_kind)

    def to_integer(self, operands: tuple[str, ...], kind: str) -> str:
        return self.put(operands[0], f"to_{kind}({self.value(operands[1], 'f32')})", kind)

    def widen(self, operands: tuple[str, ...]) -> str:
        return self.put(operands[0], f"(f64){self.value(operands[1], 'f32')}", "f64")

    def convert_small(self, operands: tuple[str, ...], way: str) -> str:
        to, *given = operands
        function, from_kind, to_kind = {
            "f32.f16": ("from_half", "u16", "f32"),
            "rn.f16.f32": ("to_half", "f32", "b16"),
            "rn.bf16.f32": ("to_brain", "f32", "b16"),
            "rn.bf16x2.f32": ("to_brains", "f32", "b32"),
        }[way]
        return self.put(to, f"{function}({', '.join(self.value(one, from_kind) for one in given)})", to_kind)

    def multiply_halves(self, operands: tuple[str, ...]) -> str:
        to, a, b = operands
        return self.put(to, f"multiply_halves({self.value(a, 'u32')}, {self.value(b, 'u32')})", "b32")

    def same_address(self, operands: tuple[str, ...]) -> str:
        return self.put(operands[0], self.value(operands[1], "u64"), "u64")

    def shared_address(self, operands: tuple[str, ...], to: str | None) -> str:
        function = "to_shared" if to else "from_shared"
        return self.put(operands[0], f"{function}(me, {self.value(operands[1], 'u64')})", "u64")

    def shuffle(self, operands: tuple[str, ...]) -> str:
        to, *given = operands
        register, _, inside = to.partition("|")
        puts = self.put(register, "s.value", "b32") + (self.put(inside, "s.inside", "pred") if inside else "")
        return f"{{ const auto s = shuffle({', '.join(self.value(one, 'u32') for one in given)}); {puts} }}"

    def vote(self, operands: tuple[str, ...]) -> str:
        to, own, lanes = operands
        return self.put(to, f"any({self.value(own, 'pred')}, {self.value(lanes, 'u32')})", "pred")

    def multiply_matrices(self, operands: tuple[str, ...], depth: str, to_kind: str, kinds: str) -> str:
        d, a, b, c = (_members(one) for one in operands)
        given = [*a, *["0"] * (4 - len(a))], [*b, *["0"] * (2 - len(b))], c
        fragments = ", ".join("{" + ", ".join(self.value(one, "u32") for one in part) + "}" for part in given)
        puts = " ".join(self.put(one, f"d[{i}]", "u32") for i, one in enumerate(d))
        if (to_kind == "s32") != (MATRICES[kinds] in ("U8", "S8")):
            raise Unknown(f"mma to {to_kind} of {kinds}")
        return f"{{ u32 d[4]; mma<Kind::{MATRICES[kinds]}, {depth}>({self.site()}, {{{fragments}}}, d); {puts} }}"

    def sync_block(self, operands: tuple[str, ...]) -> str:
        if operands != ("0",):
            raise Unknown("a barrier of other threads than all of the block")
        return f"emulate::meet_block(&{self.site()});"

    def sync_warp(self, operands: tuple[str, ...]) -> str:
        return f"sync_warp({self.value(operands[0], 'u32')});"

    def copy_async(self, operands: tuple[str, ...]) -> str:
        to, source, count = operands
        places = f"{self.address(to, 'u32')}, {self.address(source, 'u64')}"
        return f"copy_async({self.site()}, me, {places}, {self.value(count, 'u64')});"

    def commit_copies(self, operands: tuple[str, ...]) -> str:
        return "emulate::commit_copies();"

    def wait_copies(self, operands: tuple[str, ...]) -> str:
        return f"emulate::wait_copies({operands[0]});"

    def prefetch(self, operands: tuple[str, ...]) -> str:
        return f"prefetch({self.address(operands[0], 'u64')});"

    def wait_for_earlier(self, operands: tuple[str, ...]) -> str:
        return "emulate::note_wait();"

    def let_next_begin(self, operands: tuple[str, ...]) -> str:
        return ""

    def branch(self, operands: tuple[str, ...]) -> str:
        return f"goto {operands[0].lstrip('$')};"

    def leave(self, operands: tuple[str, ...]) -> str:
        return "return;"


def _members(vector: str) -> list[str]:
    return [one.strip() for one in vector.strip("{} ").split(",")]


def _cpp(kind: str) -> str:
    return "u" + kind[1:] if kind[0] == "b" else kind


_INT = r"([us](?:16|32|64))"
_ANY = r"([busf](?:8|16|32|64))"
_MEANINGS = [
    (re.compile(pattern), method)
    for pattern, method in (
        (r"mov\.((?:[busf](?:16|32|64))|pred)", Writer.move),
        (rf"ld\.param(?:\.(v2|v4))?\.{_ANY}", Writer.load_parameter),
        (rf"ld(?:\.(global|shared|local))?(?:\.(v2|v4))?\.{_ANY}", Writer.load),
        (rf"ld\.global\.nc(?:\.L1::no_allocate)?(?:\.(v2|v4))?\.{_ANY}", Writer.load_read_only),
        (rf"st(?:\.(global|shared|local))?(?:\.(v2|v4))?\.{_ANY}", Writer.store),
        (rf"(add|sub|mul\.lo)\.{_INT}", Writer.arithmetic),
        (rf"mad\.lo\.{_INT}", Writer.multiply_add),
        (r"mul\.wide\.([us](?:16|32))", Writer.multiply_wide),
        (r"(and|or|xor)\.(b16|b32|b64|pred)", Writer.logic),
        (r"not\.(b16|b32|b64|pred)", Writer.complement),
        (r"neg\.(s16|s32|s64)", Writer.negate),
        (r"(shl)\.(b16|b32|b64)", Writer.shift),
        (rf"(shr)\.{_INT}", Writer.shift),
        (rf"(div|rem|min|max)\.{_INT}", Writer.integer_function),
        (r"bfi\.b32", Writer.insert),
        (r"prmt\.b32", Writer.permute),
        (r"(add|sub|mul|div)\.rn\.(f32|f64)", Writer.float_arithmetic),
        (r"(fma|sqrt)\.rn\.f32", Writer.float_function),
        (r"(neg|abs|min|max)\.f32", Writer.float_function),
        (r"rcp\.rn\.f32", Writer.reciprocal),
        (r"setp\.(eq|ne|lt|le|gt|ge)\.([busf](?:16|32|64))", Writer.compare),
        (r"setp\.(neu|ltu|leu|gtu|geu|num|nan)\.(f32|f64)", Writer.compare),
        (r"selp\.([busf](?:16|32|64))", Writer.select),
        (r"cvt\.([us](?:8|16|32|64))\.([us](?:8|16|32|64))", Writer.convert_integer),
        (r"cvt\.rn\.(f32|f64)\.([us](?:8|16|32|64))", Writer.to_float),
        (r"cvt\.rzi\.(s32|u32|u64)\.f32", Writer.to_integer),
        (r"cvt\.f64\.f32", Writer.widen),
        (r"cvt\.(f32\.f16|rn\.f16\.f32|rn\.bf16\.f32|rn\.bf16x2\.f32)", Writer.convert_small),
        (r"mul\.rn\.f16x2", Writer.multiply_halves),
        (r"cvta(?:\.to)?\.(?:global|local)\.u64", Writer.same_address),
        (r"cvta(\.to)?\.shared\.u64", Writer.shared_address),
        (r"shfl\.sync\.idx\.b32", Writer.shuffle),
        (r"vote\.sync\.any\.pred", Writer.vote),
        (r"mma\.sync\.aligned\.m16n8k(16|32)\.row\.col\.(s32|f32)\.(\w+\.\w+)\.\2", Writer.multiply_matrices),
        (r"bar\.sync", Writer.sync_block),
        (r"bar\.warp\.sync", Writer.sync_warp),
        (r"cp\.async\.cg\.shared\.global", Writer.copy_async),
        (r"cp\.async\.commit_group", Writer.commit_copies),
        (r"cp\.async\.wait_group", Writer.wait_copies),
        (r"prefetch\.global\.L2", Writer.prefetch),
        (r"griddepcontrol\.wait", Writer.wait_for_earlier),
        (r"griddepcontrol\.launch_dependents", Writer.let_next_begin),
        (r"bra(?:\.uni)?", Writer.branch),
        (r"ret", Writer.leave),
    )
]
