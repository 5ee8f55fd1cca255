"""Any bytes given to the readers of the wire, for fuzz.py: commands and frames that are damaged, in any pieces.

Only what the readers document may be raised; how the bytes are cut must not matter; every line that is neither blank
nor a comment comes out once; and a command that parses is the same after it is written and parsed again.
"""

import random
import traceback
from collections import Counter
from collections.abc import Iterator

from mutate_bytes import spoil
from paceline.protocol import (
    CODES,
    DONE,
    BrokenStream,
    Frame,
    FrameReader,
    Item,
    Line,
    LineReader,
    Message,
    Refusal,
    encode_tagged,
    format_command,
    help_text,
    parse,
)

WORDS = (
    *("REQ", "SLOT", "START", "CONTINUE", "CONT", "CANCEL", "WAIT", "STATS", "PING", "HELP", "TRACE", "RESTORE"),
    *("RESTORE_CHAIN", "SNAPSHOT", "SNAPSHOT_THIN", "SCHED_BATCH_PROBE", "SCHED_AUTO", "SAVE", "LOAD", "QUIT"),
    *("1", "0", "-1", "7", "1073741823", "2147483648", "99999999999999999999999", "1e9", "nan", "٣", "1_0", "+5"),
    *("ids:1,2,3", "ids:", "ids:1,,2", "ids:-1", "ids:4294967296", "/no/such/file", "on", "off", "path", "name", "-"),
    *("temp=1", "temp=nan", "top_p=0.5", "seed=1", "stop=1,2", "hash=1", "samp=1,2", "epoch=1", "step=4", "snap=4:a"),
    *(
        'grammar={"json":true}',
        'grammar={"regex":"',
        r"\u0020",
        "logit_bias=1:2",
        "priority=3",
        "=",
        "==",
        "temp=",
        "\x00",
        "\x1b[31m",
        "☃",
        "\ufeff",
        "#",
        "REQ=1",
        "SLOT=1",
    ),
)
COMMANDS = (
    *("REQ 1 SLOT 0 START ids:1,2,3 20 4 temp=0.5 seed=7", "REQ=2 START /a/file 5", "REQ 1 CONTINUE 3 epoch=2"),
    *("SCHED_BATCH_DRAIN 4", "WAIT step=3", "REQ 3 RESTORE name ids:1,2 9 2", "SLOT 1 SNAPSHOT_THIN name 0 64"),
    *("REQ 4 RESTORE_CHAIN -1 a,b ids:1 9", "TRACE on path", "HELP START", "CANCEL 5", "SAVE name path", "STATS"),
)
PIECES = (0, 1, 2, 3, 5, 64, 1000)
MAX_LINE = 400


def run(count: int, seed: int) -> tuple[Counter[str], dict[int, str]]:
    outcomes: Counter[str] = Counter()
    failures: dict[int, str] = {}
    for index in range(count):
        chance = random.Random(f"{seed} {index}")
        try:
            outcomes[chance.choice((lines, frames))(chance)] += 1
        except Exception:
            outcomes["failed"] += 1
            failures[index] = traceback.format_exc().rstrip()
    return outcomes, failures


def cut(data: bytes, chance: random.Random) -> Iterator[bytes]:
    while data:
        size = chance.choice(PIECES)
        yield data[:size]
        data = data[size:]


def lines(chance: random.Random) -> str:
    """Some lines of words that occur on lines, then damaged."""
    text = "\n".join(sentence(chance) for _ in range(chance.randrange(1, 6)))
    data = text.encode() + chance.choice((b"\n", b"", b"\r\n", b" " * MAX_LINE + b"\n", b"a" * MAX_LINE))
    if data and chance.random() < 0.7:
        data = spoil(data, chance)
    whole, pieces = LineReader(MAX_LINE), LineReader(MAX_LINE)
    found = [line for piece in cut(data, chance) for line in pieces.feed(piece)] + pieces.close()
    assert found == whole.feed(data) + whole.close(), data
    owed = [number for number, line in enumerate(data.split(b"\n"), 1) if line.strip(b" \t\r") and line[:1] != b"#"]
    assert [line.number for line in found] == owed, data
    outcome = "unread"
    for line in found:
        if isinstance(line, Line):
            outcome = read(line.text)
        else:
            assert line.code in CODES, line
    return outcome


def sentence(chance: random.Random) -> str:
    """A command with up to two words replaced, or any words."""
    if chance.random() < 0.3:
        return " ".join(chance.choices(WORDS, k=chance.randrange(8)))
    words = chance.choice(COMMANDS).split()
    for _ in range(chance.choice((0, 0, 1, 2))):
        words[chance.randrange(len(words))] = chance.choice(WORDS)
    return " ".join(words)


def read(text: str) -> str:
    try:
        command = parse(text)
    except Refusal as refusal:
        assert refusal.code in CODES and refusal.error and "\n" not in refusal.error, refusal
        assert len(refusal.error) < 1000, refusal.error
        return "refused"
    assert parse(format_command(command)) == command, text
    help_text(None)
    return "parsed"


def frames(chance: random.Random) -> str:
    """A stream of items, damaged."""
    items: list[Item] = []
    for _ in range(chance.randrange(1, 9)):
        item: Item = Frame(chance.randrange(9), chance.choice((0, 5, 2**31 - 1, DONE)))
        if chance.random() < 0.4:
            item = Message(chance.randrange(9), {"re": chance.randrange(99), "x": "y" * chance.randrange(9)})
        items.append(item)
    data = encode_tagged(items)
    for _ in range(chance.choice((0, 1, 1, 2))):
        data = spoil(data, chance) if data else data
    whole, offset = decoded(FrameReader(1 << 16), [data])
    assert (whole, offset) == decoded(FrameReader(1 << 16), cut(data, chance)), data
    return "decoded" if offset is None else "broken"


def decoded(reader: FrameReader, pieces: Iterator[bytes] | list[bytes]) -> tuple[list[Item], int | None]:
    """The items, and where the stream broke, if it did; once broken it stays so."""
    items: list[Item] = []
    try:
        for piece in pieces:
            items += reader.feed(piece)
        reader.close()
    except BrokenStream as broken:
        items += broken.items
        return items, broken.offset
    return items, None
