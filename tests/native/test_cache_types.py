"""The C++ core with every type of cache: near the reference, and its own bits whatever the schedule."""

import numpy as np
import pytest
from paceline.native.core import Core, open_core

from .core_models import CONTEXT, MODELS, SETS, ids_of
from .rows import Row, all_logits, table

# Root mean square error of the logits of a model with float weights, over their own: what the cache alone loses. A step
# of q4_0 is 16 times one of q8_0, and a model of random weights feels it all.
CACHE_TOLERANCE = {"f32": 1e-5, "f16": 1e-3, "bf16": 1e-2, "q8_0": 0.025, "q4_0": 0.4}
FLOAT_MODEL = {"type": "F32", "width": 64, "heads": 4, "kv_heads": 2, "head_size": 32, "ffn": 96, "tied": True}


@pytest.mark.parametrize("pair", [(kind, kind) for kind in CACHE_TOLERANCE] + [("q8_0", "q4_0"), ("q4_0", "bf16")])
def test_every_cache_type(tiny_model, pair: tuple[str, str]) -> None:
    """Near the reference, and the same bits over chunks, company, instruction sets and threads."""
    key_type, value_type = pair
    path = tiny_model(**FLOAT_MODEL)

    def opened(isa: str, threads: int) -> Core:
        return open_core(
            path,
            slots=18,
            context=CONTEXT,
            threads=threads,
            isa=isa,
            cache_type_k=key_type,
            cache_type_v=value_type,
        )

    core = opened(SETS[-1], 2)
    ids = ids_of(3, 600, core.vocab)
    alone = all_logits(core, 0, ids)
    reference = all_logits(open_core(path, slots=1, context=CONTEXT, kind="reference"), 0, ids)
    error = np.sqrt(np.mean((alone - reference) ** 2)) / np.sqrt(np.mean(reference**2))
    assert error <= max(CACHE_TOLERANCE[key_type], CACHE_TOLERANCE[value_type])

    others = [Row(2 + i, ids_of(i, 3 + 5 * i, core.vocab), 0, 1, table(2 + i, CONTEXT)) for i in range(7)]
    for cuts, company in [([1, 63, 64, 66, 200, 511, 513], []), ([300], others)]:
        for isa, threads in [(SETS[-1], 3), *((isa, 1) for isa in SETS)]:
            found = all_logits(opened(isa, threads), 1, ids, cuts, company)
            assert np.array_equal(found.view(np.uint32), alone.view(np.uint32)), (isa, threads, cuts)


def test_a_cache_type_that_does_not_fit_is_refused(tiny_model) -> None:
    path = tiny_model(**MODELS["qwen3"])  # head_size 48
    with pytest.raises(
        ValueError, match="type q8_0 needs a head size that is a multiple of 32, and this model's is 48"
    ):
        open_core(path, slots=1, cache_type_k="q8_0")
    with pytest.raises(ValueError, match="cache type 'q2': expected f32, f16, bf16, q8_0 or q4_0"):
        open_core(path, slots=1, cache_type_v="q2")


def test_smaller_types_make_smaller_pages(tiny_model) -> None:
    path = tiny_model(**FLOAT_MODEL)
    sizes = {
        kind: open_core(path, slots=1, cache_type_k=kind, cache_type_v=kind).page_bytes for kind in CACHE_TOLERANCE
    }
    half = sizes["f16"]
    assert sizes == {"f32": 2 * half, "f16": half, "bf16": half, "q8_0": half * 34 // 64, "q4_0": half * 18 // 64}
