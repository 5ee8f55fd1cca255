"""C++ for the PTX instructions that compute from registers to registers. A module of ptx_to_cpp.py."""

from __future__ import annotations

from ptx_operands import Operands, members

ORDERED = {"eq": "==", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
NEGATED = {"neu": "==", "ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<"}  # "or no number": not the ordered opposite
FLOAT_FUNCTIONS = {
    "fma": "fma", "sqrt": "square_root", "neg": "negated", "abs": "absolute", "min": "least", "max": "most",
}  # fmt: skip


# Each has the operands, and what its pattern found.


def move(w: Operands, operands: tuple[str, ...], kind: str) -> str:
    to, source = operands
    if to.startswith("{"):  # halves of a wider register
        low, high = members(to)
        half = f"u{int(kind[1:]) // 2}"
        wide = f"(u{kind[1:]}){w.value(source, kind)}"
        shift = int(kind[1:]) // 2
        puts = f"{w.put(low, f'({half})w', half)} {w.put(high, f'({half})(w >> {shift})', half)}"
        return f"{{ const auto w = {wide}; {puts} }}"
    if source.startswith("{"):
        low, high = members(source)
        half = f"u{int(kind[1:]) // 2}"
        wide = f"u{kind[1:]}"
        both = f"({wide})({w.value(high, half)}) << {int(kind[1:]) // 2} | ({wide})({w.value(low, half)})"
        return w.put(to, both, kind)
    return w.put(to, w.value(source, kind), kind)


def arithmetic(w: Operands, operands: tuple[str, ...], operation: str, kind: str) -> str:
    sign = {"add": "+", "sub": "-", "mul.lo": "*"}[operation]
    unsigned = "u" + kind[1:]  # wraps
    to, a, b = operands
    return w.put(to, f"({unsigned})({w.value(a, unsigned)} {sign} {w.value(b, unsigned)})", unsigned)


def multiply_add(w: Operands, operands: tuple[str, ...], kind: str) -> str:
    unsigned = "u" + kind[1:]
    to, a, b, c = (w.value(one, unsigned) if i else one for i, one in enumerate(operands))
    return w.put(to, f"{a} * {b} + {c}", unsigned)


def multiply_wide(w: Operands, operands: tuple[str, ...], kind: str) -> str:
    to, a, b = operands
    wide = f"{kind[0]}{2 * int(kind[1:])}"
    return w.put(to, f"({wide}){w.value(a, kind)} * ({wide}){w.value(b, kind)}", wide)


def logic(w: Operands, operands: tuple[str, ...], operation: str, kind: str) -> str:
    to, a, b = operands
    sign = {"and": "&", "or": "|", "xor": "^"}[operation]
    if kind == "pred":
        return w.put(to, f"(bool)({w.value(a, kind)} {sign} {w.value(b, kind)})", kind)
    return w.put(to, f"{w.value(a, kind)} {sign} {w.value(b, kind)}", kind)


def complement(w: Operands, operands: tuple[str, ...], kind: str) -> str:
    return w.put(operands[0], ("!" if kind == "pred" else "~") + w.value(operands[1], kind), kind)


def negate(w: Operands, operands: tuple[str, ...], kind: str) -> str:
    return w.put(operands[0], f"0 - {w.value(operands[1], 'u' + kind[1:])}", "u" + kind[1:])


def shift(w: Operands, operands: tuple[str, ...], way: str, kind: str) -> str:
    to, a, n = operands
    return w.put(to, f"{way}({w.value(a, kind)}, {w.value(n, 'u32')})", kind)


def integer_function(w: Operands, operands: tuple[str, ...], name: str, kind: str) -> str:
    function = {"div": "divide", "rem": "remainder", "min": "least", "max": "most"}[name]
    to, a, b = operands
    return w.put(to, f"{function}<{kind}>({w.value(a, kind)}, {w.value(b, kind)})", kind)


def insert(w: Operands, operands: tuple[str, ...]) -> str:
    to, *given = operands
    return w.put(to, f"insert_bits({', '.join(w.value(one, 'u32') for one in given)})", "b32")


def add_products(w: Operands, operands: tuple[str, ...], sign: str) -> str:
    to, *given = operands
    return w.put(to, f"add_products<{sign}8>({', '.join(w.value(one, 'u32') for one in given)})", "b32")


def permute(w: Operands, operands: tuple[str, ...]) -> str:
    to, *given = operands
    return w.put(to, f"permute({', '.join(w.value(one, 'u32') for one in given)})", "b32")


def float_arithmetic(w: Operands, operands: tuple[str, ...], operation: str, kind: str) -> str:
    to, a, b = operands
    sign = {"add": "+", "sub": "-", "mul": "*", "div": "/"}[operation]
    return w.put(to, f"canonical({w.value(a, kind)} {sign} {w.value(b, kind)})", kind)


def float_function(w: Operands, operands: tuple[str, ...], name: str) -> str:
    to, *given = operands
    function = FLOAT_FUNCTIONS[name]
    return w.put(to, f"{function}({', '.join(w.value(one, 'f32') for one in given)})", "f32")


def reciprocal(w: Operands, operands: tuple[str, ...]) -> str:
    return w.put(operands[0], f"canonical(1.0f / {w.value(operands[1], 'f32')})", "f32")


def compare(w: Operands, operands: tuple[str, ...], relation: str, kind: str) -> str:
    to, a, b = operands[0], w.value(operands[1], kind), w.value(operands[2], kind)
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
    return w.put(to, text, "pred")


def select(w: Operands, operands: tuple[str, ...], kind: str) -> str:
    to, a, b, which = operands
    return w.put(to, f"{w.value(which, 'pred')} ? {w.value(a, kind)} : {w.value(b, kind)}", kind)


def to_integer(w: Operands, operands: tuple[str, ...], kind: str) -> str:
    return w.put(operands[0], f"to_{kind}({w.value(operands[1], 'f32')})", kind)


def convert_small(w: Operands, operands: tuple[str, ...], way: str) -> str:
    to, *given = operands
    function, from_kind, to_kind = {
        "f32.f16": ("from_half", "u16", "f32"),
        "rn.f16.f32": ("to_half", "f32", "b16"),
        "rn.bf16.f32": ("to_brain", "f32", "b16"),
        "rn.bf16x2.f32": ("to_brains", "f32", "b32"),
    }[way]
    return w.put(to, f"{function}({', '.join(w.value(one, from_kind) for one in given)})", to_kind)


def multiply_halves(w: Operands, operands: tuple[str, ...]) -> str:
    to, a, b = operands
    return w.put(to, f"multiply_halves({w.value(a, 'u32')}, {w.value(b, 'u32')})", "b32")


def convert(w: Operands, operands: tuple[str, ...], to_kind: str, from_kind: str) -> str:
    return w.put(operands[0], f"({to_kind})({from_kind})({w.value(operands[1], from_kind)})", to_kind)


INT = r"([us](?:16|32|64))"
ARITHMETIC = (
    (r"mov\.((?:[busf](?:16|32|64))|pred)", move),
    (rf"(add|sub|mul\.lo)\.{INT}", arithmetic),
    (rf"mad\.lo\.{INT}", multiply_add),
    (r"mul\.wide\.([us](?:16|32))", multiply_wide),
    (r"(and|or|xor)\.(b16|b32|b64|pred)", logic),
    (r"not\.(b16|b32|b64|pred)", complement),
    (r"neg\.(s16|s32|s64)", negate),
    (r"(shl)\.(b16|b32|b64)", shift),
    (rf"(shr)\.{INT}", shift),
    (rf"(div|rem|min|max)\.{INT}", integer_function),
    (r"bfi\.b32", insert),
    (r"dp4a\.([us])32\.(?:\1)32", add_products),
    (r"prmt\.b32", permute),
    (r"(add|sub|mul|div)\.rn\.(f32|f64)", float_arithmetic),
    (r"(fma|sqrt)\.rn\.f32", float_function),
    (r"(neg|abs|min|max)\.f32", float_function),
    (r"rcp\.rn\.f32", reciprocal),
    (r"setp\.(eq|ne|lt|le|gt|ge)\.([busf](?:16|32|64))", compare),
    (r"setp\.(neu|ltu|leu|gtu|geu|num|nan)\.(f32|f64)", compare),
    (r"selp\.([busf](?:16|32|64))", select),
    (r"cvt\.([us](?:8|16|32|64))\.([us](?:8|16|32|64))", convert),
    (r"cvt\.(f64)\.(f32)", convert),
    (r"cvt\.rn\.(f32|f64)\.([us](?:8|16|32|64))", convert),
    (r"cvt\.rzi\.(s32|u32|u64)\.f32", to_integer),
    (r"cvt\.(f32\.f16|rn\.f16\.f32|rn\.bf16\.f32|rn\.bf16x2\.f32)", convert_small),
    (r"mul\.rn\.f16x2", multiply_halves),
)
