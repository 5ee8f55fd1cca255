"""Tensors that files scale, fuse or narrow, in the one form that is computed with."""

from dataclasses import replace

import gguf
import numpy as np
import pytest
from paceline.native.arrange import arranged, computed_with, embedding_scale
from paceline.native.files.rearrange import renamed, stacked
from paceline.native.model import read_shape
from paceline.native.weights import ModelUnreadable, Tensor

from .opened_models import as_another, opened


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


def test_gates_apart_join_the_queries_of_their_heads(tiny_model) -> None:
    metadata, tensors = opened(tiny_model(architecture="afmoe", type="Q4_0", heads=4, head_size=16))
    shape = read_shape(metadata, tensors)
    found = {tensor.name: tensor for tensor in tensors}
    joined = {tensor.name: tensor for tensor in arranged(shape, tensors)}
    assert set(found) - set(joined) == {f"blk.{layer}.attn_gate.weight" for layer in range(2)}
    parts = [found[f"blk.1.attn_{part}.weight"].data.reshape(4, 16, -1) for part in ("q", "gate")]
    both = joined["blk.1.attn_q.weight"]
    assert (both.rows, both.type) == (128, "Q4_0")
    assert np.array_equal(both.data.reshape(4, 32, -1), np.concatenate(parts, axis=1))
    assert [tensor.name for tensor in arranged(shape, list(joined.values()))] == list(joined)


@pytest.mark.parametrize(
    ("name", "kind", "rows", "says"),
    [
        ("attn_gate", "F32", 63, r"the tensor 'blk.0.attn_gate.weight' is F32 \[63, 64\], expected F32 \[64, 64\]"),
        (
            "attn_gate",
            "F16",
            64,
            r"'blk.0.attn_gate.weight' is F16 \[64, 64\], expected F32 .* as 'blk.0.attn_q.",
        ),
        ("attn_q", "F32", 63, r"the tensor 'blk.0.attn_q.weight' is \[63, 64\], expected \[64, 64\]"),
    ],
)
def test_gates_unlike_their_queries_are_refused(tiny_model, name: str, kind: str, rows: int, says: str) -> None:
    metadata, tensors = opened(tiny_model(architecture="afmoe", heads=4, head_size=16, type="F32"))
    other = Tensor(f"blk.0.{name}.weight", kind, rows, 64, np.zeros((rows, 256 if kind == "F32" else 128), np.uint8))
    changed = [other if tensor.name == other.name else tensor for tensor in tensors]
    with pytest.raises(ModelUnreadable, match=says):
        read_shape(metadata, changed)


def test_gates_have_the_scale_of_their_queries(tiny_model) -> None:
    metadata, tensors = opened(tiny_model(architecture="afmoe", heads=4, head_size=16))
    shape = read_shape(metadata, tensors)
    scaled = [replace(each, scales=(2.0,)) if "blk.0.attn_" in each.name else each for each in tensors]
    joined = {tensor.name: tensor.scales for tensor in arranged(shape, scaled)}
    assert (joined["blk.0.attn_q.weight"], joined["blk.1.attn_q.weight"]) == ((2.0,), ())
    scaled = [replace(each, scales=(2.0,)) if each.name == "blk.0.attn_q.weight" else each for each in tensors]
    with pytest.raises(ValueError, match=r"'blk.0.attn_gate.weight' has another scale than 'blk.0.attn_q.weight'"):
        arranged(shape, scaled)
    [gate] = [each for each in tensors if each.name == "blk.1.attn_gate.weight"]
    with pytest.raises(ModelUnreadable, match=r"the tensor 'blk.1.attn_gate.weight'"):
        read_shape(metadata, [*tensors, replace(gate)])


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
