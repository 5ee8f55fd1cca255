"""Every weight format, repacked, unpacked and multiplied: random blocks against the gguf package's dequantization."""

import numpy as np
import numpy.typing as npt
import pytest
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from paceline.native import _cpu
from paceline.native.model import MATRIX_TYPES

ROWS, COLUMNS = 37, 96  # no multiple of a tile's 16 rows
SCALES = {"Q4_0": 1, "Q4_1": 2, "Q5_0": 1, "Q5_1": 2, "Q8_0": 1, "IQ4_NL": 1}  # halves that open a block


def random_blocks(name: str, columns: int = COLUMNS, seed: int = 0) -> npt.NDArray[np.uint8]:
    """[ROWS, bytes of a row]: any codes, scales that are ordinary numbers."""
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
    if name == "MXFP4":
        blocks[..., 0] = rng.integers(0, 140, blocks.shape[:2])
    else:
        halves = rng.normal(0, 0.1, (*blocks.shape[:2], SCALES[name])).astype(np.float16)
        blocks[..., : 2 * SCALES[name]] = halves.view(np.uint8)
    return blocks.reshape(ROWS, -1)


@pytest.mark.parametrize("name", MATRIX_TYPES)
def test_rows_are_what_the_gguf_package_reads(name: str) -> None:
    data = random_blocks(name)
    expected = dequantize(data, GGMLQuantizationType[name]).reshape(ROWS, COLUMNS)
    found = _cpu.ProductProbe(name, ROWS, COLUMNS, data).rows()
    assert np.allclose(found, expected, rtol=1e-6, atol=1e-38)


@pytest.mark.parametrize("isa", _cpu.instruction_sets())
@pytest.mark.parametrize("name", MATRIX_TYPES)
def test_products_read_every_weight(name: str, isa: str) -> None:
    """Inputs with a single 1 pick out the columns, in registers and through the panel."""
    data = random_blocks(name)
    expected = dequantize(data, GGMLQuantizationType[name]).reshape(ROWS, COLUMNS)
    probe = _cpu.ProductProbe(name, ROWS, COLUMNS, data)
    one_by_one = np.concatenate([probe.product(row[None], isa) for row in np.eye(COLUMNS, dtype=np.float32)])
    together = probe.product(np.eye(COLUMNS, dtype=np.float32), isa)
    assert np.allclose(one_by_one.T, expected, rtol=3e-6, atol=1e-7 * np.abs(expected).max())
    assert np.array_equal(one_by_one.view(np.uint32), together.view(np.uint32))


@pytest.mark.parametrize("name", MATRIX_TYPES)
def test_products_have_the_same_bits_everywhere(name: str) -> None:
    columns = 1056  # three segments, the last one short
    data = random_blocks(name, columns, seed=1)
    probe = _cpu.ProductProbe(name, ROWS, columns, data)
    inputs = np.random.default_rng(2).normal(0, 1, (40, columns)).astype(np.float32)
    expected = probe.product(inputs, "plain")
    exact = inputs.astype(np.float64) @ dequantize(data, GGMLQuantizationType[name]).reshape(ROWS, columns).T.astype(
        np.float64
    )
    assert np.sqrt(np.mean((expected - exact) ** 2)) < 0.01 * np.sqrt(np.mean(exact**2))
    for isa in _cpu.instruction_sets():
        for count in (1, 2, 3, 5, 8, 15, 16, 17, 33, 40):
            found = probe.product(inputs[:count], isa)
            assert np.array_equal(found.view(np.uint32), expected[:count].view(np.uint32)), (isa, count)
