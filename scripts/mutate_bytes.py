"""Damage to any bytes, without knowledge of their format, for fuzz.py."""

import random


def spoil(data: bytes, chance: random.Random) -> bytes:
    """Bytes are changed, lost or added, anywhere or near the beginning."""
    reach = len(data) if chance.random() < 0.3 else min(len(data), 8000)
    at = chance.randrange(reach)
    match chance.randrange(4):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + chance.randbytes(chance.randrange(1, 40)) + data[at:]
        case 2:
            return data[:at] + data[at + chance.randrange(1, 40) :]
        case _:
            flipped = bytearray(data)
            for _ in range(chance.randrange(1, 9)):
                flipped[chance.randrange(reach)] ^= 1 << chance.randrange(8)
            return bytes(flipped)
