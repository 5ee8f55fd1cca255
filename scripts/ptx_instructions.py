"""C++ for one PTX instruction, made of native/emulate/ptx.h: memory, warps and branches here, the others in
ptx_arithmetic.py. A module of ptx_to_cpp.py.

What has no meaning here raises Unknown: nothing is passed over in silence.
"""

from __future__ import annotations

import re

from ptx_arithmetic import ARITHMETIC
from ptx_operands import Operands, cpp, members
from ptx_text import Statement, Unknown

MATRICES = {"u8.s8": "U8", "s8.s8": "S8", "f16.f16": "F16", "bf16.bf16": "Brain"}


def write(statement: Statement, w: Operands) -> str:
    for pattern, method in MEANINGS:
        found = pattern.fullmatch(statement.opcode)
        if found:
            text = method(w, statement.operands, *found.groups())
            if statement.guard:
                no = "!" if statement.guard.startswith("!") else ""
                text = f"if ({no}{w.name(statement.guard.lstrip('!'))}) {{ {text} }}"
            return text
    raise Unknown(f"{statement.opcode} {', '.join(statement.operands)}")


# Each has the operands, and what its pattern found.


def load_parameter(w: Operands, operands: tuple[str, ...], many: str | None, kind: str) -> str:
    return _load(w, operands, many, kind, f"reinterpret_cast<const {cpp(kind)}*>({w.address(operands[1], 'u64')})")


def load(w: Operands, operands: tuple[str, ...], space: str | None, many: str | None, kind: str) -> str:
    return _load(w, operands, many, kind, _place(w, operands[1], space, many, kind, "Load"))


def load_read_only(w: Operands, operands: tuple[str, ...], many: str | None, kind: str) -> str:
    return _load(w, operands, many, kind, _place(w, operands[1], "global", many, kind, "ReadOnly"))


def load_strong(w: Operands, operands: tuple[str, ...], kind: str) -> str:
    return _load(w, operands, None, kind, _place(w, operands[1], "global", None, kind, "Strong"))


def _load(w: Operands, operands: tuple[str, ...], many: str | None, kind: str, place: str) -> str:
    into = members(operands[0]) if many else [operands[0]]
    puts = " ".join(w.put(one, f"q[{i}]", kind) for i, one in enumerate(into))
    return f"{{ const auto* q = {place}; {puts} }}"


def store(w: Operands, operands: tuple[str, ...], space: str | None, many: str | None, kind: str) -> str:
    values = members(operands[1]) if many else [operands[1]]
    puts = " ".join(f"q[{i}] = {w.value(one, kind)};" for i, one in enumerate(values))
    return f"{{ auto* q = {_place(w, operands[0], space, many, kind, 'Store')}; {puts} }}"


def _place(w: Operands, operand: str, space: str | None, many: str | None, kind: str, use: str) -> str:
    kinds = f"<{cpp(kind)}, {({None: 1, 'v2': 2, 'v4': 4})[many]}, Use::{use}>"
    if space == "shared":
        return f"at_shared{kinds}({w.site()}, me, {w.address(operand, 'u32')})"
    return f"at{kinds}({w.site()}, {w.address(operand, 'u64')})"


def same_address(w: Operands, operands: tuple[str, ...]) -> str:
    return w.put(operands[0], w.value(operands[1], "u64"), "u64")


def shared_address(w: Operands, operands: tuple[str, ...], to: str | None) -> str:
    function = "to_shared" if to else "from_shared"
    return w.put(operands[0], f"{function}(me, {w.value(operands[1], 'u64')})", "u64")


def shuffle(w: Operands, operands: tuple[str, ...]) -> str:
    to, *given = operands
    register, _, inside = to.partition("|")
    puts = w.put(register, "s.value", "b32") + (w.put(inside, "s.inside", "pred") if inside else "")
    return f"{{ const auto s = shuffle({', '.join(w.value(one, 'u32') for one in given)}); {puts} }}"


def vote(w: Operands, operands: tuple[str, ...]) -> str:
    to, own, lanes = operands
    return w.put(to, f"any({w.value(own, 'pred')}, {w.value(lanes, 'u32')})", "pred")


def multiply_matrices(w: Operands, operands: tuple[str, ...], depth: str, to_kind: str, kinds: str) -> str:
    d, a, b, c = (members(one) for one in operands)
    given = [*a, *["0"] * (4 - len(a))], [*b, *["0"] * (2 - len(b))], c
    fragments = ", ".join("{" + ", ".join(w.value(one, "u32") for one in part) + "}" for part in given)
    puts = " ".join(w.put(one, f"d[{i}]", "u32") for i, one in enumerate(d))
    if (to_kind == "s32") != (MATRICES[kinds] in ("U8", "S8")):
        raise Unknown(f"mma to {to_kind} of {kinds}")
    return f"{{ u32 d[4]; mma<Kind::{MATRICES[kinds]}, {depth}>({w.site()}, {{{fragments}}}, d); {puts} }}"


def sync_block(w: Operands, operands: tuple[str, ...]) -> str:
    if operands != ("0",):
        raise Unknown("a barrier of other threads than all of the block")
    return f"emulate::meet_block(&{w.site()});"


def sync_warp(w: Operands, operands: tuple[str, ...]) -> str:
    return f"sync_warp({w.value(operands[0], 'u32')});"


def copy_async(w: Operands, operands: tuple[str, ...]) -> str:
    to, source, count = operands
    places = f"{w.address(to, 'u32')}, {w.address(source, 'u64')}"
    return f"copy_async({w.site()}, me, {places}, {w.value(count, 'u64')});"


def commit_copies(w: Operands, operands: tuple[str, ...]) -> str:
    return "emulate::commit_copies();"


def wait_copies(w: Operands, operands: tuple[str, ...]) -> str:
    return f"emulate::wait_copies({operands[0]});"


def prefetch(w: Operands, operands: tuple[str, ...]) -> str:
    return f"prefetch({w.address(operands[0], 'u64')});"


def wait_for_earlier(w: Operands, operands: tuple[str, ...]) -> str:
    return "emulate::note_wait();"


def let_next_begin(w: Operands, operands: tuple[str, ...]) -> str:
    return ""


def branch(w: Operands, operands: tuple[str, ...]) -> str:
    return f"goto {operands[0].lstrip('$')};"


def leave(w: Operands, operands: tuple[str, ...]) -> str:
    return "return;"


ANY = r"([busf](?:8|16|32|64))"
OTHERS = (
    (rf"ld\.param(?:\.(v2|v4))?\.{ANY}", load_parameter),
    (rf"ld(?:\.(global|shared|local))?(?:\.(v2|v4))?\.{ANY}", load),
    (rf"ld\.relaxed\.gpu\.global\.{ANY}", load_strong),
    (rf"ld\.global\.nc(?:\.L1::no_allocate)?(?:\.(v2|v4))?\.{ANY}", load_read_only),
    (rf"st(?:\.(global|shared|local))?(?:\.(v2|v4))?\.{ANY}", store),
    (r"cvta(?:\.to)?\.(?:global|local)\.u64", same_address),
    (r"cvta(\.to)?\.shared\.u64", shared_address),
    (r"shfl\.sync\.idx\.b32", shuffle),
    (r"vote\.sync\.any\.pred", vote),
    (r"mma\.sync\.aligned\.m16n8k(16|32)\.row\.col\.(s32|f32)\.(\w+\.\w+)\.\2", multiply_matrices),
    (r"bar\.sync", sync_block),
    (r"bar\.warp\.sync", sync_warp),
    (r"cp\.async\.cg\.shared\.global", copy_async),
    (r"cp\.async\.commit_group", commit_copies),
    (r"cp\.async\.wait_group", wait_copies),
    (r"prefetch\.global\.L2", prefetch),
    (r"griddepcontrol\.wait", wait_for_earlier),
    (r"griddepcontrol\.launch_dependents", let_next_begin),
    (r"bra(?:\.uni)?", branch),
    (r"ret", leave),
)
MEANINGS = [(re.compile(pattern), method) for pattern, method in (*ARITHMETIC, *OTHERS)]
