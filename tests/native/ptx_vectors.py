"""Vectors of 32-bit words for the cases of PTX instructions, and what some operations make of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

LANES = 32
Words = Any
EDGES = [0, 1, 2, 5, 31, 32, 33, 63, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
FLOAT_EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    65504.0,
    65519.0,
    65520.0,
    6e-8,
    2.9e-8,
    1e-40,
    3e38,
    -3e9,
    5e9,
]
FLOAT_EDGES += [
    float("inf"),
    float("-inf"),
    float("nan"),
    2.0**-14,
    2.0**-24,
    2.0**-25,
    1.0 + 2.0**-9,
    1.0 + 2.0**-8,
    1.9999,
]
NO_NUMBER = np.uint32(0x7FFFFFFF)


def words(count: int = LANES, seed: int = 1) -> Words:
    some = np.random.default_rng(seed).integers(0, 1 << 32, count, dtype=np.uint32)
    some[: len(EDGES)] = np.roll(np.array(EDGES, np.uint32), seed)
    return some


def floats(seed: int = 1) -> Words:
    some = np.random.default_rng(seed).normal(size=LANES).astype(np.float32)
    some[: len(FLOAT_EDGES)] = np.roll(np.array(FLOAT_EDGES, np.float32), 3 * seed)
    return some.view(np.uint32)


def as_float(bits: Words) -> Any:
    return bits.view(np.float32)


def told(values: Any) -> Words:
    """As a GPU tells floats: what is no number has one form."""
    bits = values.astype(np.float32).view(np.uint32)
    return np.where(np.isnan(values), NO_NUMBER, bits)


def signed(bits: Words) -> Any:
    return bits.view(np.int32).astype(np.int64)


def low(values: Any) -> Words:
    return (np.asarray(values).astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)


def clamped(values: Any, least: int, most: int) -> Words:
    wide = np.where(np.isnan(values), 0.0, np.trunc(values.astype(np.float64)))
    return low(np.clip(wide, least, most).astype(np.int64))


def rounded_to_brain(bits: Words) -> Words:
    """bfloat16 by NumPy's integers: ties to even."""
    wide = bits.astype(np.uint64)
    nearest = (wide + 0x7FFF + (wide >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)
    return np.where(np.isnan(as_float(bits)), 0x7FFF, nearest).astype(np.uint32)


def to_half(bits: Words) -> Words:
    halves = as_float(bits).astype(np.float16)
    return np.where(np.isnan(halves), 0x7FFF, halves.view(np.uint16)).astype(np.uint32)


def picked(a: Words, b: Words, selector: Words) -> Words:
    table = np.stack([(x >> np.uint32(8 * i)) & 0xFF for x in (a, b) for i in range(4)])
    out = np.zeros_like(a)
    for i in range(4):
        choice = selector >> np.uint32(4 * i) & 0xF
        byte = table[choice & 7, np.arange(len(a))]
        byte = np.where(choice & 8, np.where(byte & 0x80, 0xFF, 0), byte).astype(np.uint32)
        out |= byte << np.uint32(8 * i)
    return out


def with_products(a: Words, b: Words, c: Words, byte: type) -> Words:
    """c plus the products of four bytes."""
    products = [x.view(byte).reshape(-1, 4).astype(np.int64) for x in (a, b)]
    return low(c + (products[0] * products[1]).sum(1))


def inserted(a: Words, b: Words, begin: int, length: int) -> Words:
    mask = np.uint32((1 << length) - 1 << begin)
    return (b & ~mask) | (a << np.uint32(begin) & mask)


def least(a: Words, b: Words, c: Words) -> Words:
    x, y = as_float(a), as_float(b)
    by_size = np.where((x < y) | ((x == y) & np.signbit(x)), x, y)
    return told(np.where(np.isnan(x), y, np.where(np.isnan(y), x, by_size)))


def shifted(values: Any, by: Words, way: Callable[[Any, Any], Any]) -> Words:
    return np.where(by > 31, way(values, 31), way(values, np.minimum(by, 31)))


def halves_times(a: Words, b: Words) -> Words:
    with np.errstate(all="ignore"):
        product = a.view(np.float16) * b.view(np.float16)
    return np.where(np.isnan(product), 0x7FFF, product.view(np.uint16)).astype(np.uint16).view(np.uint32)


def top_of_u64(bits: Words) -> Words:
    """The upper 24 bits of a float as an unsigned integer of 64."""
    whole = [2**63 if math.isnan(x) else int(max(0.0, min(x, 2.0**65))) for x in as_float(bits).tolist()]
    return np.array([min(value, 2**64 - 1) >> 40 for value in whole], np.uint32)
