"""NVFP4 in every layout that is read, against values worked out element by element."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from paceline.native.files import nvfp4
from paceline.native.files.model_file import Tensor
from paceline.native.files.safetensors_file import Stored
from paceline.native.reference_weights import to_float32
from paceline.native.weights import ModelUnreadable, open_model

from ..family_files import paired
from .folders import LLAMA, llama_tensors, write_folder

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
FACTOR = 0.0625


def e4m3(byte: int) -> float:
    exponent, mantissa = byte >> 3, byte & 7
    return float((1 + mantissa / 8) * 2.0 ** (exponent - 7) if exponent else mantissa * 2.0**-9)


def random_pairs(rows: int, columns: int) -> tuple[Any, Any]:
    random = np.random.RandomState(2)
    pairs = random.randint(0, 256, (rows, columns // 2)).astype(np.uint8)
    return pairs, random.randint(0, 0x7F, (rows, columns // 16)).astype(np.uint8)


def plain(pairs: Any, scales: Any) -> Any:
    """The weights without the factor, one by one: [rows, columns]."""
    rows, columns = len(pairs), pairs.shape[1] * 2
    values = np.empty((rows, columns), np.float32)
    for row in range(rows):
        for column in range(columns):
            code = pairs[row, column // 2] >> (4 * (column % 2)) & 15
            values[row, column] = E2M1[code] * e4m3(int(scales[row, column // 16]))
    return values


def test_blocks_hold_the_same_weights_in_ggmls_order() -> None:
    pairs, scales = random_pairs(3, 128)
    found = nvfp4.blocks(pairs, scales)
    assert found.shape == (3, 2 * 36)
    assert (gguf.quants.dequantize(found, gguf.GGMLQuantizationType.NVFP4) == plain(pairs, scales)).all()
    assert (found[0, :4] == scales[0, :4]).all()
    assert found[0, 4] == (pairs[0, 0] & 15) | (pairs[0, 4] & 15) << 4  # elements 0 and 8


def stored(parts: dict[str, tuple[str, Any]]) -> dict[str, Stored]:
    return {n: Stored(n, dtype, a.shape, a.reshape(-1).view(np.uint8)) for n, (dtype, a) in parts.items()}


def modelopt(pairs: Any, scales: Any, factor: Any = FACTOR) -> dict[str, tuple[str, Any]]:
    return {
        "a.weight": ("U8", pairs),
        "a.weight_scale": ("F8_E4M3", scales),
        "a.weight_scale_2": ("F32", np.float32(factor).reshape(np.shape(factor))),
    }


def test_modelopt_has_a_factor_and_compressed_tensors_a_divisor() -> None:
    pairs, scales = random_pairs(4, 64)
    [(first, names)] = nvfp4.stored_tensors(stored(modelopt(pairs, scales)))
    assert (first.name, first.type, first.rows, first.columns, first.scales) == ("a.weight", "NVFP4", 4, 64, (FACTOR,))
    assert names == ("a.weight", "a.weight_scale", "a.weight_scale_2")
    packed = {
        "a.weight_packed": ("U8", pairs),
        "a.weight_scale": ("F8_E4M3", scales),
        "a.weight_global_scale": ("F32", np.array([1 / FACTOR], np.float32)),
    }
    [(second, _)] = nvfp4.stored_tensors(stored(packed))
    assert second.name == "a.weight" and second.data.tobytes() == first.data.tobytes() and second.scales == (FACTOR,)
    assert (to_float32(first) == plain(pairs, scales) * FACTOR).all() and first.data.nbytes == first.nbytes


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"a.weight_scale": None}, "the tensor 'a.weight_scale' of 'a.weight' is missing, expected F8_E4M3"),
        ({"a.weight_scale_2": None}, "the tensor 'a.weight_scale_2' of 'a.weight' is missing, expected F32"),
        ({"a.weight_scale": ("U8", np.zeros((4, 4), np.uint8))}, "is U8, expected F8_E4M3"),
        ({"a.weight_scale": ("F8_E4M3", np.zeros((4, 2), np.uint8))}, "its scales \\[4, 2\\], expected"),
        ({"a.weight": ("U8", np.zeros((4, 16), np.uint8))}, "with n a multiple of 64"),
        ({"a.weight_scale_2": ("F32", np.zeros(1, np.float32))}, "holds a factor that is no number above 0"),
        ({"a.weight_scale_2": ("F32", np.ones(2, np.float32))}, "has 2 numbers, expected one"),
    ],
)
def test_parts_that_do_not_fit(change: dict[str, Any], reason: str) -> None:
    parts = {name: part for name, part in {**modelopt(*random_pairs(4, 64)), **change}.items() if part}
    with pytest.raises(ValueError, match=reason):
        list(nvfp4.stored_tensors(stored(parts)))


@pytest.mark.parametrize("byte", [0x80, 0xB8, 0x7F, 0xFF])
def test_a_scale_that_is_negative_or_no_number_is_refused_when_read(byte: int) -> None:
    pairs, scales = random_pairs(4, 64)
    scales[3, 2] = byte
    [(tensor, _)] = nvfp4.stored_tensors(stored(modelopt(pairs, scales)))
    with pytest.raises(ModelUnreadable, match=r"the tensor 'a\.weight' has a scale that is negative or no number"):
        _ = tensor.data


def native(name: str, pairs: Any, scales: Any) -> Tensor:
    return Tensor(name, "NVFP4", len(pairs), pairs.shape[1] * 2, nvfp4.blocks(pairs, scales))


def vector(name: str, *numbers: float) -> Tensor:
    return Tensor(name, "F32", 1, len(numbers), np.array([numbers], np.float32).view(np.uint8))


@pytest.mark.parametrize("name", ["a.scale", "a.weight.scale"])
def test_the_factors_of_a_gguf_file(name: str) -> None:
    pairs, scales = random_pairs(4, 64)
    others = [vector("a.input_scale", 3.0), vector("norm.weight", 1.0)]
    found = nvfp4.merged([native("a.weight", pairs, scales), vector(name, 0.5, 0.25), *others])
    assert [tensor.name for tensor in found] == ["a.weight", "norm.weight"] and found[0].scales == (0.5, 0.25)
    expected = plain(pairs, scales) * np.repeat([0.5, 0.25], 2)[:, None].astype(np.float32)
    assert (to_float32(found[0]) == expected).all()
    for wrong in (vector(name, 1.0, 1.0, 1.0), vector(name, -1.0), vector(name, float("nan"))):
        with pytest.raises(ValueError, match=f"the tensor '{name}'"):
            nvfp4.merged([native("a.weight", pairs, scales), wrong])


def test_a_gguf_file_without_factors_and_with_a_bad_scale() -> None:
    pairs, scales = random_pairs(4, 64)
    [tensor] = nvfp4.merged([native("a.weight", pairs, scales)])
    assert tensor.scales == () and (to_float32(tensor) == plain(pairs, scales)).all()
    scales[0, 0] |= 0x80
    [tensor] = nvfp4.merged([native("a.weight", pairs, scales)])
    with pytest.raises(ModelUnreadable, match="has a scale that is negative"):
        _ = tensor.data


def ds4(pairs: Any, scales: Any) -> Tensor:
    data = np.concatenate([pairs.reshape(-1, 128), scales.reshape(-1, 16)], axis=1)
    return Tensor("a.nvfp4_weight", "NVFP4", len(pairs), pairs.shape[1] * 2, data.reshape(len(pairs), -1))


def test_ds4s_blocks_are_known_by_name() -> None:
    pairs, scales = random_pairs(4, 512)
    [tensor] = nvfp4.merged([ds4(pairs, scales), vector("a.nvfp4_scale_2", 0.5, 0.25)])
    assert (tensor.name, tensor.scales, tensor.data.shape) == ("a.weight", (0.5, 0.25), (4, tensor.nbytes // 4))
    expected = plain(pairs, scales) * np.repeat([0.5, 0.25], 2)[:, None].astype(np.float32)
    assert (to_float32(tensor) == expected).all()


def test_ds4s_blocks_that_do_not_fit() -> None:
    pairs, scales = random_pairs(4, 256)
    factors = vector("a.nvfp4_scale_2", 1.0)
    with pytest.raises(ValueError, match=r"'a\.nvfp4_weight' has no 'a\.nvfp4_scale_2'"):
        nvfp4.merged([ds4(pairs, scales)])
    with pytest.raises(ValueError, match=r"'a\.nvfp4_scale_2' is F32, expected a pair with NVFP4 weights"):
        nvfp4.merged([native("a.weight", pairs, scales), factors])
    with pytest.raises(ValueError, match="has 320 columns, expected a multiple of 256"):
        nvfp4.merged([Tensor("a.nvfp4_weight", "NVFP4", 1, 320, np.zeros((1, 180), np.uint8)), factors])
    scales[1, 1] = 0x81
    [tensor] = nvfp4.merged([ds4(pairs, scales), factors])
    with pytest.raises(ModelUnreadable, match="has a scale that is negative"):
        _ = tensor.data


def test_a_folder_of_modelopt(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "nvfp4", llama_tensors(), LLAMA)
    pairs, scales = random_pairs(64, 64)
    stem = "model.layers.0.self_attn.q_proj"
    rest = {name: weights for name, weights in llama_tensors().items() if name != f"{stem}.weight"}
    parts = {name: ("F32", weights) for name, weights in rest.items()}
    parts |= {f"{stem}{name[1:]}": part for name, part in modelopt(pairs, scales).items()}
    parts[f"{stem}.input_scale"] = ("F32", np.float32(1).reshape(()))
    write_raw(folder / "model.safetensors", parts)
    found = {tensor.name: tensor for tensor in open_model(folder)[1]}
    assert len(found) == len(llama_tensors()) and found["blk.0.attn_q.weight"].type == "NVFP4"
    assert (to_float32(found["blk.0.attn_q.weight"]) == paired(plain(pairs, scales), 4) * FACTOR).all()


def write_raw(path: Path, parts: dict[str, tuple[str, Any]]) -> None:
    """A safetensors file of types that NumPy does not have."""
    header, data = {}, b""
    for name, (dtype, array) in parts.items():
        raw = array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
