"""ModelShape of Nemotron-H, whose layers are of one branch: what is read, and what is refused by name."""

from dataclasses import replace
from typing import Any

import pytest
from paceline.native.core import native_shape
from paceline.native.drafting import without_drafting
from paceline.native.model import read_shape
from paceline.native.weights import ModelUnreadable

from .opened_models import Opened, changed, opened

KV_HEADS, WIDTHS = [0, 0, 2, 0], [0, 32, 0, 0]


@pytest.fixture
def model(tiny_model) -> Opened:
    return opened(tiny_model(architecture="nemotron_h_moe", layers=4))


def test_a_layer_recurs_feeds_forward_or_attends(model: Opened) -> None:
    shape = read_shape(*model)
    assert shape.kinds == ("recurrent", "feed_forward", "unrotated", "recurrent")
    assert [shape.feeds_forward(layer) for layer in range(4)] == [False, True, False, False]
    assert [shape.attends(layer) for layer in range(4)] == [False, False, True, False]
    assert (shape.kv_heads, shape.expert_ffn, shape.shared_ffn, shape.gated) == (2, 32, 64, False)
    assert (shape.sigmoid_routing, shape.choice_bias, shape.expert_scale) == (True, True, 1.5)
    assert native_shape(shape, 64).page_bytes("f16", "f16") == 2 * 64 * 2 * 16 * 2  # of one layer


def test_one_without_experts_has_the_width_that_its_list_says(tiny_model) -> None:
    shape = read_shape(*opened(tiny_model(architecture="nemotron_h", layers=4)))
    assert (shape.experts, shape.ffn, shape.ffn_norm) == (0, 96, "attn_norm")


def test_the_epsilon_may_have_the_name_of_other_norms(model: Opened) -> None:
    other = changed(model, attention__layer_norm_rms_epsilon=None, attention__layer_norm_epsilon=2e-5)
    assert read_shape(*other).norm_epsilon == 2e-5


def test_lists_go_on_for_layers_that_draft(model: Opened) -> None:
    metadata, tensors = changed(
        model,
        block_count=5,
        nextn_predict_layers=1,
        attention__head_count_kv=[*KV_HEADS, 2],
        feed_forward_length=[*WIDTHS, 32],
    )
    drafter = replace(tensors[-1], name="blk.4.attn_q.weight")
    assert read_shape(metadata, without_drafting(metadata.values, [*tensors, drafter])) == read_shape(*model)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"feed_forward_length": [0, 32, 0]}, "feed_forward_length' is no list of whole numbers for 4 layers"),
        ({"feed_forward_length": [0, 0, 0, 32]}, "the tensor 'blk.1.attn_qkv.weight' .* is missing"),
        ({"feed_forward_length": 32}, "the tensor 'blk.0.ffn_gate_inp.weight' .* is missing"),
        ({"attention__head_count_kv": [0] * 4}, r"head_count_kv' has \[\], expected one number for all"),
        ({"attention__head_count_kv": [0, 0, 2, 4]}, r"head_count_kv' has \[2, 4\], expected one number for all"),
        ({"nextn_predict_layers": 1}, "the tensor 'blk.3.attn_gate.weight' is not part of a supported nemotron_h_moe"),
        ({"attention__layer_norm_rms_epsilon": None}, "'nemotron_h_moe.attention.layer_norm_epsilon' is missing"),
        ({"moe_latent_size": 64}, "'nemotron_h_moe.moe_latent_size' is 64, supported: 0"),
        ({"expert_gating_func": 3}, "'nemotron_h_moe.expert_gating_func' is 3, supported: 1 or 2"),
    ],
)
def test_what_does_not_fit_is_refused(model: Opened, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelUnreadable, match=says):
        read_shape(*changed(model, **changes))


@pytest.mark.parametrize("widths", [[0, 96, 0, 48], [0] * 4])
def test_all_widths_are_one(tiny_model, widths: list[int]) -> None:
    plain = opened(tiny_model(architecture="nemotron_h", layers=4))
    with pytest.raises(ModelUnreadable, match=r"feed_forward_length' has \[.*\], expected one number for all"):
        read_shape(*changed(plain, feed_forward_length=widths))
