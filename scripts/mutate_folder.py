"""Damage to a Hugging Face folder, for fuzz.py: values of config.json, entries of the header of model.safetensors.

A folder is a mapping from file names to their bytes.
"""

import json
import random
import struct
from typing import Any

from mutate_bytes import spoil

CONFIG, TENSORS = "config.json", "model.safetensors"
Folder = dict[str, bytes]

NUMBERS = (0, 1, -1, 2, 3, 7, 63, 65, 2**24, 2**24 + 1, 2**31, 2**63, 10**30, 10**400)
REALS = (0.0, -0.0, -1.0, 1e-300, 1e-45, 0.5, 1.5, 1e29, 1e300, float("nan"), float("inf"))
ODD = (None, True, False, "", "llama", "x\n\ud800", [], [1], [[]], {}, {"rope_type": "llama3"}, {"a": {"b": []}})
DTYPES = ("F32", "F16", "BF16", "F64", "U8", "I8", "F8_E4M3", "BOOL", "F4", "", 3)


def scalar(chance: random.Random, old: Any = 0) -> Any:
    near = (old - 1, old + 1, old * 2, old // 2) if type(old) is int else ()
    return chance.choice((*near, *near, *NUMBERS, *REALS, *ODD))


def change_config(chance: random.Random, folder: Folder) -> None:
    config = json.loads(folder[CONFIG])
    inner = [config, *(value for value in config.values() if isinstance(value, dict))]
    target = chance.choice(inner)
    key = chance.choice([*target, "rope_scaling", "rope_parameters", "sliding_window", "text_config", "layer_types"])
    if chance.random() < 0.2:
        target.pop(key, None)
    elif isinstance(entries := target.get(key), list) and entries and chance.random() < 0.5:
        entries[chance.randrange(len(entries))] = scalar(chance)
    else:
        target[key] = scalar(chance, target.get(key))
    folder[CONFIG] = json.dumps(config).encode()


def change_entry(chance: random.Random, folder: Folder) -> None:
    """One tensor's type, shape or place."""
    size = struct.unpack("<Q", folder[TENSORS][:8])[0]
    header, data = json.loads(folder[TENSORS][8 : 8 + size]), folder[TENSORS][8 + size :]
    name = chance.choice([name for name in header if name != "__metadata__"])
    entry = header[name]
    match chance.randrange(7):
        case 0:
            entry["dtype"] = chance.choice(DTYPES)
        case 1:
            entry["shape"] = entry["shape"][::-1]
        case 2:
            entry["shape"] = [*entry["shape"], *chance.choice(([1], [0], [2**63], [-1], [1.5]))]
        case 3:
            entry["shape"] = [scalar(chance, 64)] * chance.randrange(4)
        case 4:
            entry["data_offsets"] = chance.choice(([0, 0], [0, 2**63], [-1, 4], [8, 4], [], None))
        case 5:
            header[chance.choice([*header])] = entry
        case _:
            del header[name]
    packed = json.dumps(header).encode()
    folder[TENSORS] = struct.pack("<Q", len(packed)) + packed + data


def change_bytes(chance: random.Random, folder: Folder) -> None:
    name = chance.choice(list(folder))
    folder[name] = spoil(folder[name], chance)


def lose_file(chance: random.Random, folder: Folder) -> None:
    folder[chance.choice(list(folder))] = chance.choice((b"", b"{}", b"[]", b"null", b"[" * 100000, b"\xff"))


FIELDS = (change_config, change_config, change_entry)
BYTES = (change_bytes, change_bytes, lose_file)


def mutant(folder: Folder, chance: random.Random) -> Folder:
    """One damaged folder: fields are changed first, while they can still be read."""
    changed = dict(folder)
    whole = chance.random() < 0.8
    for _ in range(chance.choice((1, 1, 1, 2)) if whole else 0):
        chance.choice(FIELDS)(chance, changed)
    if not whole or chance.random() < 0.05:
        chance.choice(BYTES)(chance, changed)
    return changed
