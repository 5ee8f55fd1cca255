"""Texts that tokenizers stumble over, the same each time: of odd characters, and sentences of this repository."""

import random
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
COUNT = 10_000
YOUNG = "\u09fe\u0c3c\u0d3b\u0d3c"  # accents that Python's tables of Unicode have and those of `tokenizers` lack


def block(first: int, last: int) -> str:
    return "".join(map(chr, range(first, last)))


KINDS = [
    block(0x20, 0x7F),
    "etaoinshrdlu" * 8,
    " \n\t\r\u00a0\u3000\u2028\u0085\u200b\x0b\x0c  ",
    "0123456789²³½Ⅷ①٣४",
    block(0xA0, 0x530),  # Latin, Greek, Cyrillic
    block(0x5D0, 0x5EB) + block(0x621, 0x64B) + "\u200f\u202e\u2067",  # from right to left
    "".join(sorted({*block(0x900, 0xE80)} - {*YOUNG})),  # the scripts of India, Thai, Lao
    block(0x3041, 0x30FF) + block(0x4E00, 0x4F00),
    block(0xAC00, 0xAC80) + block(0x1100, 0x1113) + block(0x1161, 0x1176),  # Korean, whole and in parts
    block(0x1F300, 0x1F700) + "\u200d\ufe0f\U0001f1e8\U0001f3fd",
    "aeiouAEI\u00e9\u1e69" + block(0x300, 0x370),  # accents of their own
    block(0x1E00, 0x1F00) + "ﬁﬀﬃŁøßİı",
    block(0, 0x20) + "\x7f" + block(0x80, 0xA0),  # control characters
    "\ud7ff\ue000\uf8ff\ufffd\ufffe\uffff\ufeff\U0001d800\U0001dfff\U00020000\U0010ffff\u2060\u200c",
    "▁Ġ▁Ċ <0x0A>",
    "!?.,;:-_=+*/\\|#@$%^&~`'\"()[]{}<>",
]
RUNS = [
    " ",
    "\n",
    "\t",
    "\r\n",
    "▁",
    "a",
    "ab",
    "0",
    "=",
    "-",
    "ha",
    "é",
    "e\u0301",
    "天",
    "🙂",
    "\x00",
    " \n",
    "\u00a0",
]
WORDS = [
    "'s",
    "'LL",
    " the",
    "\r\n",
    "  ",
    "http://",
    "don't",
    "ﬁ",
    "</s>",
    "<s>",
    "<0x0A>",
    "<0xE2><0x82>",
    "<|im",
    "|>",
]


@cache
def sentences() -> tuple[str, ...]:
    """Of the texts and programs here."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "protocol/SPEC.md"]
    paths += sorted((ROOT / "clients").rglob("*.py"))
    whole = "\n\n".join(path.read_text() for path in paths)
    return tuple(found for found in re.split(r"(?<=[.:;])\s(?=\S)|\n{2,}", whole) if found)


def odd_texts(marks: Sequence[str] = (), count: int = COUNT) -> list[str]:
    """`marks` are spellings of control tokens, which are mixed in whole and in parts."""
    chance = random.Random(7)
    known = sentences()

    def run() -> str:
        place = chance.random()
        if place < 0.1:
            return chance.choice(WORDS)
        if place < 0.2 and marks:
            mark = chance.choice(marks)
            return mark if chance.random() < 0.7 else mark[: chance.randrange(1, len(mark) + 1)]
        if place < 0.3:
            return chance.choice(RUNS) * chance.choice((2, 3, 5, 9, 17, 33, 70))
        if place < 0.4:
            return chance.choice(known)[:80]
        kind = chance.choice(KINDS)
        return "".join(chance.choice(kind) for _ in range(chance.randrange(1, 8)))

    made = ["", *sorted({chance.choice(known) for _ in range(count // 3)})]
    return made + ["".join(run() for _ in range(chance.randrange(1, 12))) for _ in range(count - len(made))]
