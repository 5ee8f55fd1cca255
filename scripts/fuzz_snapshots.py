"""Arbitrary headers with a correct checksum, for fuzz.py: snapshot files that SAVE would not have written.

Each is refused in a short sentence, or it is loaded, and then a session restores from it without an unexpected error.
"""

import hashlib
import io
import random
import struct
import traceback
from collections import Counter
from typing import Any

import msgpack
from mutate_bytes import spoil
from paceline.daemon.execution import execute
from paceline.daemon.limits import Limits
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.saved import Damaged, Loaded, Saved, decode, encode
from paceline.daemon.session import Session
from paceline.protocol import Ids, Restore, RestoreChain

LONGEST = 1000  # characters of a sentence
CONTEXT = 256
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    63,
    64,
    65,
    1 << 40,
    1 << 63,
    1.5,
    "",
    "null",
    b"null",
    [],
    [1],
    [[1]],
    {},
)
FRONT = struct.Struct("<8sII")


def run(count: int, seed: int) -> tuple[Counter[str], dict[int, str]]:
    outcomes: Counter[str] = Counter()
    failures: dict[int, str] = {}
    for index in range(count):
        try:
            outcomes[attempt(random.Random(f"{seed} {index}"))] += 1
        except Exception:
            outcomes["failed"] += 1
            failures[index] = traceback.format_exc().rstrip()
    return outcomes, failures


def attempt(chance: random.Random) -> str:
    engine = NullEngine(1, CONTEXT, recurrent=chance.random() < 0.5)
    data = mutant(sound(engine, chance), chance)
    try:
        saved = decode(io.BytesIO(data), len(data), engine.info)
    except Damaged as damage:
        assert "\n" not in str(damage) and len(str(damage)) < LONGEST, f"no short sentence: {str(damage)[:LONGEST]!r}"
        return "refused"
    restore(engine, saved)
    return "loaded"


def sound(engine: NullEngine, chance: random.Random) -> bytes:
    """A file that SAVE would write: the pages and the state of `count` ids, or of a range of them."""
    info, count = engine.info, chance.choice((0, 1, 63, 64, 65, 150))
    ids = tuple(chance.randrange(info.vocab) for _ in range(count))
    first = chance.randrange(count) if count and not info.state_bytes and chance.random() < 0.5 else 0
    pages = -(-count // 64) - first // 64
    state = chance.randbytes(info.state_bytes) if count and info.state_bytes else None
    return b"".join(encode(Saved(ids, first, (bytes(info.page_bytes),) * pages, state), info))


def mutant(data: bytes, chance: random.Random) -> bytes:
    """A damaged file whose checksum is correct."""
    _, version, length = FRONT.unpack_from(data)
    header, rest = data[FRONT.size : FRONT.size + length], data[FRONT.size + length : -32]
    for _ in range(chance.randrange(4)):
        match chance.randrange(3):
            case 0:
                header = spoil(header, chance) if header else b""
            case 1:
                rest = spoil(rest, chance) if rest else b"x"
            case _:
                header = odd_value(header, chance)
    wrong = chance.choice((0, length + 1, 1 << 31, 0xFFFFFFFF))
    length = wrong if chance.random() < 0.1 else len(header)
    whole = FRONT.pack(b"PACESNAP", version, length) + header + rest
    return whole + hashlib.sha256(whole).digest()


def odd_value(header: bytes, chance: random.Random) -> bytes:
    try:
        values = msgpack.unpackb(header)
        name = chance.choice(sorted(values))
        if name == "ids" and values["ids"] and chance.random() < 0.5:
            values["ids"][chance.randrange(len(values["ids"]))] = chance.choice(ODD)
        else:
            values[name] = chance.choice(ODD)
        return bytes(msgpack.packb(values))
    except Exception:  # it is damaged already
        return header


def restore(engine: NullEngine, saved: Saved) -> None:
    """Loads the snapshot and starts requests from it, if possible. Its pages and its state may hold anything."""
    info = engine.info
    session = Session(info, Limits(slots=1, max_batch=1, context=CONTEXT, pages=8, states=2), lambda: 1)
    session.apply(Loaded("a", saved, req_id=0), 1, 0.0)
    engine.seat = lambda slot, ids, state: None  # type: ignore[method-assign]  # the null engine would see a wrong state
    prompt = Ids((*saved.ids, 5))
    session.apply(Restore("a", prompt, 3, req_id=1), 2, 0.0)
    session.apply(RestoreChain(None, ("a",), prompt, 3, req_id=2), 3, 0.0)
    while (plan := session.next_step(0.0)) is not None:
        session.finish(plan, execute(engine, plan, lambda: 0.0), 0.0)
    session.check()
    assert not session.live, "it never ends"
