"""What test_ptx.py asks of PTX instructions, each with what NumPy makes of the same inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .ptx_vectors import (
    LANES,
    Words,
    as_float,
    clamped,
    floats,
    halves_times,
    inserted,
    least,
    low,
    picked,
    rounded_to_brain,
    shifted,
    signed,
    to_half,
    told,
    top_of_u64,
    with_products,
    words,
)


class Case(NamedTuple):
    """%r1, %r2, %r3 and the same bits as %f1, … in; %r9 out."""

    text: str
    expected: Callable[[Words, Words, Words], Words]
    inputs: Callable[[int], Words] = lambda seed: words(seed=seed)


def of_floats(text: str, expected: Callable[..., Words]) -> Case:
    return Case(f"{text} mov.b32 %r9, %f9;", expected, floats)


def compared(text: str, expected: Callable[..., Any]) -> Case:
    return Case(
        f"{text} selp.b32 %r9, 1, 0, %p1;", lambda a, b, c: expected(as_float(a), as_float(b)).astype(np.uint32), floats
    )


# A thread's own word of shared memory is at %r6, and %r1 in it.
SHARED = "mov.u32 %r6, memory; shl.b32 %r5, %r0, 2; add.s32 %r6, %r6, %r5; st.shared.u32 [%r6], %r1;"

INSTRUCTIONS = {
    "add": Case("add.s32 %r9, %r1, %r2;", lambda a, b, c: a + b),
    "add to a literal": Case("add.s32 %r9, %r1, -3;", lambda a, b, c: a - np.uint32(3)),
    "sub": Case("sub.s32 %r9, %r1, %r2;", lambda a, b, c: a - b),
    "mul.lo": Case("mul.lo.s32 %r9, %r1, %r2;", lambda a, b, c: a * b),
    "mad": Case("mad.lo.s32 %r9, %r1, %r2, %r3;", lambda a, b, c: a * b + c),
    "mul.wide.s32": Case(
        "mul.wide.s32 %rd9, %r1, %r2; shr.u64 %rd9, %rd9, 32; cvt.u32.u64 %r9, %rd9;",
        lambda a, b, c: low(signed(a) * signed(b) >> 32),
    ),
    "mul.wide.u32": Case(
        "mul.wide.u32 %rd9, %r1, %r2; shr.u64 %rd9, %rd9, 32; cvt.u32.u64 %r9, %rd9;",
        lambda a, b, c: (a.astype(np.uint64) * b >> np.uint64(32)).astype(np.uint32),
    ),
    "and, or, xor": Case(
        "and.b32 %r4, %r1, %r2; or.b32 %r4, %r4, %r3; xor.b32 %r9, %r4, %r1;", lambda a, b, c: (a & b | c) ^ a
    ),
    "not": Case("not.b32 %r9, %r1;", lambda a, b, c: ~a),
    "neg": Case("neg.s32 %r9, %r1;", lambda a, b, c: low(-signed(a))),
    "shl": Case("shl.b32 %r9, %r1, %r2;", lambda a, b, c: np.where(b > 31, 0, a << np.minimum(b, 31))),
    "shr.u32": Case("shr.u32 %r9, %r1, %r2;", lambda a, b, c: np.where(b > 31, 0, a >> np.minimum(b, 31))),
    "shr.s32": Case("shr.s32 %r9, %r1, %r2;", lambda a, b, c: low(shifted(signed(a), b, lambda x, n: x >> n))),
    "shr.s16": Case(
        "cvt.u16.u32 %h1, %r1; shr.s16 %h2, %h1, 3; cvt.s32.s16 %r9, %h2;",
        lambda a, b, c: low((a & 0xFFFF).astype(np.uint16).view(np.int16) >> 3),
    ),
    "div.s32": Case(
        "or.b32 %r2, %r2, 1; div.s32 %r9, %r1, %r2;", lambda a, b, c: low(np.trunc(signed(a) / signed(b | 1)))
    ),
    "rem.s32": Case(
        "or.b32 %r2, %r2, 1; rem.s32 %r9, %r1, %r2;", lambda a, b, c: low(np.fmod(signed(a), signed(b | 1)))
    ),
    "min.s32": Case("min.s32 %r9, %r1, %r2;", lambda a, b, c: low(np.minimum(signed(a), signed(b)))),
    "max.s32": Case("max.s32 %r9, %r1, %r2;", lambda a, b, c: low(np.maximum(signed(a), signed(b)))),
    "bfi": Case("bfi.b32 %r9, %r1, %r2, 5, 27;", lambda a, b, c: inserted(a, b, 5, 27)),
    "dp4a.s32": Case("dp4a.s32.s32 %r9, %r1, %r2, %r3;", lambda a, b, c: with_products(a, b, c, np.int8)),
    "dp4a.u32": Case("dp4a.u32.u32 %r9, %r1, %r2, %r3;", lambda a, b, c: with_products(a, b, c, np.uint8)),
    "prmt": Case("prmt.b32 %r9, %r1, %r2, %r3;", picked),
    "cvt.s32.s8": Case("cvt.s32.s8 %r9, %r1;", lambda a, b, c: low((a & 0xFF).astype(np.uint8).view(np.int8))),
    "cvt.s64.s32": Case(
        "cvt.s64.s32 %rd9, %r1; shr.u64 %rd9, %rd9, 32; cvt.u32.u64 %r9, %rd9;",
        lambda a, b, c: np.where(a >> 31, 0xFFFFFFFF, 0),
    ),
    "halves of a word": Case("mov.b32 {%h1, %h2}, %r1; mov.b32 %r9, {%h2, %h1};", lambda a, b, c: a << 16 | a >> 16),
    "setp of signed": Case(
        "setp.lt.s32 %p1, %r1, %r2; selp.b32 %r9, %r1, %r2, %p1;", lambda a, b, c: low(np.minimum(signed(a), signed(b)))
    ),
    "setp of unsigned": Case(
        "setp.lt.u32 %p1, %r1, %r2; selp.b32 %r9, %r1, %r2, %p1;", lambda a, b, c: np.minimum(a, b)
    ),
    "a guard": Case(
        "setp.ge.s32 %p1, %r1, 0; mov.u32 %r9, 7; @!%p1 mov.u32 %r9, 8; @%p1 add.s32 %r9, %r9, 2;",
        lambda a, b, c: np.where(signed(a) >= 0, 9, 8),
    ),
    "a branch": Case(
        "mov.u32 %r9, 1; setp.eq.s32 %p1, %r1, 0; @%p1 bra $L1; mov.u32 %r9, 2; $L1: add.s32 %r9, %r9, 4;",
        lambda a, b, c: np.where(a == 0, 5, 6),
    ),
    "fadd": of_floats("add.rn.f32 %f9, %f1, %f2;", lambda a, b, c: told(as_float(a) + as_float(b))),
    "fsub": of_floats("sub.rn.f32 %f9, %f1, %f2;", lambda a, b, c: told(as_float(a) - as_float(b))),
    "fmul": of_floats("mul.rn.f32 %f9, %f1, %f2;", lambda a, b, c: told(as_float(a) * as_float(b))),
    "fdiv": of_floats("div.rn.f32 %f9, %f1, %f2;", lambda a, b, c: told(as_float(a) / as_float(b))),
    "fma": of_floats(
        "fma.rn.f32 %f9, %f1, %f2, %f2;",
        lambda a, b, c: told((as_float(a).astype(np.longdouble) * as_float(b) + as_float(b)).astype(np.float32)),
    ),
    "sqrt": of_floats("sqrt.rn.f32 %f9, %f1;", lambda a, b, c: told(np.sqrt(as_float(a)))),
    "rcp": of_floats("rcp.rn.f32 %f9, %f1;", lambda a, b, c: told(np.float32(1.0) / as_float(a))),
    "fneg": of_floats("neg.f32 %f9, %f1;", lambda a, b, c: a ^ np.uint32(1 << 31)),
    "fabs": of_floats("abs.f32 %f9, %f1;", lambda a, b, c: a & np.uint32(0x7FFFFFFF)),
    "fmin": of_floats("min.f32 %f9, %f1, %f2;", least),
    "fmax": of_floats(
        "neg.f32 %f1, %f1; neg.f32 %f2, %f2; max.f32 %f9, %f1, %f2;", lambda a, b, c: told(-as_float(least(a, b, c)))
    ),
    "lt": compared("setp.lt.f32 %p1, %f1, %f2;", lambda a, b: a < b),
    "ne": compared("setp.ne.f32 %p1, %f1, %f2;", lambda a, b: (a < b) | (a > b)),
    "neu": compared("setp.neu.f32 %p1, %f1, %f2;", lambda a, b: a != b),
    "leu": compared("setp.leu.f32 %p1, %f1, %f2;", lambda a, b: ~(a > b)),
    "gtu": compared("setp.gtu.f32 %p1, %f1, %f2;", lambda a, b: ~(a <= b)),
    "num": compared("setp.num.f32 %p1, %f1, %f2;", lambda a, b: ~(np.isnan(a) | np.isnan(b))),
    "nan": compared("setp.nan.f32 %p1, %f1, %f1;", lambda a, b: np.isnan(a)),
    "cvt to s32": Case(
        "cvt.rzi.s32.f32 %r9, %f1;", lambda a, b, c: clamped(as_float(a), -(1 << 31), (1 << 31) - 1), floats
    ),
    "cvt to u32": Case("cvt.rzi.u32.f32 %r9, %f1;", lambda a, b, c: clamped(as_float(a), 0, (1 << 32) - 1), floats),
    "cvt from s32": of_floats("cvt.rn.f32.s32 %f9, %r1;", lambda a, b, c: signed(a).astype(np.float32).view(np.uint32)),
    "cvt from u32": of_floats("cvt.rn.f32.u32 %f9, %r1;", lambda a, b, c: a.astype(np.float32).view(np.uint32)),
    "cvt to f16": Case("cvt.rn.f16.f32 %h1, %f1; cvt.u32.u16 %r9, %h1;", lambda a, b, c: to_half(a), floats),
    "cvt to bf16": Case("cvt.rn.bf16.f32 %h1, %f1; cvt.u32.u16 %r9, %h1;", lambda a, b, c: rounded_to_brain(a), floats),
    "cvt to bf16x2": Case(
        "cvt.rn.bf16x2.f32 %r9, %f1, %f2;", lambda a, b, c: rounded_to_brain(a) << 16 | rounded_to_brain(b), floats
    ),
    "cvt from f16": Case(
        "cvt.u16.u32 %h1, %r1; cvt.f32.f16 %f9, %h1; mov.b32 %r9, %f9;",
        lambda a, b, c: told((a & 0xFFFF).astype(np.uint16).view(np.float16).astype(np.float32)),
    ),
    "mul of halves": Case("mul.rn.f16x2 %r9, %r1, %r2;", lambda a, b, c: halves_times(a, b)),
    "shfl": Case("shfl.sync.idx.b32 %r9|%p1, %r1, %r2, 31, -1;", lambda a, b, c: a[b & 31]),
    "vote": Case(
        "setp.eq.s32 %p1, %r1, -1; vote.sync.any.pred %p2, %p1, -1; selp.b32 %r9, 3, 4, %p2;",
        lambda a, b, c: np.full(LANES, 3 if (a == 0xFFFFFFFF).any() else 4),
    ),
    "div of the least by -1": Case(
        "mov.u32 %r2, -1; div.s32 %r8, %r1, %r2; rem.s32 %r9, %r1, %r2; add.s32 %r9, %r9, %r8;",
        lambda a, b, c: low(-signed(a)),
    ),
    "shl.b16": Case(
        "cvt.u16.u32 %h1, %r1; shl.b16 %h2, %h1, 5; cvt.u32.u16 %r9, %h2;", lambda a, b, c: (a & 0xFFFF) << 5 & 0xFFFF
    ),
    "min.u64": Case(
        "cvt.u64.u32 %rd7, %r1; cvt.u64.u32 %rd8, %r2; min.u64 %rd9, %rd7, %rd8; cvt.u32.u64 %r9, %rd9;",
        lambda a, b, c: np.minimum(a, b),
    ),
    "cvt.s16.s8": Case(
        "cvt.u16.u32 %h1, %r1; cvt.s16.s8 %h2, %h1; setp.lt.s16 %p1, %h2, 0; selp.b32 %r9, 1, 0, %p1;",
        lambda a, b, c: a >> np.uint32(7) & 1,
    ),
    "cvt from s16": Case(
        "cvt.u16.u32 %h1, %r1; cvt.rn.f32.s16 %f9, %h1; mov.b32 %r9, %f9;",
        lambda a, b, c: (a & 0xFFFF).astype(np.uint16).view(np.int16).astype(np.float32).view(np.uint32),
    ),
    "cvt to u64": Case(
        "cvt.rzi.u64.f32 %rd9, %f1; shr.u64 %rd9, %rd9, 40; cvt.u32.u64 %r9, %rd9;",
        lambda a, b, c: top_of_u64(a),
        floats,
    ),
    "f64": Case(
        "cvt.u64.u32 %rd7, %r1; shl.b64 %rd7, %rd7, 13; cvt.rn.f64.u64 %d1, %rd7; cvt.f64.f32 %d2, %f2;"
        "setp.gt.f64 %p1, %d1, %d2; selp.b32 %r9, 1, 0, %p1;",
        lambda a, b, c: (a.astype(np.float64) * 8192 > as_float(b)).astype(np.uint32),
        floats,
    ),
    "a literal of f64": Case(
        "mov.b64 %rd9, 0d3FF0000000000000; shr.u64 %rd9, %rd9, 32; cvt.u32.u64 %r9, %rd9;",
        lambda a, b, c: np.full(LANES, 0x3FF00000),
    ),
    "shfl outside of its segment": Case(
        "shfl.sync.idx.b32 %r8|%p1, %r1, %r2, 0, -1; selp.b32 %r9, %r8, 77, %p1;",
        lambda a, b, c: np.where(b & 31 == 0, a[0], 77),
    ),
    "ld.s8": Case(
        SHARED + "ld.shared.s8 %r9, [%r6+1];", lambda a, b, c: low((a >> 8 & 0xFF).astype(np.uint8).view(np.int8))
    ),
    "ld.u16": Case(SHARED + "ld.shared.u16 %r9, [%r6+2];", lambda a, b, c: a >> np.uint32(16)),
    "st.u8": Case(
        SHARED + "cvt.u16.u32 %h1, %r2; st.shared.u8 [%r6+3], %h1; ld.shared.u32 %r9, [%r6];",
        lambda a, b, c: a & np.uint32(0xFFFFFF) | b << np.uint32(24),
    ),
    "an address without a name": Case(
        SHARED + "cvt.u64.u32 %rd8, %r6; cvta.shared.u64 %rd9, %rd8; st.f32 [%rd9], %f2; ld.shared.u32 %r9, [%r6];",
        lambda a, b, c: b,
    ),
}
