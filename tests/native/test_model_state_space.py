"""ModelShape of hybrids with state spaces: what is read, and what is refused by name."""

from typing import Any

import pytest
from paceline.native.arrange import arranged
from paceline.native.core import native_shape, tables
from paceline.native.files.rearrange import floats
from paceline.native.model import read_shape
from paceline.native.weights import ModelUnreadable

from .opened_models import Opened, changed, opened


@pytest.fixture
def model(tiny_model) -> Opened:
    return opened(tiny_model(architecture="granitehybrid", layers=5, interval=3))


def test_layers_without_kv_heads_are_state_spaces(model: Opened) -> None:
    shape = read_shape(*model)
    assert shape.kinds == ("recurrent", "recurrent", "unrotated", "recurrent", "recurrent")
    assert shape.state_space and shape.grouped_heads and not shape.gated_convolution
    assert (shape.kv_heads, shape.key_heads, shape.value_heads, shape.key_size, shape.value_size) == (2, 2, 4, 16, 16)
    native = native_shape(shape, 64)
    channels, state = 2 * 2 * 16 + 4 * 16, 4 * 16 * 16
    assert native.state_bytes == 4 * (3 * channels + state) * 4  # layers, inputs and state, bytes
    assert native.update_bytes == 4 * (channels + 2 * 4) * 4


def test_its_projection_is_gates_channels_and_steps(model: Opened) -> None:
    """z, then x, B and C, then dt, as in https://arxiv.org/abs/2405.21060."""
    metadata, tensors = model
    shape = read_shape(metadata, tensors)
    [whole] = [floats(tensor) for tensor in tensors if tensor.name == "blk.0.ssm_in.weight"]
    found = {tensor.name: floats(tensor) for tensor in arranged(shape, tensors) if tensor.name.startswith("blk.0.")}
    assert (found["blk.0.attn_gate.weight"] == whole[:64]).all()
    assert (found["blk.0.attn_qkv.weight"] == whole[64:192]).all()
    assert (found["blk.0.ssm_alpha.weight"] == whole[192:]).all() and len(whole) == 196


def test_a_file_may_say_that_it_rotates(model: Opened) -> None:
    still, turning = read_shape(*model), read_shape(*changed(model, rope__scaling__finetuned=True))
    assert set(turning.kinds) == {"recurrent", "attention"}
    assert (tables(still, 32).local_cosines == 1).all() and not (tables(turning, 32).cosines == 1).all()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"attention__head_count_kv": [0, 0, 2, 0]}, "head_count_kv' is no list of whole numbers for 5 layers"),
        ({"attention__head_count_kv": [0] * 5}, r"head_count_kv' has \[\], expected one number"),
        ({"ssm__group_count": None}, "'granitehybrid.ssm.group_count' is missing"),
        ({"ssm__group_count": 3}, "its 4 value heads are no multiple of its 3 key heads"),
        ({"ssm__group_count": 4}, r"'blk.0.ssm_in.weight' is \[196, 64\], expected \[260, 64\]"),
        ({"ssm__state_size": 8}, r"'blk.0.ssm_in.weight' is \[196, 64\], expected \[164, 64\]"),
        ({"ssm__inner_size": 63}, "'granitehybrid.ssm.inner_size' is 63, no multiple of its 4 value heads"),
        ({"ssm__conv_kernel": 3}, r"'blk.0.ssm_conv1d.weight' is \[128, 4\], expected \[128, 3\]"),
        ({"ssm__dt_b_c_rms": True}, "'granitehybrid.ssm.dt_b_c_rms' is True, supported: False"),
        ({"rope__scaling__finetuned": 0}, "'granitehybrid.rope.scaling.finetuned' is 0, expected true or false"),
    ],
)
def test_what_does_not_fit_is_refused(model: Opened, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelUnreadable, match=says):
        read_shape(*changed(model, **changes))


@pytest.mark.parametrize("part", ["ssm_conv1d.bias", "ssm_d", "ssm_dt.bias", "ssm_norm.weight"])
def test_no_part_of_it_may_be_missing(model: Opened, part: str) -> None:
    metadata, tensors = model
    with pytest.raises(ModelUnreadable, match=rf"the tensor 'blk.0.{part}' .* is missing"):
        read_shape(metadata, [tensor for tensor in tensors if tensor.name != f"blk.0.{part}"])
