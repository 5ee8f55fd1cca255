"""ModelShape of Gemma 4, whose layers differ: what is read, and what is refused by name."""

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from paceline.native.arrange import arranged, computed_with
from paceline.native.core import open_core
from paceline.native.files.rearrange import floats, renamed
from paceline.native.model import read_shape
from paceline.native.weights import ModelUnreadable

from .opened_models import Opened, changed, opened
from .rows import Row, table

SIZES: dict[str, Any] = {
    "architecture": "gemma4",
    "layers": 6,
    "kv_heads": 1,
    "local_kv_heads": 2,
    "head_size": 32,
    "local_head_size": 16,
    "borrowing": 2,
    "token_inputs": 32,
}


@pytest.fixture
def model(tiny_model) -> Opened:
    return opened(tiny_model(**SIZES))


@pytest.fixture
def routed(tiny_model) -> Opened:
    return opened(tiny_model(architecture="gemma4-moe", layers=2, experts=5, experts_used=2, expert_ffn=40))


def test_layers_with_a_window_have_heads_of_their_own(model: Opened) -> None:
    shape = read_shape(*model)
    assert shape.kinds == ("sliding", "attention") * 3
    assert shape.heads_of("attention")[1:] == (1, 32, 32, 32) and shape.heads_of("sliding")[1:] == (2, 16, 16, 16)
    assert (shape.query_scale, shape.local_rope_base, shape.embedding_scale) == (1.0, 1e4, 8.0)
    assert shape.value_norm and shape.layer_scale and not shape.keys_as_values
    assert shape.token_inputs == 32
    assert shape.rope_divisors == (1.0,) * 4 + (pytest.approx(1e30),) * 12  # a quarter of a head turns


def test_the_last_layers_read_what_the_last_of_their_kind_keeps(model: Opened) -> None:
    shape = read_shape(*model)
    assert [shape.keeper_of(layer) for layer in range(6)] == [0, 1, 2, 3, 2, 3]
    assert [shape.ffn_of(layer) for layer in range(6)] == [96] * 4 + [192] * 2
    names = {tensor.name for tensor in arranged(shape, model[1])}
    assert {"blk.3.attn_k.weight", "blk.3.attn_v_norm.weight"} <= names
    assert not {"blk.4.attn_k.weight", "blk.4.attn_v_norm.weight"} & names


def test_keys_and_values_of_a_layer_that_borrows_are_left_out(model: Opened) -> None:
    """Files may have them."""
    metadata, tensors = model
    parts = ("attn_k", "attn_v", "attn_k_norm")
    more = [
        renamed(tensor, tensor.name.replace("blk.2.", "blk.4."))
        for tensor in tensors
        if tensor.name in {f"blk.2.{part}.weight" for part in parts}
    ]
    assert len(more) == 3
    shape = read_shape(metadata, [*tensors, *more])
    assert shape == read_shape(*model)
    assert len(arranged(shape, [*tensors, *more])) == len(arranged(shape, tensors))


def test_one_number_is_that_of_all_layers(model: Opened) -> None:
    tensors = model[1]
    alike = changed(model, attention__head_count_kv=1, attention__key_length_swa=None, attention__value_length_swa=None)
    with pytest.raises(ModelUnreadable, match=r"'blk.0.attn_q.weight' is \[64, 64\], expected \[128, 64\]"):
        read_shape(*alike)
    narrow = [tensor for tensor in tensors if not tensor.name.startswith(("blk.4.ffn", "blk.5.ffn"))]
    for part in ("ffn_gate", "ffn_up", "ffn_down", "ffn_norm"):
        [first] = [tensor for tensor in tensors if tensor.name == f"blk.0.{part}.weight"]
        narrow += [renamed(first, f"blk.{layer}.{part}.weight") for layer in (4, 5)]
    shape = read_shape(changed(model, feed_forward_length=96)[0], narrow)
    assert [shape.ffn_of(layer) for layer in range(6)] == [96] * 6


def test_values_may_be_the_keys(routed: Opened) -> None:
    shape = read_shape(*routed)
    assert shape.keys_as_values
    assert [shape.has_values(layer) for layer in range(2)] == [True, False]
    named = {tensor.name for tensor in arranged(shape, routed[1])}
    assert "blk.1.attn_v_norm.weight" in named and "blk.1.attn_v.weight" not in named


def test_experts_are_beside_a_feed_forward_part(routed: Opened) -> None:
    shape = read_shape(*routed)
    assert (shape.experts, shape.experts_used, shape.expert_ffn, shape.shared_ffn) == (5, 2, 40, 96)
    assert shape.expert_norms and shape.normalize_experts and not shape.shared_gated
    found = {tensor.name: tensor for tensor in computed_with(shape, routed[1])}
    stored = {tensor.name: tensor for tensor in routed[1]}
    assert found["blk.0.ffn_down_exps.weight"].scales == pytest.approx(floats(stored["blk.0.ffn_down_exps.scale"])[0])
    assert np.allclose(
        floats(found["blk.0.ffn_gate_inp_norm.weight"]), floats(stored["blk.0.ffn_gate_inp.scale"]) / 8, rtol=1e-6
    )
    assert np.array_equal(found["blk.0.ffn_up_shexp.weight"].data, stored["blk.0.ffn_up.weight"].data)
    twice = [replace(each, scales=(2.0,)) if "down_exps" in each.name else each for each in routed[1]]
    doubled = {tensor.name: tensor.scales for tensor in arranged(shape, twice)}["blk.0.ffn_down_exps.weight"]
    assert doubled == pytest.approx([2 * scale for scale in found["blk.0.ffn_down_exps.weight"].scales])


def test_the_inputs_of_tokens_are_scaled_by_the_sizes(model: Opened) -> None:
    shape = read_shape(*model)
    found = {tensor.name: tensor for tensor in computed_with(shape, model[1])}
    [norm] = [tensor for tensor in model[1] if tensor.name == "per_layer_proj_norm.weight"]
    assert found["per_layer_token_embd.weight"].scales == (4.0,)  # the root of 32 over that of 2
    assert found["per_layer_model_proj.weight"].scales == (0.125,)  # of a width of 64
    assert np.allclose(floats(found["per_layer_proj_norm.weight"]), floats(norm) / np.sqrt(2), rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"attention__head_count_kv": [2, 1]},
            "'gemma4.attention.head_count_kv' is no list of whole numbers above 0 for 6",
        ),
        (
            {"attention__head_count_kv": [2, 1, 2, 1, 2, 2]},
            r"head_count_kv' is \[2, 1, 2, 1, 2, 2\], expected one number",
        ),
        ({"attention__head_count_kv": [2, 1, 2, 1, 2, True]}, "head_count_kv' is no list of whole numbers"),
        ({"attention__head_count_kv": [2, 1, 2, 1, 2, 0]}, "head_count_kv' is no list of whole numbers"),
        ({"attention__head_count_kv": 3}, "its 4 heads are no multiple of its 3 key/value heads"),
        (
            {"feed_forward_length": [96, 96, 96, 192, 192, 192]},
            "feed_forward_length' is .* expected one number for each",
        ),
        ({"feed_forward_length": "wide"}, "feed_forward_length' is 'wide', expected a whole number above 0"),
        ({"attention__value_length_swa": 8}, "attention.value_length_swa' is 8, expected the key length, 16"),
        ({"attention__key_length_swa": 0}, "attention.key_length_swa' is 0, expected a whole number above 0"),
        ({"rope__dimension_count_swa": 15}, "its rope size 15 is odd or above its head size 16"),
        (
            {"attention__shared_kv_layers": 6, "feed_forward_length": 96},
            "6 of its layers borrow keys and values, expected less than its 6",
        ),
        (
            {"attention__shared_kv_layers": 5, "feed_forward_length": 96},
            "its layer 1 borrows keys and values, and no attention",
        ),
        ({"attention__shared_kv_layers": -1}, "attention.shared_kv_layers' is -1, expected a whole number above 0"),
        ({"embedding_length_per_layer_input": 24}, "its layers take 24 values of a token, expected a multiple of 32"),
        ({"embedding_length_per_layer_input": 2**30}, "its token inputs have 6442450944 rows, expected at most"),
        ({"attention__sliding_window": None}, "'gemma4.attention.sliding_window' is missing"),
        ({"rope__freq_base": None}, "'gemma4.rope.freq_base' is missing"),
        ({"attn_logit_softcapping": "hot"}, "attn_logit_softcapping' is 'hot', expected a number above 0"),
    ],
)
def test_what_does_not_fit_is_refused(model: Opened, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelUnreadable, match=says):
        read_shape(*changed(model, **changes))


def test_a_file_without_divisors_is_refused(model: Opened) -> None:
    """All frequencies would turn."""
    metadata, tensors = model
    with pytest.raises(ModelUnreadable, match=r"the tensor 'rope_freqs.weight' is missing, expected one divisor"):
        read_shape(metadata, [tensor for tensor in tensors if tensor.name != "rope_freqs.weight"])


@pytest.mark.parametrize("columns", [3, 6])
def test_factors_of_another_number_of_experts_are_refused(routed: Opened, columns: int) -> None:
    metadata, tensors = routed
    other = np.ones((1, columns), np.float32).view(np.uint8)
    wrong = [
        replace(each, columns=columns, source=other) if each.name == "blk.1.ffn_down_exps.scale" else each
        for each in tensors
    ]
    with pytest.raises(ModelUnreadable, match=r"'blk.1.ffn_down_exps.scale' is F32 \[1, \d\], expected F32 \[1, 5\]"):
        read_shape(metadata, wrong)


def test_other_families_have_none_of_it(tiny_model) -> None:
    for key in ("attention__shared_kv_layers", "embedding_length_per_layer_input"):
        with pytest.raises(ModelUnreadable, match=rf"{key.replace('__', '.')}' is 2, supported: 0"):
            read_shape(*changed(opened(tiny_model(architecture="gemma3")), **{key: 2}))


@pytest.mark.parametrize("interval", [1, 9])
@pytest.mark.parametrize("kind", ["cpu", "reference"])
def test_all_layers_may_be_of_one_kind(tiny_model, interval: int, kind: str) -> None:
    """Then there are no sizes of the other, and no table of its rotation."""
    path = tiny_model(**SIZES | {"interval": interval, "layers": 3, "borrowing": 1})
    core = open_core(path, slots=1, context=64, kind=kind)
    [(chosen, *_)], _ = core.step([Row(0, [1, 2, 3], 0, 1, table(0, 64))])
    assert 0 <= chosen[0] < core.vocab


def test_a_damaged_head_size_takes_no_memory(model: Opened) -> None:
    """Norms of values have weights of one, made when they are read."""
    tracemalloc.start()
    with pytest.raises(ModelUnreadable, match=r"'blk.0.attn_q.weight' is \[64, 64\], expected \[268435456, 64\]"):
        read_shape(*changed(model, attention__key_length_swa=2**26, attention__value_length_swa=2**26))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 24


def test_a_layer_count_above_that_of_the_tensors_is_refused(model: Opened) -> None:
    with pytest.raises(ModelUnreadable, match=r"'gemma4.block_count' is 9999, and it has \d+ tensors"):
        read_shape(*changed(model, block_count=9999))


def test_factors_that_are_no_numbers_are_refused(routed: Opened) -> None:
    metadata, tensors = routed
    broken = np.array([[1, 2, np.nan, 4, 5]], np.float32).view(np.uint8)
    wrong = [replace(each, source=broken) if each.name == "blk.0.ffn_down_exps.scale" else each for each in tensors]
    with pytest.raises(ModelUnreadable, match=r"'blk.0.ffn_down_exps.scale' holds a factor that is no finite number"):
        read_shape(metadata, wrong)
