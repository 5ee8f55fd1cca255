"""Texts that a core writes and drafts, step by step, for tests of layers that draft."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from paceline.native.core import Core, open_core

from .rows import Row, table

CONTEXT, SLOTS, MOST = 320, 4, 4
TINY = {"drafting": 1, "vocab": 300, "value_size": 32, "key_size": 32}


def opened(path: Path, **options: Any) -> Core:
    return open_core(path, slots=SLOTS, context=CONTEXT, **{"drafting": True, "replay": MOST + 1, **options})


def ids_of(seed: int, count: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, 300, count).tolist()


class Told(NamedTuple):
    """A text's tokens, and what was drafted behind each step's."""

    tokens: list[int]
    drafts: list[tuple[int, ...]]
    behind: list[int]  # how many tokens each of the drafts is behind
    steps: int


class Writer:
    """A text in one slot, step by step, which tries what was drafted."""

    def __init__(self, core: Core, slot: int, prompt: Sequence[int], ahead: int, sampling: Any = None) -> None:
        self.core, self.slot, self.prompt, self.ahead, self.sampling = core, slot, list(prompt), ahead, sampling
        self.pages = table(slot, core.context)
        self.position = 0
        self.tokens: list[int] = []
        self.draft: tuple[int, ...] = ()
        self.drafts: list[tuple[int, ...]] = []
        self.behind: list[int] = []
        core.commit(slot, 0)

    def row(self, chunk: int = CONTEXT) -> Row:
        begin, end = self.position, self.position + chunk
        fed = self.prompt[begin:end] if begin < len(self.prompt) else [self.tokens[-1], *self.draft]
        outputs = 1 + len(self.draft) if begin >= len(self.prompt) else int(end >= len(self.prompt))
        ahead = self.ahead if outputs else 0
        following = None if outputs else self.prompt[end]
        row = Row(self.slot, fed, begin, outputs, self.pages, len(self.prompt), self.sampling, False)
        return row._replace(ahead=ahead, following=following)

    def take(self, row: Row, output: Any) -> None:
        tokens, _, _, drafted = output
        right = 1
        while right < row.outputs and row.tokens[len(row.tokens) - row.outputs + right] == tokens[right - 1]:
            right += 1
        moved = len(row.tokens) - row.outputs + right if row.outputs else len(row.tokens)
        self.position += moved
        self.core.commit(self.slot, self.position)
        self.tokens += tokens[:right] if row.outputs else ()
        self.draft = drafted
        if row.outputs:
            self.drafts.append(drafted)
            self.behind.append(len(self.tokens))


def told(core: Core, slot: int, prompt: Sequence[int], count: int, ahead: int = MOST, **options: Any) -> Told:
    chunk = options.pop("chunk", CONTEXT)
    company: list[Writer] = options.pop("company", [])
    writer, steps = Writer(core, slot, prompt, ahead, **options), 0
    while len(writer.tokens) < count:
        every = [*company, writer]
        rows = [one.row(chunk) for one in every]
        results, _ = core.step(rows)
        for one, row, output in zip(every, rows, results, strict=True):
            one.take(row, output)
        steps += 1
    return Told(writer.tokens[:count], writer.drafts, writer.behind, steps)
