"""ModelShape of LFM2, whose layers attend or convolve: what is read, and what is refused by name."""

from typing import Any

import pytest
from paceline.native.core import native_shape
from paceline.native.model import read_shape
from paceline.native.weights import ModelUnreadable

from .opened_models import Opened, changed, opened


@pytest.fixture
def model(tiny_model) -> Opened:
    return opened(tiny_model(architecture="lfm2", layers=5, interval=3, conv_kernel=3))


def test_layers_without_kv_heads_convolve(model: Opened) -> None:
    shape = read_shape(*model)
    assert shape.kinds == ("recurrent", "recurrent", "attention", "recurrent", "recurrent")
    assert (shape.kv_heads, shape.conv_kernel, shape.value_heads, shape.key_heads) == (2, 3, 0, 0)
    native = native_shape(shape, 64)
    assert native.state_bytes == 4 * 2 * shape.width * 4  # layers, inputs, channels, bytes
    assert native.update_bytes == 4 * shape.width * 4


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"attention__head_count_kv": [0, 0, 2, 0]}, "head_count_kv' is no list of whole numbers for 5 layers"),
        ({"attention__head_count_kv": [0, 0, -1, 0, 0]}, "head_count_kv' is no list of whole numbers for 5 layers"),
        ({"attention__head_count_kv": [0, 2, 4, 0, 0]}, r"head_count_kv' has \[2, 4\], expected one number"),
        ({"attention__head_count_kv": [0] * 5}, r"head_count_kv' has \[\], expected one number"),
        ({"attention__head_count_kv": 2}, r"the tensor 'blk.0.attn_q.weight' \[64, 64\] is missing"),
        ({"shortconv__l_cache": None}, "'lfm2.shortconv.l_cache' is missing"),
        ({"shortconv__l_cache": 1}, "'lfm2.shortconv.l_cache' is 1, expected at least 2"),
        ({"shortconv__l_cache": 17}, "its convolution has 17 taps, expected at most 16"),
        ({"shortconv__l_cache": 4}, r"'blk.0.shortconv.conv.weight' is \[64, 3\], expected \[64, 4\]"),
    ],
)
def test_what_does_not_fit_is_refused(model: Opened, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelUnreadable, match=says):
        read_shape(*changed(model, **changes))
