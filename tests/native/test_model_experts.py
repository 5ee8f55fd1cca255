"""ModelShape of Mixtral, GLM with experts and gpt-oss: what is read, and what is refused by name."""

from dataclasses import replace

import numpy as np
import pytest
from paceline.native.model import read_shape
from paceline.native.weights import ModelUnreadable

from .opened_models import changed, opened


def test_a_llama_file_may_have_experts(tiny_model) -> None:
    shape = read_shape(*opened(tiny_model(architecture="mixtral", experts=5, experts_used=2, expert_ffn=40)))
    assert shape.architecture == "llama" and shape.rope_layout == "pairs" and shape.normalize_experts
    assert (shape.experts, shape.experts_used, shape.expert_ffn, shape.shared_ffn) == (5, 2, 40, 0)
    assert not read_shape(*opened(tiny_model(architecture="qwen2moe"))).normalize_experts


def test_the_options_of_a_glm_with_experts_arrive(tiny_model) -> None:
    model = opened(tiny_model(architecture="glm4moe", layers=3, ffn=130, expert_ffn=40))
    shape = read_shape(*model)
    assert (shape.dense_layers, shape.ffn, shape.expert_ffn, shape.shared_ffn) == (1, 130, 40, 64)
    assert shape.sigmoid_routing and shape.choice_bias and not shape.shared_gated and shape.normalize_experts
    assert (shape.qkv_bias, shape.qk_norm, shape.expert_scale) == (True, True, 1.5)
    double = opened(tiny_model(architecture="glm4moe", layers=3, expert_ffn=40, shared_ffn=80))
    counted = changed(double, expert_shared_feed_forward_length=None, expert_shared_count=2)
    assert read_shape(*counted).shared_ffn == 80
    others = [tensor for tensor in model[1] if "exp_probs_b" not in tensor.name]
    assert not read_shape(model[0], others).choice_bias
    softmax = read_shape(*changed(model, expert_gating_func=1, expert_group_count=1, expert_group_used_count=1))
    assert not softmax.sigmoid_routing


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_bias_of_the_choice_that_is_no_number_is_refused(tiny_model, value: float) -> None:
    """Experts could not be compared by it."""
    model = tiny_model(architecture="glm4moe")
    metadata, tensors = opened(model)
    bias = np.array([[0, 1, value, 0, 0, 0, 0, 0]], np.float32).view(np.uint8)
    planted = [replace(each, source=bias) if each.name == "blk.1.exp_probs_b.bias" else each for each in tensors]
    with pytest.raises(ModelUnreadable, match=r"the tensor 'blk.1.exp_probs_b.bias' holds a bias that is no finite"):
        read_shape(metadata, planted)


def test_the_options_of_a_gpt_oss_arrive(tiny_model) -> None:
    shape = read_shape(*opened(tiny_model(architecture="gpt-oss", layers=4, experts=5, experts_used=2, window=9)))
    assert shape.kinds == ("sliding", "attention", "sliding", "attention") and shape.window == 9
    assert shape.qkv_bias and shape.output_bias and shape.expert_bias and shape.sinks and shape.normalize_experts
    assert (shape.activation, shape.ffn_norm, shape.rope_layout) == ("clamped", "post_attention_norm", "halves")


def test_a_gpt_oss_without_a_window_is_refused(tiny_model) -> None:
    with pytest.raises(ModelUnreadable, match=r"'gpt-oss.attention.sliding_window' is missing"):
        read_shape(*changed(opened(tiny_model(architecture="gpt-oss")), attention__sliding_window=None))


@pytest.mark.parametrize(("sink", "fine"), [(np.nan, False), (np.inf, False), (-np.inf, True), (3e38, True)])
def test_a_sink_that_is_no_number_is_refused(tiny_model, sink: float, fine: bool) -> None:
    metadata, tensors = opened(tiny_model(architecture="gpt-oss"))
    scores = np.array([[1, sink, 0, 2]], np.float32).view(np.uint8)
    planted = [replace(each, source=scores) if each.name == "blk.1.attn_sinks.weight" else each for each in tensors]
    if fine:
        assert read_shape(metadata, planted).sinks
    else:
        with pytest.raises(ModelUnreadable, match=r"the tensor 'blk.1.attn_sinks.weight' holds a score that is no num"):
            read_shape(metadata, planted)


def test_yarn_of_a_gpt_oss_is_not_rounded(tiny_model) -> None:
    """The frequencies of gpt-oss-20b, whose blend is from 8.09 to 17.4; a folder may say that it is rounded."""
    yarn = {"rope__scaling__type": "yarn", "rope__scaling__factor": 32.0, "rope__freq_base": 150000.0}
    model = opened(tiny_model(architecture="gpt-oss", head_size=64))
    metadata, tensors = changed(model, **yarn, rope__scaling__original_context_length=4096)
    exact, rounded = (
        read_shape(replace(metadata, values={**metadata.values, **more}), tensors).rope_divisors
        for more in ({}, {"paceline.yarn_rounded": True})
    )
    assert exact[8] == 1.0 and exact[18] == rounded[18] == 32.0
    share = (9 - 8.0928) / (17.3980 - 8.0928)
    assert exact[9] == pytest.approx(1 / (1 - share + share / 32), rel=1e-3)
    assert rounded[9] == pytest.approx(1 / (1 - 0.1 + 0.1 / 32))
