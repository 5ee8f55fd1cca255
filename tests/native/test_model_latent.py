"""ModelShape of DeepSeek's latent attention: what is read, and what is refused by name."""

from math import log
from typing import Any

import pytest
from paceline.native.arrange import computed_with
from paceline.native.drafting import without_drafting
from paceline.native.model import read_shape
from paceline.native.weights import ModelUnreadable

from .opened_models import Opened, changed, opened

SIZES: dict[str, Any] = {
    "architecture": "deepseek2",
    "layers": 3,
    "kv_heads": 1,
    "rope_size": 16,
    "latent": 96,
    "latent_keys": 32,
    "latent_values": 64,
    "query_rank": 48,
}
YARN = {
    "rope__scaling__type": "yarn",
    "rope__scaling__factor": 4.0,
    "rope__scaling__original_context_length": 1024,
}


@pytest.fixture
def model(tiny_model) -> Opened:
    return opened(tiny_model(**SIZES))


def test_the_sizes_of_latent_attention_arrive(model: Opened, tiny_model) -> None:
    shape = read_shape(*model)
    assert (shape.latent, shape.latent_keys, shape.latent_values, shape.query_rank) == (96, 32, 64, 48)
    assert (shape.head_size, shape.kv_heads, shape.rope_size, shape.rope_layout) == (112, 1, 16, "pairs")
    assert shape.heads_of("attention") == (shape.heads, 1, 112, 16, 96)
    assert shape.query_scale == pytest.approx(48**-0.5)
    assert (shape.dense_layers, shape.shared_ffn, shape.expert_ffn, shape.normalize_experts) == (1, 64, 32, False)
    assert read_shape(*opened(tiny_model(**SIZES | {"query_rank": 0}))).query_rank == 0


def test_the_scale_of_queries_is_that_of_their_matrix(model: Opened) -> None:
    shape = read_shape(*model)
    found = {tensor.name: tensor for tensor in computed_with(shape, model[1])}
    assert found["blk.1.attn_k_b.weight"].scales == (pytest.approx(48**-0.5),)
    assert found["blk.1.attn_v_b.weight"].scales == ()


def test_a_bias_of_the_choice_tells_how_experts_are_weighed(model: Opened) -> None:
    """Files of the second generation do not say, and have none; those of the third have one."""
    metadata, tensors = changed(model, expert_gating_func=None)
    assert read_shape(metadata, tensors).sigmoid_routing
    plain = [tensor for tensor in tensors if "exp_probs_b" not in tensor.name]
    assert not read_shape(metadata, plain).sigmoid_routing
    assert read_shape(changed(model, expert_gating_func=2)[0], plain).sigmoid_routing
    assert not read_shape(*changed(model, expert_gating_func=1)).sigmoid_routing


@pytest.mark.parametrize(("weight", "amplitude"), [(0.0707, 1.0), (0.0, 1 + 0.1 * log(4))])
def test_yarn_scales_the_scores_or_the_rotation(model: Opened, weight: float, amplitude: float) -> None:
    shape = read_shape(*changed(model, **YARN, rope__scaling__yarn_log_multiplier=weight))
    assert shape.query_scale == pytest.approx(48**-0.5 * (1 + weight * log(4)) ** 2)
    assert shape.rope_amplitude == pytest.approx(amplitude)


def test_a_factor_that_shrinks_nothing_does_not_count(model: Opened) -> None:
    shape = read_shape(*changed(model, **YARN | {"rope__scaling__factor": 0.5}, rope__scaling__yarn_log_multiplier=0.1))
    assert shape.query_scale == pytest.approx(48**-0.5)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"attention__key_length_mla": None},
            "'deepseek2.attention.key_length_mla' is missing: the file has the older form",
        ),
        ({"attention__key_length_mla": 16}, "key_length_mla' is 16, expected more than the 16 that turn"),
        ({"attention__value_length_mla": None}, "'deepseek2.attention.value_length_mla' is missing"),
        ({"attention__kv_lora_rank": None}, "'deepseek2.attention.kv_lora_rank' is missing"),
        ({"attention__key_length": 100}, "'deepseek2.attention.key_length' is 100, expected 112"),
        ({"attention__value_length": 64}, "'deepseek2.attention.value_length' is 64, expected 96"),
        (
            YARN | {"rope__scaling__yarn_log_multiplier": 1e300},
            "'deepseek2.rope.scaling.yarn_log_multiplier' is 1e.300, expected at most 1.0",
        ),
        ({"attention__head_count_kv": 4}, "'deepseek2.attention.head_count_kv' is 4, expected 1"),
        ({"attention__key_length_mla": 40}, "its latent keys are 24, expected a multiple of 32"),
        ({"attention__value_length_mla": 24}, "its latent values are 24, expected a multiple of 32"),
        ({"attention__q_lora_rank": 0}, r"the tensor 'blk.0.attn_q.weight' \[192, 64\] is missing"),
        ({"expert_group_count": 3}, "it chooses 1 of 3 groups of its 8 experts, expected at most 32 of one size"),
        ({"expert_group_count": 4}, "it uses 3 experts of 1 groups, which have fewer"),
        ({"expert_group_count": 2, "expert_group_used_count": 3}, "it chooses 3 of 2 groups of its 8 experts"),
        ({"expert_group_count": -1}, "expert_group_count' is -1, expected a whole number above 0"),
    ],
)
def test_what_does_not_fit_is_refused(model: Opened, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelUnreadable, match=says):
        read_shape(*changed(model, **changes))


def test_the_older_form_of_files_is_refused(model: Opened) -> None:
    """With one matrix for keys and values of all heads, which cannot be turned around once it is quantized."""
    metadata, tensors = model
    joined = [tensor for tensor in tensors if not tensor.name.endswith(("attn_k_b.weight", "attn_v_b.weight"))]
    with pytest.raises(ModelUnreadable, match=r"the tensor 'blk.0.attn_k_b.weight' \[384, 32\] is missing"):
        read_shape(metadata, joined)


def test_a_layer_that_drafts_is_left_out(tiny_model) -> None:
    path = tiny_model(**SIZES)
    metadata, tensors = changed(opened(path), nextn_predict_layers=1)
    shape = read_shape(metadata, without_drafting(metadata.values, tensors))
    assert shape.layers == 2 and set(shape.kinds) == {"attention"}
