"""A program around the core may have changed how its thread rounds."""

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from paceline.native.core import open_core

from .core_models import CONTEXT, MODELS, ids_of
from .rows import Row, all_logits, table

TOWARD_ZERO = {"x86_64": 0xC00, "aarch64": 0xC00000}[platform.machine()]  # FE_TOWARDZERO of fenv.h


@contextmanager
def rounding_toward_zero() -> Iterator[None]:
    libm = ctypes.CDLL("libm.so.6")
    assert libm.fesetround(TOWARD_ZERO) == 0
    try:
        assert np.float32(1) + np.float32(2**-24 + 2**-30) == 1  # it does: to the nearest, this would be more than 1
        yield
    finally:
        libm.fesetround(0)


def test_a_step_and_a_part_of_one_round_to_nearest(tiny_model) -> None:
    """Committed to a part of its tokens, a row's recurrent states are made again, by the thread that calls."""
    core = open_core(tiny_model(**MODELS["qwen35"]), slots=2, context=CONTEXT, threads=2, replay=64)
    ids = ids_of(1, 40, core.vocab)

    def run(slot: int) -> bytes:
        core.commit(slot, 0)
        core.step([Row(slot, ids[:30], 0, 1, table(slot, core.context))])
        core.commit(slot, 21)
        results, _ = core.step([Row(slot, ids[21:], 21, len(ids) - 21, table(slot, core.context))])
        assert results[0][1] is not None
        return results[0][1].tobytes()

    expected = run(0)
    whole = all_logits(core, 0, ids)
    with rounding_toward_zero():
        assert run(1) == expected
        assert np.array_equal(all_logits(core, 1, ids).view(np.uint32), whole.view(np.uint32))
