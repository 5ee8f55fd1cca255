"""ModelShape of the newer families: what is read, what is the family's, and what is refused by name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from paceline.native.arrange import arranged, computed_with, embedding_scale
from paceline.native.core import native_shape, open_core, rotations
from paceline.native.families import FAMILIES
from paceline.native.files.rearrange import renamed, stacked
from paceline.native.model import read_shape
from paceline.native.weights import Metadata, ModelUnreadable, Tensor, open_model

Opened = tuple[Metadata, list[Tensor]]


def opened(path: Path) -> Opened:
    return open_model(path)


def changed(opened_model: Opened, **changes: Any) -> Opened:
    """A model with some keys of its architecture changed, as `refusal` does."""
    metadata, tensors = opened_model
    keys = {f"{metadata.architecture}.{name.replace('__', '.')}": value for name, value in changes.items()}
    values = {key: value for key, value in {**metadata.values, **keys}.items() if value is not None}
    return replace(metadata, values=values), tensors


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
        ("granitemoe", {"rope__scaling__finetuned": False}, "'granitemoe.rope.scaling.finetuned' is False, supported"),
        ("glm4moe", {"expert_group_used_count": 2}, "'glm4moe.expert_group_used_count' is 2, supported: 1"),
        ("glm4moe", {"expert_group_count": 8}, "'glm4moe.expert_group_count' is 8, supported: 1"),
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


def test_a_llama_file_may_have_experts(tiny_model) -> None:
    shape = read_shape(*opened(tiny_model(architecture="mixtral", experts=5, experts_used=2, expert_ffn=40)))
    assert shape.architecture == "llama" and shape.rope_layout == "pairs" and shape.normalize_experts
    assert (shape.experts, shape.experts_used, shape.expert_ffn, shape.shared_ffn) == (5, 2, 40, 0)
    assert not read_shape(*opened(tiny_model(architecture="qwen2moe"))).normalize_experts


def as_another(model: Opened, architecture: str) -> Opened:
    """The same model under another family's name."""
    metadata, tensors = model
    old = f"{metadata.architecture}."
    values = {key.replace(old, f"{architecture}."): value for key, value in metadata.values.items()}
    return replace(metadata, architecture=architecture, values=values), tensors


def test_every_fourth_layer_of_a_smollm3_is_not_rotated(tiny_model) -> None:
    shape = read_shape(*opened(tiny_model(architecture="smollm3", layers=9)))
    assert [layer for layer, kind in enumerate(shape.kinds) if kind == "unrotated"] == [3, 7]
    assert set(shape.kinds) == {"attention", "unrotated"} and shape.rope_layout == "pairs"
    cosines, sines, *local = rotations(shape, 16)
    assert cosines[5, 0] != 1 and sines[5, 0] != 0
    assert (local[0] == 1).all() and (local[1] == 0).all() and local[0].shape == cosines.shape
    assert list(native_shape(shape, 16).kinds[2:4]) == ["attention", "sliding"]


@pytest.mark.parametrize("tied", [False, True])
def test_the_multipliers_of_a_granite_are_scales_of_its_matrices(tiny_model, tied: bool) -> None:
    metadata, tensors = opened(tiny_model(architecture="granite", tied=tied))
    shape = read_shape(metadata, tensors)
    assert (shape.embedding_scale, shape.residual_scale, shape.logit_scale) == (0.5, 1.5, 0.8)
    assert shape.query_scale == pytest.approx(0.3)
    assert embedding_scale(shape) == pytest.approx(0.625 if tied else 0.5)
    scales = {tensor.name: tensor.scales for tensor in computed_with(shape, tensors)}
    assert scales.pop("token_embd.weight" if tied else "output.weight") == (0.8,)
    branches = {f"blk.{layer}.{part}.weight" for layer in range(2) for part in ("attn_output", "ffn_down")}
    assert {name for name, factors in scales.items() if factors} == branches
    assert all(scales[name] == (1.5,) for name in branches)
    again = computed_with(shape, [replace(each, scales=(2.0,)) for each in tensors])
    assert {tensor.scales for tensor in again} == {(2.0,), (1.6,), (3.0,)}


def test_what_other_families_do_not_scale_is_refused(tiny_model) -> None:
    with pytest.raises(ModelUnreadable, match=r"'smollm3.residual_scale' is 1.5, supported: 1.0"):
        read_shape(*changed(opened(tiny_model(architecture="smollm3")), residual_scale=1.5))


def test_a_seed_oss_is_a_qwen_2_whose_norm_has_another_name(tiny_model) -> None:
    metadata, tensors = as_another(opened(tiny_model(architecture="qwen2")), "seed_oss")
    named = [renamed(tensor, tensor.name.replace("ffn_norm", "post_attention_norm")) for tensor in tensors]
    assert read_shape(metadata, named).qkv_bias
    with pytest.raises(ModelUnreadable, match=r"the tensor 'blk.0.post_attention_norm.weight' \[1, 64\] is missing"):
        read_shape(metadata, tensors)


@pytest.mark.parametrize("biased", [False, True])
def test_fused_matrices_of_phi_and_glm_are_taken_apart(tiny_model, biased: bool) -> None:
    """And a GLM may have biases."""
    plain = opened(tiny_model(architecture="qwen2" if biased else "llama", type="Q4_0"))
    metadata, tensors = as_another(plain, "glm4" if biased else "phi3")
    found = {tensor.name: tensor for tensor in tensors}
    for layer in range(2):
        block = f"blk.{layer}."
        parts = [found.pop(f"{block}ffn_{part}.weight") for part in ("gate", "up")]
        found[f"{block}ffn_up.weight"] = stacked(f"{block}ffn_up.weight", parts)
        if biased:
            for norm in ("post_attention_norm", "post_ffw_norm"):
                found[f"{block}{norm}.weight"] = renamed(found[f"{block}attn_norm.weight"], f"{block}{norm}.weight")
        else:
            rows = np.concatenate([found.pop(f"{block}attn_{part}.weight").data for part in "qkv"])
            found[f"{block}attn_qkv.weight"] = Tensor(f"{block}attn_qkv.weight", "Q4_0", len(rows), 64, rows)
    shape = read_shape(metadata, list(found.values()))
    assert (shape.qkv_bias, shape.post_norms) == (biased, biased)
    apart = {tensor.name: tensor for tensor in arranged(shape, list(found.values()))}
    for tensor in plain[1]:
        assert np.array_equal(apart[tensor.name].data, tensor.data), tensor.name


def test_the_options_of_a_gpt_oss_arrive(tiny_model) -> None:
    shape = read_shape(*opened(tiny_model(architecture="gpt-oss", layers=4, experts=5, experts_used=2, window=9)))
    assert shape.kinds == ("sliding", "attention", "sliding", "attention") and shape.window == 9
    assert shape.qkv_bias and shape.output_bias and shape.expert_bias and shape.sinks and shape.normalize_experts
    assert (shape.activation, shape.ffn_norm, shape.rope_layout) == ("clamped", "post_attention_norm", "halves")


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


@pytest.mark.parametrize(("text", "seeing"), [("qwen2", "qwen2vl"), ("qwen3", "qwen3vl"), ("qwen3moe", "qwen3vlmoe")])
def test_a_file_of_a_model_that_sees_is_one_of_text(tiny_model, text: str, seeing: str) -> None:
    metadata, tensors = opened(tiny_model(architecture=text))
    values = {key.replace(f"{text}.", f"{seeing}."): value for key, value in metadata.values.items()}
    more = {f"{seeing}.rope.dimension_sections": [3, 3, 2, 0], f"{seeing}.n_deepstack_layers": 3}
    shape = read_shape(replace(metadata, architecture=seeing, values=values | more), tensors)
    assert replace(shape, architecture=text) == read_shape(metadata, tensors)


@pytest.mark.parametrize("window", [None, 0])
def test_a_gemma_3_without_a_window_has_full_attention(tiny_model, window: int | None) -> None:
    shape = read_shape(*changed(opened(tiny_model(architecture="gemma3")), attention__sliding_window=window))
    assert (set(shape.kinds), shape.window) == ({"attention"}, 0)


@pytest.mark.parametrize("kind", ["F16", "BF16"])
def test_a_router_in_half_precision_is_widened(tiny_model, kind: str) -> None:
    metadata, tensors = opened(tiny_model(architecture="mixtral"))
    shape = read_shape(metadata, tensors)
    [router] = [tensor for tensor in tensors if tensor.name == "blk.1.ffn_gate_inp.weight"]
    data = gguf.quants.quantize(router.data.view(np.float32), gguf.GGMLQuantizationType[kind])
    half = replace(router, type=kind, source=np.ascontiguousarray(data).view(np.uint8))
    others = [tensor for tensor in tensors if tensor is not router]
    assert read_shape(metadata, [*others, half]) == shape
    [wide] = arranged(shape, [half])
    assert wide.type == "F32" and np.allclose(wide.data.view(np.float32), router.data.view(np.float32), rtol=1e-2)


def test_a_gemma_file_may_say_of_each_layer_whether_it_slides(tiny_model) -> None:
    model = opened(tiny_model(architecture="gemma3", layers=3))
    shape = read_shape(*changed(model, attention__sliding_window_pattern=[False, True, True]))
    assert shape.kinds == ("attention", "sliding", "sliding")


@pytest.mark.parametrize("architecture", ["gemma3", "llama"])
def test_a_turn_ends_at_the_control_tokens_that_the_vocabulary_has(tmp_path: Path, architecture: str) -> None:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", architecture)
    control, normal, added = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL, gguf.TokenType.USER_DEFINED
    types = {"<pad>": control, "<eos>": control, "<end_of_turn>": normal, "<|eot_id|>": control, "<EOT>": normal}
    types |= {"</s>": added, "<|endoftext|>": control, "<|file_sep|>": control}
    writer.add_token_list(list(types))
    writer.add_token_types(list(types.values()))
    writer.add_eos_token_id(3)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert opened(tmp_path / "model.gguf")[0].eos == (3, 1, 2, 6, 7)


def test_the_largest_gemma_scales_its_queries_by_the_width() -> None:
    assert FAMILIES["gemma2"].query_scale(46, 4608, 32, 128) == 1 / 12
    assert FAMILIES["gemma2"].query_scale(62, 4608, 32, 128) == 1 / 128**0.5
    assert FAMILIES["gemma3"].query_scale(62, 5376, 32, 128) == 168**-0.5
    assert FAMILIES["gemma3"].query_scale(48, 3840, 16, 256) == 1 / 16


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


@pytest.mark.parametrize("architecture", ["qwen35", "qwen35moe", "qwen3next", "glm4moe"])
def test_layers_that_draft_are_left_out(tiny_model, tmp_path: Path, architecture: str) -> None:
    """A file whose last layers draft is the model that it is without them."""
    path = tiny_model(architecture=architecture, layers=5)
    draft = {f"{architecture}.nextn_predict_layers": 2}
    full = written(path, tmp_path / "full.gguf", draft, ["blk.3.nextn.eh_proj.weight", "blk.4.nextn.enorm.weight"])
    plain = written(path, tmp_path / "plain.gguf", {f"{architecture}.block_count": 3}, [], ("blk.3.", "blk.4."))
    shape = read_shape(*opened(full))
    assert shape.kinds == (("attention",) * 3 if architecture == "glm4moe" else ("recurrent", "attention", "recurrent"))
    one, other = (open_core(each, slots=1, context=64, threads=1) for each in (full, plain))
    assert one.fingerprint == other.fingerprint


def written(path: Path, to: Path, keys: dict[str, int], more: list[str], less: tuple[str, ...] = ()) -> Path:
    """The file at `path` with other keys, more tensors, and without those whose names begin in some way."""
    reader = gguf.GGUFReader(path)
    values = {key: field.contents() for key, field in reader.fields.items()}
    writer = gguf.GGUFWriter(to, values["general.architecture"])
    for key, value in (values | keys).items():
        if type(value) is int and key.startswith(values["general.architecture"]):
            writer.add_uint32(key, value)
        elif type(value) is float:
            writer.add_float32(key, value)
    writer.add_token_list(values["tokenizer.ggml.tokens"])
    for tensor in reader.tensors:
        if not tensor.name.startswith(less or "-"):
            writer.add_tensor(tensor.name, tensor.data)
    for name in more:
        writer.add_tensor(name, np.ones(8, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return to


def test_fused_rows_are_taken_apart_whatever_their_type(tiny_model) -> None:
    metadata, tensors = opened(tiny_model(architecture="qwen3next", type="Q4_0"))
    shape = read_shape(metadata, tensors)
    [fused] = [tensor for tensor in tensors if tensor.name == "blk.0.ssm_ba.weight"]
    parts = {tensor.name: tensor for tensor in arranged(shape, tensors)}
    assert fused.name not in parts
    beta, alpha = parts["blk.0.ssm_beta.weight"], parts["blk.0.ssm_alpha.weight"]
    assert (beta.type, beta.rows, beta.columns) == ("Q4_0", 4, 64)
    assert np.array_equal(beta.data, fused.data[[0, 1, 4, 5]])
    assert np.array_equal(alpha.data, fused.data[[2, 3, 6, 7]])
    assert [tensor.name for tensor in arranged(shape, list(parts.values()))] == list(parts)
