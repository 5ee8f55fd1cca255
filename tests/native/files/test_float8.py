"""Matrices of 8-bit floats, against values worked out one by one."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType
from gguf.quants import quantize
from paceline.native.files import float8
from paceline.native.files.safetensors_file import Stored
from paceline.native.reference_weights import to_float32
from paceline.native.weights import ModelUnreadable, open_model

from ..family_files import paired
from .folders import LLAMA, llama_tensors, refusal, write_folder
from .test_nvfp4 import write_raw

ROWS, COLUMNS = 5, 7


def e4m3(byte: int) -> float:
    sign, exponent, mantissa = -1.0 if byte & 0x80 else 1.0, byte >> 3 & 15, byte & 7
    return sign * ((1 + mantissa / 8) * 2.0 ** (exponent - 7) if exponent else mantissa / 8 * 2.0**-6)


def random_codes(rows: int = ROWS, columns: int = COLUMNS) -> Any:
    codes = np.random.RandomState(rows).randint(0, 256, (rows, columns)).astype(np.uint8)
    return np.where(codes & 0x7F == 0x7F, 0, codes).astype(np.uint8)


def stored(name: str, dtype: str, array: Any) -> Stored:
    return Stored(name, dtype, array.shape, np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def read(codes: Any, scales: Any, block: tuple[int, int] = (2, 3), mark: str = "weight_scale_inv") -> Any:
    """The one tensor's floats [rows, columns]."""
    dtype = "F32" if scales.dtype == np.float32 else "BF16"
    found = {"a.weight": stored("a.weight", "F8_E4M3", codes), f"a.{mark}": stored(f"a.{mark}", dtype, scales)}
    [(tensor, names)] = float8.float8_tensors(found, block)
    assert (tensor.name, tensor.type, tensor.rows, tensor.columns) == ("a.weight", "BF16", *codes.shape)
    assert names == ("a.weight", f"a.{mark}") and tensor.data.shape == (len(codes), 2 * codes.shape[1])
    return to_float32(tensor)


def rounded(values: Any) -> Any:
    """To BF16 and back."""
    words = quantize(np.ascontiguousarray(values, np.float32), GGMLQuantizationType.BF16).view(np.uint16)
    return (words.astype(np.uint32) << 16).view(np.float32)


def plain(codes: Any, scale_of: Any) -> Any:
    values = [
        [np.float32(e4m3(int(code))) * scale_of(i, j) for j, code in enumerate(row)] for i, row in enumerate(codes)
    ]
    return rounded(np.array(values, np.float32))


def test_every_code_is_its_number() -> None:
    codes = np.arange(256, dtype=np.uint8).reshape(2, 128)
    codes = np.where(codes & 0x7F == 0x7F, 0, codes).astype(np.uint8)
    assert (read(codes, np.ones(1, np.float32)) == plain(codes, lambda i, j: np.float32(1))).all()


@pytest.mark.parametrize("together", [1, 20, 1 << 20])
@pytest.mark.parametrize("shape", [(3,), (3, 1, 1), (3, 2, 1), (3, 6, 1), (3, 3, 3)])
def test_scales_of_experts(monkeypatch: pytest.MonkeyPatch, together: int, shape: tuple[int, ...]) -> None:
    """One for each, one for its gates and one for its ups, one for each row, or blocks that begin anew with each."""
    monkeypatch.setattr(float8, "TOGETHER", together)
    rows, columns = 6, 7
    codes = random_codes(3 * rows, columns).reshape(3, rows, columns)
    scales = np.random.RandomState(4).uniform(0.5, 2, shape).astype(np.float32)
    found = {"up": stored("up", "F8_E4M3", codes), "up_scale_inv": stored("up_scale_inv", "F32", scales)}
    [(tensor, _)] = float8.float8_tensors(found, (2, 3))
    assert (tensor.rows, tensor.columns) == (3 * rows, columns)
    each = scales.reshape(3, -1, shape[2] if len(shape) == 3 else 1)
    high, wide = rows // each.shape[1], -(-columns // each.shape[2])
    expected = [plain(codes[e], lambda i, j, e=e: each[e, i // high, j // wide]) for e in range(3)]
    assert (to_float32(tensor) == np.concatenate(expected)).all()


@pytest.mark.parametrize("together", [1, 20, 1 << 20])
def test_scales_of_blocks_rows_and_the_whole(monkeypatch: pytest.MonkeyPatch, together: int) -> None:
    monkeypatch.setattr(float8, "TOGETHER", together)
    codes, random = random_codes(), np.random.RandomState(3)
    blocks = random.uniform(0.5, 2, (3, 3)).astype(np.float32)
    assert (read(codes, blocks) == plain(codes, lambda i, j: blocks[i // 2, j // 3])).all()
    rows = random.uniform(0.5, 2, (ROWS, 1)).astype(np.float32)
    for shape in (rows, rows[:, 0]):
        assert (read(codes, shape, mark="weight_scale") == plain(codes, lambda i, j: rows[i, 0])).all()
    for one in (np.array(0.3, np.float32), np.array([[0.3]], np.float32)):
        assert (read(codes, one, mark="weight_scale") == plain(codes, lambda i, j: np.float32(0.3))).all()


def test_scales_may_be_of_16_bits() -> None:
    codes, words = random_codes(), np.array([[0x3E80], [0x3F80], [0x4000], [0x3E80], [0x3F80]], np.uint16)
    scales = (words.astype(np.uint32) << 16).view(np.float32)
    assert (read(codes, words) == plain(codes, lambda i, j: scales[i, 0])).all()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"a.weight_scale_inv": None}, "'a.weight' is F8_E4M3 and has 0 tensors of scales, expected one"),
        ({"a.weight_scale": ("F32", np.ones((3, 3), np.float32))}, "has 2 tensors of scales"),
        ({"a.weight_scale_inv": ("U8", np.ones((3, 3), np.uint8))}, "is U8, expected F32 or F16 or BF16"),
        ({"a.weight_scale_inv": ("F32", np.ones((3, 2), np.float32))}, r"its scales \[3, 2\], expected .* \[3, 3\]"),
        ({"a.weight": ("F8_E4M3", np.ones((2, 3, 5), np.uint8))}, r"'a.weight' is \[2, 3, 5\] and its scales"),
    ],
)
def test_parts_that_do_not_fit(change: dict[str, Any], reason: str) -> None:
    parts: dict[str, Any] = {
        "a.weight": ("F8_E4M3", random_codes()),
        "a.weight_scale_inv": ("F32", np.ones((3, 3), np.float32)),
    }
    found = {name: stored(name, *part) for name, part in (parts | change).items() if part}
    with pytest.raises(ValueError, match=reason):
        list(float8.float8_tensors(found, (2, 3)))


@pytest.mark.parametrize("code", [0x7F, 0xFF])
def test_a_weight_that_is_no_number_is_refused_when_read(code: int) -> None:
    codes = random_codes()
    codes[3, 2] = code
    with pytest.raises(ModelUnreadable, match=r"the tensor 'a\.weight' has a weight that is no number"):
        read(codes, np.ones((3, 3), np.float32))


@pytest.mark.parametrize("scale", [np.nan, np.inf, 1e38])
def test_a_scale_that_is_no_number_is_refused_when_read(scale: float) -> None:
    scales = np.ones((3, 3), np.float32)
    scales[2, 1] = scale
    with pytest.raises(ModelUnreadable, match=r"the tensor 'a\.weight_scale_inv' has a scale that is no number"):
        read(random_codes(), scales)


@pytest.mark.parametrize(
    ("config", "size"),
    [
        ({}, (128, 128)),
        ({"quantization_config": None}, (128, 128)),
        ({"quantization_config": {"quant_method": "fp8", "weight_block_size": None}}, (128, 128)),
        ({"quantization_config": {"quant_method": "fp8", "weight_block_size": [64, 32]}}, (64, 32)),
        ({"quantization_config": {"config_groups": {"g": {"weights": {"block_structure": [32, 16]}}}}}, (32, 16)),
        ({"quantization_config": {"config_groups": {"g": {"weights": {"strategy": "channel"}}}}}, (128, 128)),
        ({"quantization_config": {"config_groups": {"g": {"weights": None}, "h": {}}}}, (128, 128)),
        ({"quantization_config": {"config_groups": [3]}}, (128, 128)),
    ],
)
def test_a_config_gives_the_size_of_blocks(config: dict[str, Any], size: tuple[int, int]) -> None:
    assert float8.block_size(config) == size


@pytest.mark.parametrize("size", [[0, 128], [128], [10**30, 3], "128", [128, 1.5], {"rows": 128}])
def test_a_size_that_is_none_is_refused(size: Any) -> None:
    with pytest.raises(ValueError, match="its quantization_config has blocks of"):
        float8.block_size({"quantization_config": {"weight_block_size": size}})


def test_a_folder_of_8_bit_floats(tmp_path: Path) -> None:
    quantized = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [32, 32]}}
    folder = write_folder(tmp_path / "fp8", llama_tensors(), LLAMA | quantized)
    codes, scales = random_codes(64, 64), np.random.RandomState(4).uniform(0.001, 0.01, (2, 2)).astype(np.float32)
    stem = "model.layers.0.self_attn.q_proj"
    parts = {name: ("F32", weights) for name, weights in llama_tensors().items() if name != f"{stem}.weight"}
    parts |= {f"{stem}.weight": ("F8_E4M3", codes), f"{stem}.weight_scale_inv": ("F32", scales)}
    parts[f"{stem}.activation_scale"] = ("F32", np.ones((), np.float32))
    write_raw(folder / "model.safetensors", parts)
    found = {tensor.name: tensor for tensor in open_model(folder)[1]}
    assert len(found) == len(llama_tensors()) and found["blk.0.attn_q.weight"].type == "BF16"
    expected = plain(codes, lambda i, j: scales[i // 32, j // 32])
    assert (to_float32(found["blk.0.attn_q.weight"]) == paired(expected, 4)).all()
    (folder / "config.json").write_text(json.dumps(LLAMA | {"quantization_config": {"weight_block_size": [16, 16]}}))
    assert "for blocks of [16, 16], [4, 4]" in refusal(folder)
