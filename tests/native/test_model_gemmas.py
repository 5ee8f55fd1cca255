"""ModelShape of Gemma 2 and 3: what is read, and what is the family's."""

import pytest
from paceline.native.families import FAMILIES
from paceline.native.model import read_shape

from .opened_models import changed, opened


def test_what_a_gemma_file_does_not_say_is_the_default_of_its_family(tiny_model) -> None:
    model = opened(tiny_model(architecture="gemma3", layers=12, interval=6))
    shape = read_shape(*changed(model, attention__sliding_window_pattern=None))
    assert shape.kinds == (*("sliding",) * 5, "attention") * 2
    assert (shape.window, shape.rope_base, shape.local_rope_base) == (24, 1e6, 1e4)
    assert (shape.embedding_scale, shape.query_scale, shape.activation, shape.post_norms) == (8.0, 0.25, "gelu", True)
    said = changed(model, attention__scale=0.5, rope__freq_base_swa=5e3, final_logit_softcapping=30.0)
    shape = read_shape(*said)
    assert (shape.query_scale, shape.local_rope_base, shape.final_softcap) == (0.5, 5e3, 30.0)


def test_what_a_file_of_gemma_2_does_not_say_is_the_default_of_its_family(tiny_model) -> None:
    model = opened(tiny_model(architecture="gemma2", layers=5, window=24))
    shape = read_shape(*changed(model, attention__sliding_window_pattern=None, attention__sliding_window=None))
    assert shape.kinds == ("sliding", "attention", "sliding", "attention", "sliding")
    assert (shape.window, shape.rope_base, shape.local_rope_base) == (4096, 1e4, 0.0)
    assert (shape.attention_softcap, shape.final_softcap, shape.query_scale) == (50.0, 30.0, 0.25)
    assert shape.post_norms and not shape.qk_norm
    shape = read_shape(*changed(model, attn_logit_softcapping=0.0, final_logit_softcapping=20.0))
    assert (shape.attention_softcap, shape.final_softcap) == (0.0, 20.0)


@pytest.mark.parametrize("window", [None, 0])
def test_a_gemma_3_without_a_window_has_full_attention(tiny_model, window: int | None) -> None:
    shape = read_shape(*changed(opened(tiny_model(architecture="gemma3")), attention__sliding_window=window))
    assert (set(shape.kinds), shape.window) == ({"attention"}, 0)


def test_a_gemma_file_may_say_of_each_layer_whether_it_slides(tiny_model) -> None:
    model = opened(tiny_model(architecture="gemma3", layers=3))
    shape = read_shape(*changed(model, attention__sliding_window_pattern=[False, True, True]))
    assert shape.kinds == ("attention", "sliding", "sliding")


def test_the_largest_gemma_scales_its_queries_by_the_width() -> None:
    assert FAMILIES["gemma2"].query_scale(46, 4608, 32, 128) == 1 / 12
    assert FAMILIES["gemma2"].query_scale(62, 4608, 32, 128) == 1 / 128**0.5
    assert FAMILIES["gemma3"].query_scale(62, 5376, 32, 128) == 168**-0.5
    assert FAMILIES["gemma3"].query_scale(48, 3840, 16, 256) == 1 / 16
