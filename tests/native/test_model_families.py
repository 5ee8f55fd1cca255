"""ModelShape of the newer families: what is read, what is the family's, and what is refused by name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paceline.native.core import native_shape, open_core, tables
from paceline.native.files.rearrange import renamed
from paceline.native.model import read_shape
from paceline.native.weights import ModelUnreadable

from .changed_files import written
from .opened_models import as_another, changed, opened


@pytest.mark.parametrize(
    ("architecture", "change", "reason"),
    [
        ("qwen3moe", {"expert_used_count": 9}, "it uses 9 of its 8 experts"),
        ("qwen3moe", {"expert_count": None}, "'qwen3moe.expert_count' is missing"),
        ("qwen3moe", {"expert_count": 7}, "'blk.0.ffn_gate_inp.weight' is [8, 64], expected [7, 64]"),
        ("qwen3moe", {"expert_gating_func": 2}, "'qwen3moe.expert_gating_func' is 2, supported: 1"),
        ("qwen3moe", {"expert_group_count": 4}, "'qwen3moe.expert_group_count' is 4, supported: 0"),
        ("qwen3moe", {"expert_weights_norm": 1}, "'qwen3moe.expert_weights_norm' is 1, expected true or false"),
        ("qwen3moe", {"attention__sliding_window": 9}, "'qwen3moe.attention.sliding_window' is 9, supported: 0"),
        ("gemma3", {"attention__sliding_window": -1}, "'gemma3.attention.sliding_window' is -1, expected a whole num"),
        ("gemma2", {"rope__freq_base_swa": 1e4}, "'gemma2.rope.freq_base_swa' is 10000.0, supported: 0.0"),
        (
            "gemma3",
            {"attention__sliding_window_pattern": [True]},
            "'gemma3.attention.sliding_window_pattern' is no list of true or false for 2 layers",
        ),
        ("gemma3", {"final_logit_softcapping": -1.0}, "'gemma3.final_logit_softcapping' is -1.0, expected a number"),
        ("gemma3", {"attention__scale": -1.0}, "'gemma3.attention.scale' is -1.0, expected a number above 0"),
        ("gemma3", {"rope__freq_base": None}, "'gemma3.rope.freq_base' is missing"),
        ("gemma3", {"rope__scaling__type": "longrope"}, "the tensor 'rope_factors_long.weight' is missing"),
        ("qwen35", {"ssm__inner_size": 65}, "'qwen35.ssm.inner_size' is 65, no multiple of its 4 value heads"),
        ("qwen35", {"ssm__group_count": 3}, "its 4 value heads are no multiple of its 3 key heads"),
        ("qwen35", {"ssm__conv_kernel": 3}, "'blk.0.ssm_conv1d.weight' is [128, 4], expected [128, 3]"),
        ("qwen35", {"full_attention_interval": 4}, "'blk.1.attn_qkv.weight' [128, 64] is missing"),
        ("qwen35", {"nextn_predict_layers": 2}, "'qwen35.nextn_predict_layers' is 2, expected less than its 2 layers"),
        ("qwen35", {"nextn_predict_layers": -1}, "'qwen35.nextn_predict_layers' is -1, expected a whole number above"),
        ("qwen3moe", {"nextn_predict_layers": 1}, "'qwen3moe.nextn_predict_layers' is 1, supported: 0"),
        ("qwen35", {"block_count": 2**31}, "the tensor 'blk.2.attn_norm.weight' [1, 64] is missing"),
        ("glm4moe", {"expert_gating_func": 3}, "'glm4moe.expert_gating_func' is 3, supported: 1 or 2"),
        (
            "granitemoe",
            {"rope__scaling__finetuned": 1},
            "'granitemoe.rope.scaling.finetuned' is 1, expected true or",
        ),
        ("glm4moe", {"expert_group_used_count": 2}, "it chooses 2 of 1 groups of its 8 experts"),
        ("glm4moe", {"expert_group_count": 5}, "it chooses 1 of 5 groups of its 8 experts, expected at most 32 of one"),
        ("glm4moe", {"leading_dense_block_count": 0}, "'blk.0.ffn_gate_inp.weight' [8, 64] is missing"),
        ("glm4moe", {"feed_forward_length": None}, "'glm4moe.feed_forward_length' is missing"),
        ("glm4moe", {"leading_dense_block_count": 2}, "it has 2 layers without experts, expected less than its 2"),
        ("ernie4_5-moe", {"interleave_moe_layer_step": 2}, "'ernie4_5-moe.interleave_moe_layer_step' is 2, supported"),
        ("qwen35moe", {"expert_count": 0}, "'qwen35moe.expert_count' is 0"),
        ("qwen3next", {"ssm__time_step_rank": 8}, "'blk.0.ssm_ba.weight' is [8, 64], expected [16, 64]"),
    ],
)
def test_a_wrong_key_of_a_newer_family_is_named(
    tiny_model, architecture: str, change: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ModelUnreadable) as caught:
        read_shape(*changed(opened(tiny_model(architecture=architecture)), **change))
    assert reason in str(caught.value)


def test_every_fourth_layer_of_a_smollm3_is_not_rotated(tiny_model) -> None:
    shape = read_shape(*opened(tiny_model(architecture="smollm3", layers=9)))
    assert [layer for layer, kind in enumerate(shape.kinds) if kind == "unrotated"] == [3, 7]
    assert set(shape.kinds) == {"attention", "unrotated"} and shape.rope_layout == "pairs"
    cosines, sines, *local, _ = tables(shape, 16)
    assert cosines[5, 0] != 1 and sines[5, 0] != 0
    assert (local[0] == 1).all() and (local[1] == 0).all() and local[0].shape == cosines.shape
    assert list(native_shape(shape, 16).kinds[2:4]) == ["attention", "sliding"]


@pytest.mark.parametrize("architecture", ["granite", "granitemoe", "llama"])
def test_numbers_of_heads_may_be_repeated_for_each_layer(tiny_model, architecture: str) -> None:
    """As in files of a Granite 4 whose layers all attend."""
    model = opened(tiny_model(architecture=architecture))
    assert read_shape(*changed(model, attention__head_count_kv=[2, 2])) == read_shape(*model)
    with pytest.raises(ModelUnreadable, match=r"head_count_kv' has \[2, 4\], expected one number for all layers"):
        read_shape(*changed(model, attention__head_count_kv=[2, 4]))


def test_what_other_families_do_not_scale_is_refused(tiny_model) -> None:
    with pytest.raises(ModelUnreadable, match=r"'smollm3.residual_scale' is 1.5, supported: 1.0"):
        read_shape(*changed(opened(tiny_model(architecture="smollm3")), residual_scale=1.5))


def test_a_seed_oss_is_a_qwen_2_whose_norm_has_another_name(tiny_model) -> None:
    metadata, tensors = as_another(opened(tiny_model(architecture="qwen2")), "seed_oss")
    named = [renamed(tensor, tensor.name.replace("ffn_norm", "post_attention_norm")) for tensor in tensors]
    assert read_shape(metadata, named).qkv_bias
    with pytest.raises(ModelUnreadable, match=r"the tensor 'blk.0.post_attention_norm.weight' \[1, 64\] is missing"):
        read_shape(metadata, tensors)


@pytest.mark.parametrize(
    ("known", "other", "more"),
    [("llama", "internlm2", {}), ("llama", "exaone", {"rope_layout": "halves"}), ("granite", "minicpm", {})],
)
def test_families_that_compute_what_others_do(tiny_model, known: str, other: str, more: dict[str, Any]) -> None:
    metadata, tensors = opened(tiny_model(architecture=known))
    shape = read_shape(*as_another((metadata, tensors), other))
    assert shape == replace(read_shape(metadata, tensors), architecture=other, **more)


def test_a_minicpm_says_what_it_is_multiplied_by(tiny_model) -> None:
    """Files of 2024 did not, and llama.cpp has numbers for them."""
    tiny = as_another(opened(tiny_model(architecture="granite")), "minicpm")
    for key in ("embedding_scale", "residual_scale", "logit_scale"):
        with pytest.raises(ModelUnreadable, match=f"the key 'minicpm.{key}' is missing"):
            read_shape(*changed(tiny, **{key: None}))


@pytest.mark.parametrize(("text", "seeing"), [("qwen2", "qwen2vl"), ("qwen3", "qwen3vl"), ("qwen3moe", "qwen3vlmoe")])
def test_a_file_of_a_model_that_sees_is_one_of_text(tiny_model, text: str, seeing: str) -> None:
    metadata, tensors = opened(tiny_model(architecture=text))
    values = {key.replace(f"{text}.", f"{seeing}."): value for key, value in metadata.values.items()}
    more = {f"{seeing}.rope.dimension_sections": [3, 3, 2, 0], f"{seeing}.n_deepstack_layers": 3}
    shape = read_shape(replace(metadata, architecture=seeing, values=values | more), tensors)
    assert replace(shape, architecture=text) == read_shape(metadata, tensors)


def test_the_sizes_of_a_hybrid_arrive(tiny_model) -> None:
    options = {"key_heads": 3, "value_heads": 6, "key_size": 9, "value_size": 11, "conv_kernel": 5}
    path = tiny_model(
        architecture="qwen35moe", layers=5, interval=3, experts=5, experts_used=2, shared_ffn=7, **options
    )
    shape = read_shape(*opened(path))
    assert {name: getattr(shape, name) for name in options} == options
    assert shape.kinds == ("recurrent", "recurrent", "attention", "recurrent", "recurrent")
    assert (shape.experts, shape.experts_used, shape.expert_ffn, shape.shared_ffn) == (5, 2, 32, 7)
    assert shape.gated_attention and shape.normalize_experts and not shape.grouped_heads


@pytest.mark.parametrize(
    "architecture",
    ["mixtral", "qwen2moe", "qwen3moe", "gemma", "gemma2", "gemma3", "gpt-oss", "qwen35", "qwen35moe", "qwen3next"],
)
def test_every_tensor_of_a_newer_family_is_expected_by_name(tiny_model, architecture: str) -> None:
    metadata, tensors = opened(tiny_model(architecture=architecture))
    for left_out in tensors:
        if left_out.name != "output.weight":
            with pytest.raises(ModelUnreadable, match=r"the tensor 'blk|the tensor 'token|the tensor 'output_norm"):
                read_shape(metadata, [tensor for tensor in tensors if tensor is not left_out])


@pytest.mark.parametrize("architecture", ["qwen35", "qwen35moe", "qwen3next", "glm4moe", "exaone4"])
def test_layers_that_draft_are_left_out(tiny_model, tmp_path: Path, architecture: str) -> None:
    """A file whose last layers draft is the model that it is without them."""
    path = tiny_model(architecture=architecture, layers=5)
    draft = {f"{architecture}.nextn_predict_layers": 2}
    full = written(path, tmp_path / "full.gguf", draft, ["blk.3.nextn.eh_proj.weight", "blk.4.nextn.enorm.weight"])
    plain = written(path, tmp_path / "plain.gguf", {f"{architecture}.block_count": 3}, [], ("blk.3.", "blk.4."))
    shape = read_shape(*opened(full))
    others = {"glm4moe": ("attention",) * 3, "exaone4": ("sliding", "unrotated", "sliding")}
    assert shape.kinds == others.get(architecture, ("recurrent", "attention", "recurrent"))
    one, other = (open_core(each, slots=1, context=64, threads=1) for each in (full, plain))
    assert one.fingerprint == other.fingerprint


def test_an_olmo_norms_what_it_adds_and_has_windows_if_the_file_has_one(tiny_model) -> None:
    three = read_shape(*opened(tiny_model(architecture="olmo2", layers=5, interval=4)))
    assert (three.pre_norms, three.post_norms, three.qk_norm, three.whole_qk_norm) == (False, True, True, True)
    assert three.kinds == ("sliding", "sliding", "sliding", "attention", "sliding")
    assert (three.window, three.local_rope_base) == (24, three.rope_base)
    two = read_shape(*changed(opened(tiny_model(architecture="olmo2", layers=5)), attention__sliding_window=None))
    assert set(two.kinds) == {"attention"} and (two.window, two.local_rope_base) == (0, 0)


def test_an_exaone_rotates_where_it_has_a_window_or_nowhere_has(tiny_model) -> None:
    tiny = opened(tiny_model(architecture="exaone4", layers=5, interval=4))
    some = read_shape(*tiny)
    assert some.kinds == ("sliding", "sliding", "sliding", "unrotated", "sliding") and some.window == 24
    full, _, local, *_ = tables(some, 32)
    assert (full == 1).all() and not (local == 1).all()
    assert native_shape(some, 32).kinds == ["sliding", "sliding", "sliding", "attention", "sliding"]
    none = read_shape(*changed(tiny, attention__sliding_window=None))
    assert set(none.kinds) == {"attention"} and not (tables(none, 32).cosines == 1).all()
    still = read_shape(*changed(tiny, attention__sliding_window_pattern=[False] * 5))
    assert set(still.kinds) == {"unrotated"} and (tables(still, 32).cosines == 1).all()


def test_both_branches_of_a_command_r_read_one_norm(tiny_model) -> None:
    one, two = (opened(tiny_model(architecture=name, layers=5, interval=4)) for name in ("command-r", "cohere2"))
    shape = read_shape(*one)
    assert shape.parallel and shape.layer_norm and not shape.qk_norm and set(shape.kinds) == {"attention"}
    assert shape.logit_scale == pytest.approx(0.8)  # Granite's divides
    assert read_shape(*two).kinds == ("sliding", "sliding", "sliding", "unrotated", "sliding")
    for key in ("logit_scale", "attention.layer_norm_epsilon"):
        with pytest.raises(ModelUnreadable, match=f"the key 'command-r.{key}' is missing"):
            read_shape(*changed(one, **{key.replace(".", "__"): None}))
    with pytest.raises(ModelUnreadable, match=r"the key 'cohere2.attention.sliding_window' is missing"):
        read_shape(*changed(two, attention__sliding_window=None))
    for part in ("ffn_norm", "attn_q_norm"):  # the second: of Command R+
        more = [renamed(tensor, f"blk.0.{part}.weight") for tensor in one[1] if tensor.name == "blk.0.attn_norm.weight"]
        with pytest.raises(ModelUnreadable, match=f"'blk.0.{part}.weight' is not part of a supported command-r model"):
            read_shape(one[0], [*one[1], *more])


def test_windows_of_an_olmo_are_not_scaled(tiny_model) -> None:
    yarn = {"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0, "rope__scaling__original_context_length": 64}
    shape = read_shape(*changed(opened(tiny_model(architecture="olmo2")), **yarn))
    scaled, _, plain, *_ = tables(shape, 64)
    assert np.abs(plain[0]).max() == 1.0 and scaled[0, 0] == np.float32(shape.rope_amplitude) > 1.1
