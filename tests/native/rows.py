"""Rows for driving a core directly, as a plan would make them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from paceline.native.core import PAGE, Core


class Row(NamedTuple):
    slot: int
    tokens: Sequence[int]
    position: int
    outputs: int
    table: array[int]
    prompt_tokens: int = 0
    sampling: Any = None
    logits: bool = True
    allowed: Any = None
    ahead: int = 0
    following: int | None = None
    continues: bool = False


def table(slot: int, context: int) -> array[int]:
    """Pages of a slot, scattered: no two slots share one, and neighbours in position are no neighbours in the pool."""
    pages = -(-context // PAGE)
    return array("i", [slot * pages + (i * 7 + 3) % pages if pages % 7 else slot * pages + i for i in range(pages)])


def all_logits(
    core: Core, slot: int, ids: Sequence[int], cuts: Sequence[int] = (), company: Sequence[Row] = ()
) -> npt.NDArray[np.float32]:
    """Logits after every one of `ids` [n, vocab], fed in the chunks that `cuts` ask for, the company in every step."""
    core.commit(slot, 0)
    own = table(slot, core.context)
    found = []
    edges = [0, *sorted(cuts), len(ids)]
    for begin, end in pairwise(edges):
        if begin == end:
            continue
        row = Row(slot, ids[begin:end], begin, end - begin, own, prompt_tokens=len(ids))
        results, _ = core.step([*company, row])
        logits = results[-1][1]
        assert logits is not None
        found.append(logits)
        core.commit(slot, end)
    return np.concatenate(found)
