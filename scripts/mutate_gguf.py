"""Damage to a GGUF file, for fuzz.py: random bytes, and changes that know the fields of the header.

A header is kept as groups of fields: the counts, then a group for each key and each tensor. A change of one field
leaves the others intact, so that a reader meets just that change, and not garbage after it.
"""

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass

from mutate_bytes import spoil

Field = tuple[str, bytes]  # what it is, and its bytes
Group = list[Field]

INTEGERS = (0, 1, 2, 3, 7, 31, 33, 127, 255, 256, 65535, 65536, 10**6, 2**31 - 1, 2**31, 2**32 - 1)
WIDE = (2**32, 2**32 + 1, 2**40, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 32, 2**64 - 1)
FLOATS = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, -1.0, 1e-45, 1e-30, 0.5, 1e30, 3.4e38)
SCALARS = ("B", "b", "H", "h", "I", "i", "f", "?", None, None, "Q", "q", "d")  # by GGUF's number; 8 text, 9 array
TEXT, ARRAY = 8, 9
TYPES = 42  # tensor type numbers end here
FAMILIES = (
    *(b"llama", b"qwen2", b"qwen2moe", b"qwen2vl", b"qwen3", b"qwen3moe", b"qwen3vl", b"qwen3vlmoe", b""),
    *(b"gemma", b"gemma2", b"gemma3", b"gpt-oss", b"qwen35", b"qwen35moe", b"qwen3next", b"mamba"),
)
EXTRA_KEYS = (
    *("attention.key_length", "attention.value_length", "attention.head_count_kv", "attention.scale", "vocab_size"),
    *("attention.sliding_window", "attention.sliding_window_pattern", "attn_logit_softcapping", "rope.freq_base_swa"),
    *("final_logit_softcapping", "full_attention_interval", "expert_weights_norm", "rope.scaling.factor"),
    *("rope.scaling.type", "expert_count", "logit_scale", "rope.freq_base", "attention.causal"),
    *("rope.scaling.original_context_length", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_attn_factor"),
)


@dataclass
class Parts:
    counts: Group
    keys: list[Group]
    tensors: list[Group]
    data: bytes

    def join(self) -> bytes:
        header = b"".join(data for group in (self.counts, *self.keys, *self.tensors) for _, data in group)
        return header + bytes(-len(header) % 32) + self.data

    def count(self) -> None:
        """Makes the counts right again."""
        self.counts[2:] = [("count", struct.pack("<Q", len(part))) for part in (self.tensors, self.keys)]


class Cursor:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, kind: str, size: int) -> Field:
        self.at += size
        return kind, self.data[self.at - size : self.at]

    def text(self, kind: str) -> Group:
        length = self.take("length", 8)
        return [length, self.take(kind, struct.unpack("<Q", length[1])[0])]

    def value(self, kind: int) -> Group:
        if kind == TEXT:
            return self.text("text")
        if kind != ARRAY:
            form = SCALARS[kind]
            return [self.take(f"number {form}", struct.calcsize(f"<{form}"))]
        inner, count = self.take("kind", 4), self.take("length", 8)
        number = struct.unpack("<I", inner[1])[0]
        found = [field for _ in range(struct.unpack("<Q", count[1])[0]) for field in self.value(number)]
        return [inner, count, *found]


def take_apart(data: bytes) -> Parts:
    """A whole file, version 3, little-endian, alignment 32."""
    cursor = Cursor(data)
    counts = [cursor.take("magic", 4), cursor.take("kind", 4), cursor.take("count", 8), cursor.take("count", 8)]
    tensors, keys = (struct.unpack("<Q", field)[0] for _, field in counts[2:])
    return Parts(
        counts,
        [_key(cursor) for _ in range(keys)],
        [_tensor(cursor) for _ in range(tensors)],
        data[cursor.at + -cursor.at % 32 :],
    )


def _key(cursor: Cursor) -> Group:
    name, kind = cursor.text("key"), cursor.take("kind", 4)
    return [*name, kind, *cursor.value(struct.unpack("<I", kind[1])[0])]


def _tensor(cursor: Cursor) -> Group:
    name, count = cursor.text("name"), cursor.take("kind", 4)
    dims = [cursor.take("dimension", 8) for _ in range(struct.unpack("<I", count[1])[0])]
    return [*name, count, *dims, cursor.take("type", 4), cursor.take("offset", 8)]


def text(data: bytes, kind: str = "text") -> Group:
    return [("length", struct.pack("<Q", len(data))), (kind, data)]


def number(chance: random.Random, form: str, old: bytes) -> bytes:
    """Another number in the form of the old one."""
    if form == "?":
        return bytes([chance.choice((0, 1, 2, 255))])
    if form in "fd":
        return struct.pack(f"<{form}", chance.choice(FLOATS))
    size = struct.calcsize(f"<{form}")
    before = int.from_bytes(old, "little")
    near = (before - 1, before + 1, before * 2, before // 2, -before, chance.randrange(72))
    chosen = chance.choice((*near, *near, *INTEGERS, *(WIDE if size == 8 else ())))
    return (chosen % (1 << 8 * size)).to_bytes(size, "little")


def change_field(chance: random.Random, parts: Parts) -> None:
    group = chance.choice((parts.counts, *parts.keys, *parts.keys, *parts.tensors))
    at = chance.randrange(min(len(group), 40))
    kind, old = group[at]
    if kind in ("text", "key", "name", "magic"):
        new = chance.choice((b"", b"\xff\xfe" + old, old + b"\0", old[::-1], old * 300, b"blk.99999999999.x.weight"))
    elif kind.startswith("number"):
        new = number(chance, kind.split()[1], old)
    elif kind == "type":
        new = struct.pack("<I", chance.randrange(TYPES))
    else:
        new = number(chance, "Q" if len(old) == 8 else "I", old)
    group[at] = (kind, new)
    if kind in ("text", "key", "name") and chance.random() < 0.8:
        group[at - 1] = ("length", struct.pack("<Q", len(new)))


def change_number(chance: random.Random, parts: Parts) -> None:
    """A number of the metadata, mostly one that determines the shape."""
    numbers = [group for group in parts.keys if group[-1][0].startswith("number") and len(group) == 4]
    group = chance.choice(numbers)
    kind, old = group[-1]
    group[-1] = (kind, number(chance, kind.split()[1], old))


def change_type(chance: random.Random, parts: Parts) -> None:
    """A key gets a value of another type, valid in itself."""
    group = chance.choice(parts.keys)
    group[2:] = value(chance)


def value(chance: random.Random, depth: int = 0) -> Group:
    """The type and a value of it."""
    kind = chance.randrange(13)
    if kind == TEXT:
        found = text(chance.choice((b"", b"none", b"linear", b"x\ny", b"\xff", b"halves", b"a" * 5000)))
    elif kind == ARRAY and depth < 3:
        inner = value(chance, depth + 1)
        count = chance.choice((0, 1, 1, 2, 1000))
        found = [inner[0], ("length", struct.pack("<Q", count)), *inner[1:] * count]
    else:
        kind = 4 if kind == ARRAY else kind
        form = SCALARS[kind]
        found = [(f"number {form}", number(chance, form, bytes(struct.calcsize(f"<{form}"))))]
    return [("kind", struct.pack("<I", kind)), *found]


def nest_arrays(chance: random.Random, parts: Parts) -> None:
    depth = chance.choice((1, 5, 200, 900, 1100, 5000))
    one = struct.pack("<IQ", ARRAY, chance.choice((1, 1, 2)))
    group = chance.choice(parts.keys)
    group[2:] = [("kind", struct.pack("<I", ARRAY)), ("array", one * depth + struct.pack("<IQ", 4, 0))]


def architecture(parts: Parts) -> Group:
    """The key that names it, or any key if that one is lost."""
    return next((group for group in parts.keys if group[1][1] == b"general.architecture"), parts.keys[0])


def add_key(chance: random.Random, parts: Parts) -> None:
    family = architecture(parts)[-1][1]
    name = b"general.alignment" if chance.random() < 0.1 else family + b"." + chance.choice(EXTRA_KEYS).encode()
    parts.keys.insert(chance.randrange(len(parts.keys) + 1), [*text(name, "key"), *value(chance)])
    parts.count()


def rename(chance: random.Random, parts: Parts) -> None:
    """A key or a tensor gets the name of another one; or the model another family."""
    if chance.random() < 0.3:
        architecture(parts)[3:] = text(chance.choice(FAMILIES))
        return
    groups = chance.choice((parts.keys, parts.tensors))
    chance.choice(groups)[:2] = chance.choice(groups)[:2]


def drop(chance: random.Random, parts: Parts) -> None:
    groups = chance.choice((parts.keys, parts.tensors))
    del groups[chance.randrange(len(groups))]
    if chance.random() < 0.8:
        parts.count()


def double(chance: random.Random, parts: Parts) -> None:
    groups = chance.choice((parts.keys, parts.tensors))
    groups.append(list(chance.choice(groups)))
    parts.count()


def change_tensor(chance: random.Random, parts: Parts) -> None:
    """Dimensions, type or offset, each valid in itself."""
    group = chance.choice(parts.tensors)
    *_, kind, offset = group
    dims = [int.from_bytes(data, "little") for name, data in group if name == "dimension"]
    match chance.randrange(6):
        case 0:
            dims.reverse()
        case 1:
            dims += [chance.choice((0, 1, 2, 2**16, 2**32, 2**63, 2**64 - 1)) for _ in range(chance.randrange(1, 7))]
        case 2:
            dims = [chance.choice((0, 1, 2**31, 2**32, 2**33, 2**63, 2**64 - 1)) for _ in range(chance.randrange(5))]
        case 3:
            dims[chance.randrange(len(dims))] += chance.choice((-1, 1, 32, 256))
        case 4:
            kind = ("type", struct.pack("<I", chance.randrange(TYPES)))
        case _:
            offset = chance.choice(parts.tensors)[-1]
    packed = [("dimension", struct.pack("<Q", size % (1 << 64))) for size in dims]
    group[2:] = [("kind", struct.pack("<I", len(dims))), *packed, kind, offset]


def fill_data(chance: random.Random, parts: Parts) -> None:
    """Weights that are not numbers, or any bytes."""
    size = len(parts.data)
    begin = chance.randrange(size)
    end = chance.choice((size, min(size, begin + 64), min(size, begin + 4096)))
    pattern = chance.choice((b"\xff", b"\x00", b"\x00\x00\x80\x7f", b"\x00\x7c", chance.randbytes(64)))
    filled = (pattern * ((end - begin) // len(pattern) + 1))[: end - begin]
    parts.data = parts.data[:begin] + filled + parts.data[end:]


CHANGES: tuple[Callable[[random.Random, Parts], None], ...] = (
    *(change_field, change_field, change_field, change_number, change_number, change_type, nest_arrays),
    *(add_key, rename, drop, double, change_tensor, change_tensor, fill_data),
)


def mutant(data: bytes, chance: random.Random) -> bytes:
    """One damaged file."""
    if chance.random() < 0.2:
        return spoil(data, chance)
    parts = take_apart(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        chance.choice(CHANGES)(chance, parts)
    return parts.join()
