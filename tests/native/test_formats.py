"""Every weight format, repacked, unpacked and multiplied: random blocks against the gguf package's dequantization."""

import numpy as np
import numpy.typing as npt
import pytest
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from paceline.native import _cpu
from paceline.native.core import open_core
from paceline.native.files.model_file import MATRIX_TYPES

from .rows import all_logits

ROWS = 37  # no multiple of a tile's 16 rows
# Where in a block its halves d and m are.
HALVES = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "IQ4_NL": [0],
    "Q6_K": [208],
    "Q5_K": [0, 2],
    "Q4_K": [0, 2],
    "IQ4_XS": [0],
    "Q3_K": [108],
    "Q2_K": [80, 82],
    "IQ3_S": [0],
    "IQ3_XXS": [0],
    "IQ2_S": [0],
    "IQ2_XS": [0],
    "IQ2_XXS": [0],
    "IQ1_S": [0],
}


def columns_of(name: str, blocks: int) -> int:
    """`blocks` blocks of 32 columns, or as many blocks of the file as reach as far."""
    size, _ = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    return -(-32 * blocks // size) * size


def random_blocks(
    name: str, columns: int, seed: int = 0, fill: npt.NDArray[np.uint8] | None = None
) -> npt.NDArray[np.uint8]:
    """[ROWS, bytes of a row]: any codes, or of bytes that are all the row's one of `fill` [ROWS]; scales that are
    ordinary numbers."""
    rng = np.random.default_rng(seed)
    kind = GGMLQuantizationType[name]
    size, block_bytes = GGML_QUANT_SIZES[kind]
    if size == 1:
        floats = rng.normal(0, 1, (ROWS, columns)).astype(np.float32)
        bits = {
            "F32": floats,
            "F16": floats.astype(np.float16),
            "BF16": (floats.view(np.uint32) >> 16).astype(np.uint16),
        }
        return bits[name].view(np.uint8)
    blocks = rng.integers(0, 256, (ROWS, columns // size, block_bytes), np.uint8)
    if fill is not None:
        blocks[:] = fill[:, None, None]
    if name == "MXFP4":
        blocks[..., 0] = rng.integers(0, 140, blocks.shape[:2])
    elif name == "NVFP4":
        blocks[..., :4] = rng.integers(0, 128, (*blocks.shape[:2], 4))  # 0 and 127 both mean zero
    elif name == "IQ1_M":  # its half d is in four nibbles, each above twelve bits of scales
        half = rng.normal(0, 0.1, blocks.shape[:2]).astype(np.float16).view(np.uint16)
        words = blocks[..., 48:].view(np.uint16)
        words[:] = words & 0xFFF | half[..., None] >> 4 * np.arange(4, dtype=np.uint16) << 12
    else:
        for place in HALVES[name]:
            half = rng.normal(0, 0.1, (*blocks.shape[:2], 1)).astype(np.float16)
            blocks[..., place : place + 2] = half.view(np.uint8)
    return blocks.reshape(ROWS, -1)


def extreme_blocks(name: str, columns: int) -> npt.NDArray[np.uint8]:
    """[ROWS, bytes of a row]: ordinary weights, but in a block of most rows is a scale or minimum (a weight, of float
    types) that no working model has: infinite, NaN, as large or as small as can be, a negative zero."""
    data = random_blocks(name, columns, seed=5)
    size, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    blocks = data.reshape(ROWS, columns // size, block_bytes)
    halves = np.array([0x7C00, 0xFC00, 0x7E00, 0x7BFF, 0xFBFF, 0x0001, 0x8001, 0x8000, 0x03FF], np.uint16)
    floats = np.array([np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45, -1e-45, -0.0, 1e-39], np.float32)
    numbers = {"F32": floats, "BF16": (floats.view(np.uint32) >> 16).astype(np.uint16)}.get(name, halves)
    for row in range(ROWS - 1):
        block = blocks[row, row * 5 % blocks.shape[1]]
        number = numbers[row % len(numbers) :][:1]
        if name == "MXFP4":
            block[0] = (255, 254, 231, 230, 229, 2, 1, 0)[row % 8]
        elif name == "NVFP4":
            block[:4] = (0x7F, 0x7E, 0x80, 0xFF, 0x01, 0x00)[row % 6]
        elif name == "IQ1_M":
            words = block[48:].view(np.uint16)
            words[:] = words & 0xFFF | number >> 4 * np.arange(4, dtype=np.uint16) << 12
        else:
            places = HALVES.get(name, [0])
            place = places[row % len(places)]
            block[place : place + number.nbytes] = number.view(np.uint8)
    return data


def same_numbers(ours: npt.NDArray[np.float32], theirs: npt.NDArray[np.float32]) -> bool:
    """The same bits, or both NaN, whose bits are the processor's affair."""
    return bool(np.all((ours.view(np.uint32) == theirs.view(np.uint32)) | (np.isnan(ours) & np.isnan(theirs))))


@pytest.mark.parametrize("name", MATRIX_TYPES)
def test_rows_are_what_the_gguf_package_reads(name: str) -> None:
    columns = columns_of(name, 3)
    data = random_blocks(name, columns)
    expected = dequantize(data, GGMLQuantizationType[name]).reshape(ROWS, columns)
    found = _cpu.ProductProbe(name, ROWS, columns, data).rows()
    assert np.allclose(found, expected, rtol=1e-6, atol=1e-38)


@pytest.mark.parametrize("isa", _cpu.instruction_sets())
@pytest.mark.parametrize("name", MATRIX_TYPES)
def test_products_read_every_weight(name: str, isa: str) -> None:
    """Inputs with a single 1 pick out the columns, in registers and through the panel."""
    columns = columns_of(name, 3)
    data = random_blocks(name, columns)
    expected = dequantize(data, GGMLQuantizationType[name]).reshape(ROWS, columns)
    probe = _cpu.ProductProbe(name, ROWS, columns, data)
    one_by_one = np.concatenate([probe.product(row[None], isa) for row in np.eye(columns, dtype=np.float32)])
    together = probe.product(np.eye(columns, dtype=np.float32), isa)
    assert np.allclose(one_by_one.T, expected, rtol=3e-6, atol=1e-7 * np.abs(expected).max())
    assert np.array_equal(one_by_one.view(np.uint32), together.view(np.uint32))


@pytest.mark.parametrize("blocks", [33, 65])  # three segments, the last one short; more than a panel holds
@pytest.mark.parametrize("name", MATRIX_TYPES)
def test_products_have_the_same_bits_everywhere(name: str, blocks: int) -> None:
    columns = columns_of(name, blocks)
    data = random_blocks(name, columns, seed=1)
    probe = _cpu.ProductProbe(name, ROWS, columns, data)
    inputs = np.random.default_rng(2).normal(0, 1, (40, columns)).astype(np.float32)
    expected = probe.product(inputs, "plain")
    exact = inputs.astype(np.float64) @ dequantize(data, GGMLQuantizationType[name]).reshape(ROWS, columns).T.astype(
        np.float64
    )
    assert np.sqrt(np.mean((expected - exact) ** 2)) < 0.01 * np.sqrt(np.mean(exact**2))
    for isa in _cpu.instruction_sets():
        for count in (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 16, 17, 27, 33, 40):
            found = probe.product(inputs[:count], isa)
            assert np.array_equal(found.view(np.uint32), expected[:count].view(np.uint32)), (isa, count)


@pytest.mark.parametrize("name", [name for name in MATRIX_TYPES if name not in ("F32", "F16", "BF16")])
def test_sums_have_room_for_the_largest_codes(name: str) -> None:
    """Rows of equal codes, the largest and the least among them, by inputs that are all as large as can be."""
    columns = columns_of(name, 16)
    fill = np.array(
        [0xFF, 0x00, 0x80, 0x7F, 0x88, 0x77, 0xF0, 0x0F, 0xAA, 0x55, 0xFE, 0x01, *range(3, 253, 10)], np.uint8
    )
    data = random_blocks(name, columns, seed=7, fill=fill)
    place = np.arange(columns)
    patterns = [np.ones(columns), place % 2 * 2 - 1, place // 2 % 2 * 2 - 1, place // 4 % 2 * 2 - 1]
    inputs = np.concatenate([patterns, -np.array(patterns)] * 3).astype(np.float32)
    probe = _cpu.ProductProbe(name, ROWS, columns, data)
    exact = inputs.astype(np.float64) @ dequantize(data, GGMLQuantizationType[name]).reshape(ROWS, columns).T
    for isa in _cpu.instruction_sets():
        for count in (1, 2, 3, 16, 24):
            found = probe.product(inputs[:count], isa)
            assert np.allclose(found, exact[:count], rtol=1e-5, atol=1e-5 * np.abs(exact).max()), (isa, count)


@pytest.mark.parametrize("name", MATRIX_TYPES)
def test_scales_of_broken_files_mean_the_same_everywhere(name: str) -> None:
    columns = columns_of(name, 33)
    probe = _cpu.ProductProbe(name, ROWS, columns, extreme_blocks(name, columns))
    inputs = np.random.default_rng(6).normal(0, 1, (40, columns)).astype(np.float32)
    inputs[:, 64:128] = 0.0  # sums of 0, times an infinite scale
    expected = probe.product(inputs, "plain")
    assert np.isnan(expected).any() != (name in ("MXFP4", "NVFP4"))
    assert np.isfinite(expected[:, ROWS - 1]).all()
    for isa in _cpu.instruction_sets():
        for count in (1, 3, 4, 8, 16, 40):
            assert same_numbers(probe.product(inputs[:count], isa), expected[:count]), (isa, count)


@pytest.mark.parametrize("name", ["NVFP4", "F16"])
def test_a_matrix_may_have_a_scale_of_its_own(name: str) -> None:
    columns = columns_of(name, 4)
    data = random_blocks(name, columns)
    plain, scaled = (_cpu.ProductProbe(name, ROWS, columns, data, scale) for scale in (1.0, 0.3))
    inputs = np.random.default_rng(3).normal(0, 1, (3, columns)).astype(np.float32)
    assert np.array_equal(scaled.rows(), plain.rows() * np.float32(0.3))
    for isa in _cpu.instruction_sets():
        assert np.array_equal(scaled.product(inputs, isa), plain.product(inputs, isa) * np.float32(0.3))


@pytest.mark.parametrize(("name", "unit"), [("Q4_K", 256), ("NVFP4", 64), ("Q4_1", 32)])
def test_columns_that_are_no_whole_blocks_are_named(name: str, unit: int) -> None:
    with pytest.raises(ValueError, match=f"tensor 'probe' has 272 columns, expected a multiple of {unit} for {name}"):
        _cpu.ProductProbe(name, ROWS, 272, b"")


def test_a_model_of_super_blocks_agrees_with_the_reference(tiny_model) -> None:
    path = tiny_model(type="Q4_K", width=512, heads=8, kv_heads=2, head_size=32, ffn=768)
    ids = np.random.default_rng(4).integers(0, 128, 40).tolist()
    expected = all_logits(open_core(path, slots=1, context=64, kind="reference"), 0, ids)
    found = [all_logits(open_core(path, slots=1, context=64, isa=isa), 0, ids) for isa in _cpu.instruction_sets()]
    assert np.sqrt(np.mean((found[0] - expected) ** 2)) <= 0.05 * np.sqrt(np.mean(expected**2))
    assert all(np.array_equal(one.view(np.uint32), found[0].view(np.uint32)) for one in found)
