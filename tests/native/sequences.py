"""Whole sequences through the reference, for the tests of this folder."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from paceline.native.reference import Floats, Reference


class Row(NamedTuple):
    slot: int
    tokens: Sequence[int]
    position: int
    outputs: int


def relative_error(found: Floats, expected: Floats) -> float:
    """The worst difference of any position, as a share of its largest |logit|: both [positions, vocab]."""
    return float(np.max(np.abs(found - expected).max(axis=1) / np.abs(expected).max(axis=1)))


def run(model: Reference, ids: Sequence[int], cuts: Sequence[int] = (), slot: int = 0) -> Floats:
    """All logits [positions, vocab] of a sequence fed in chunks that end at `cuts`."""
    model.commit(slot, 0)
    found = []
    ends = [*sorted({cut for cut in cuts if 0 < cut < len(ids)}), len(ids)]
    for begin, end in zip([0, *ends], ends, strict=False):
        [result] = model.step([Row(slot, ids[begin:end], begin, end - begin)])
        model.commit(slot, end)
        found.append(result.logits)
    return np.concatenate(found)
