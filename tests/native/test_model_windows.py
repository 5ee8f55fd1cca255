"""What files say of families with windows that are made of parts of others, and of Apertus."""

from dataclasses import replace
from math import log1p
from typing import Any

import numpy as np
import pytest
from paceline.native.arrange import arranged
from paceline.native.core import native_shape, tables
from paceline.native.model import read_shape
from paceline.native.weights import ModelUnreadable

from .opened_models import changed, opened


def test_windows_of_a_mellum_are_not_scaled_and_its_experts_are_those_of_a_qwen(tiny_model) -> None:
    tiny = opened(tiny_model(architecture="mellum", layers=5, interval=4))
    yarn = {"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0, "rope__scaling__original_context_length": 64}
    shape = read_shape(*changed(tiny, **yarn, rope__freq_base_swa=500.0))
    assert shape.kinds == ("sliding", "sliding", "sliding", "attention", "sliding") and shape.normalize_experts
    assert (shape.window, shape.local_rope_base, shape.rope_base) == (24, 500.0, 1e4)
    scaled, _, plain, *_ = tables(shape, 64)
    assert np.abs(plain[0]).max() == 1.0 and scaled[0, 0] == np.float32(shape.rope_amplitude) > 1.1
    full = read_shape(*changed(tiny, attention__sliding_window=None))
    assert set(full.kinds) == {"attention"} and full.window == 0


def test_an_exaone_with_experts_norms_before_its_branches(tiny_model) -> None:
    shape = read_shape(*opened(tiny_model(architecture="exaone-moe", layers=5, interval=4)))
    assert shape.kinds == ("sliding", "sliding", "sliding", "unrotated", "sliding")
    assert shape.pre_norms and not shape.post_norms and shape.qk_norm
    assert shape.sigmoid_routing and shape.choice_bias and (shape.dense_layers, shape.shared_ffn) == (1, 64)


def test_a_maincoder_rotates_pairs_before_it_norms(tiny_model) -> None:
    shape = read_shape(*opened(tiny_model(architecture="maincoder")))
    assert shape.rotates_first and shape.rope_layout == "pairs"


def test_layers_of_a_granite_with_windows_are_listed(tiny_model) -> None:
    tiny = opened(tiny_model(architecture="granite_swa", layers=5, interval=4))
    shape = read_shape(*tiny)
    assert shape.kinds == ("sliding", "sliding", "sliding", "unrotated", "sliding") and shape.sinks
    assert native_shape(shape, 64).kinds == ["sliding", "sliding", "sliding", "attention", "sliding"]
    turning = read_shape(*changed(tiny, attention__rope_pattern=None))
    assert turning.kinds == ("sliding", "sliding", "sliding", "attention", "sliding")
    for pattern, says in (
        ([True] * 4, "no list of true or false for 5 layers"),
        ([False, True, True, True, True], "its layer 0 has a window and does not rotate"),
    ):
        with pytest.raises(ModelUnreadable, match=says):
            read_shape(*changed(tiny, attention__rope_pattern=pattern))
    some = {"attention__sliding_window_pattern": [True, False, True, False, True]}
    with pytest.raises(ModelUnreadable, match="some of its layers without a window rotate, expected all or none"):
        read_shape(*changed(tiny, **some, attention__rope_pattern=[True, True, True, False, True]))
    with pytest.raises(ModelUnreadable, match=r"'granite_swa.attention.sliding_window_pattern' is missing"):
        read_shape(*changed(tiny, attention__sliding_window_pattern=None))


def test_gate_and_up_of_a_granites_shared_expert_are_one_matrix(tiny_model) -> None:
    metadata, tensors = opened(tiny_model(architecture="granite_swa-moe"))
    shape = read_shape(metadata, tensors)
    [fused] = (tensor for tensor in tensors if tensor.name == "blk.0.ffn_up_shexp.weight")
    found = {tensor.name: tensor for tensor in arranged(shape, tensors)}
    gate, up = (found[f"blk.0.ffn_{part}_shexp.weight"].data for part in ("gate", "up"))
    assert shape.shared_ffn == 64 and np.array_equal(fused.data, np.concatenate([gate, up]))


def test_heads_of_a_laguna_are_gated_and_more_where_it_slides(tiny_model) -> None:
    tiny = opened(tiny_model(architecture="laguna", layers=5, interval=4, local_heads=6, rope_size=8))
    shape = read_shape(*tiny)
    assert shape.kinds == ("attention", "sliding", "sliding", "sliding", "attention")
    assert (shape.heads, shape.local_heads, shape.rope_size, shape.local_rope_size) == (4, 6, 8, 16)
    assert (shape.heads_of("attention").heads, shape.heads_of("sliding").heads) == (4, 6)
    assert (shape.rope_base, shape.local_rope_base) == (1e4, 1e3)
    alike = opened(tiny_model(architecture="laguna", layers=5, interval=4))
    assert read_shape(*alike).local_heads == 0
    for heads, says in (
        ([4, 6, 6, 8, 4], "expected one number for each kind of layer"),
        ([4, 6, 6, 6], "no list of whole numbers above 0 for 5 layers"),
        ([4, 5, 5, 5, 4], "its 5 heads are no multiple of its 2 key/value heads"),
    ):
        with pytest.raises(ModelUnreadable, match=says):
            read_shape(*changed(tiny, attention__head_count=heads))
    with pytest.raises(ModelUnreadable, match=r"'laguna.block_count' is 9999, and it has \d+ tensors"):
        read_shape(*changed(tiny, block_count=9999))


def test_a_gate_for_each_output_of_a_laguna_is_refused(tiny_model) -> None:
    metadata, tensors = opened(tiny_model(architecture="laguna"))
    gates = next(tensor for tensor in tensors if tensor.name == "blk.0.attn_q.weight")
    wide = [gates.__class__("blk.0.attn_gate.weight", "F32", gates.rows, gates.columns, gates.source)]
    others = [tensor for tensor in tensors if tensor.name != "blk.0.attn_gate.weight"]
    with pytest.raises(ModelUnreadable, match=r"'blk.0.attn_gate.weight' is \[64, 64\], expected \[4, 64\]"):
        read_shape(metadata, [*others, *wide])


def test_a_muse_norms_embeddings_and_has_a_smaller_epsilon_behind_its_branches(tiny_model) -> None:
    tiny = opened(tiny_model(architecture="muse-glimmer", layers=5, interval=4))
    shape = read_shape(*tiny)
    assert shape.kinds == ("sliding", "sliding", "sliding", "unrotated", "sliding") and shape.embedding_norm
    assert shape.post_norm_epsilon == pytest.approx(1e-8) and shape.norm_epsilon == pytest.approx(1e-5)
    assert (shape.logit_scale, shape.final_softcap) == (pytest.approx(0.8), 30.0)  # as llama.cpp has it
    assert read_shape(*changed(tiny, final_logit_softcapping=20.0)).final_softcap == 20.0
    found = {tensor.name: tensor for tensor in arranged(shape, tiny[1])}
    assert (found["token_embd_norm.weight"].data.view(np.float32) == 1).all()


def test_each_layer_of_an_apertus_has_a_curve(tiny_model) -> None:
    tiny = opened(tiny_model(architecture="apertus"))
    curves = read_shape(*tiny).curves
    assert len(curves) == 2 and not read_shape(*tiny).gated
    positive, negative, linear = curves[1]  # of 0.5, 0.4 and 0.6
    assert (positive, linear) == (pytest.approx(log1p(np.exp(0.5))), pytest.approx(0.6))
    assert negative == pytest.approx(0.6 + log1p(np.exp(0.4)))
    one = read_shape(*with_xielu(tiny, alpha_p=0.0, alpha_n=0.0, beta=0.5, eps=-1e-6)).curves
    assert one == ((log1p(1), 0.5 + log1p(1), 0.5),) * 2


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("alpha_p", None, "the key 'xielu.alpha_p' is None, expected a number, or one for each of 2 layers"),
        ("alpha_n", [0.5], "the key 'xielu.alpha_n' is .*, expected a number, or one for each of 2 layers"),
        ("beta", [0.5, "0.5"], "the key 'xielu.beta' is"),
        ("alpha_p", float("inf"), "the key 'xielu.alpha_p' is inf"),
        ("alpha_p", 1e3, "the key 'xielu.alpha_p' is 1000"),
        ("eps", -0.5, "the key 'xielu.eps' is -0.5, expected -0.0001 to 0"),
        ("eps", 1e-6, "the key 'xielu.eps' is 1e-06, expected -0.0001 to 0"),
    ],
)
def test_curves_that_are_none(tiny_model, key: str, value: Any, says: str) -> None:
    with pytest.raises(ModelUnreadable, match=says):
        read_shape(*with_xielu(opened(tiny_model(architecture="apertus")), **{key: value}))


def with_xielu(tiny: Any, **constants: Any) -> Any:
    metadata, tensors = tiny
    return replace(metadata, values={**metadata.values, **{f"xielu.{k}": v for k, v in constants.items()}}), tensors
