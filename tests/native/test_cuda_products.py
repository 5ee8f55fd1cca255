"""Products of the CUDA core on the emulated device: the bits of the CPU core, in any company and any order of lanes.

BF16 and F16 go through an mma that rounds in its own way: these are as near as their parts allow, and have the bits of
a column alone.
"""

import numpy as np
import pytest
from paceline.native import _cpu
from paceline.native.files.model_file import MATRIX_TYPES

from .emulated import ORDERS, Product, lanes, same_bits
from .test_formats import ROWS, columns_of, extreme_blocks, random_blocks, same_numbers

IN_PARTS = {"BF16": 2.0**-16, "F16": 2.0**-15}  # of a product's terms, what may be left out
# Up to 8, 16 and 32 of integer formats; then come tiles of 64 columns, whole ones and parts.
COUNTS = (1, 2, 3, 5, 8, 16, 17, 32, 33, 47, 70)


def inputs_of(count: int, columns: int) -> np.ndarray:
    rng = np.random.default_rng(count)
    values = rng.normal(0, 1, (count, columns)) * rng.choice([1e-20, 1.0, 300.0], (count, 1), p=[0.1, 0.8, 0.1])
    return np.ascontiguousarray(values, np.float32)


def expected_of(name: str, cpu: _cpu.ProductProbe, device: Product, inputs: np.ndarray) -> np.ndarray:
    """Of each term two parts leave out 2^-17 (of F16, with the weight's, 2^-15.4), and the mma rounds; one part alone
    would leave out 2^-8, here 2^-11 to 2^-13 of the sum of their sizes."""
    expected = cpu.product(inputs, "auto")
    if name not in IN_PARTS:
        return expected
    alone = np.concatenate([device(inputs[i : i + 1]) for i in range(len(inputs))])
    sizes = np.abs(inputs.astype(float)) @ np.abs(cpu.rows().astype(float)).T
    assert np.all(np.abs(alone - expected.astype(float)) <= IN_PARTS[name] * sizes), name
    return alone


@pytest.mark.parametrize("name", MATRIX_TYPES)
def test_products_have_the_bits_of_the_cpu(name: str) -> None:
    """19 blocks: a segment and a part of one, units that are not full."""
    columns = columns_of(name, 19)
    data = random_blocks(name, columns)
    cpu, device = _cpu.ProductProbe(name, ROWS, columns, data), Product(name, ROWS, columns, data)
    for count in COUNTS:
        inputs = inputs_of(count, columns)
        assert same_bits(device(inputs), expected_of(name, cpu, device, inputs)), count


@pytest.mark.parametrize("name", [name for name in MATRIX_TYPES if name not in IN_PARTS])
def test_scales_of_broken_files_mean_the_same_as_on_the_cpu(name: str) -> None:
    columns = columns_of(name, 19)
    data = extreme_blocks(name, columns)
    cpu, device = _cpu.ProductProbe(name, ROWS, columns, data), Product(name, ROWS, columns, data)
    for count in (1, 5, 12, 20, 40):
        inputs = inputs_of(count, columns)
        inputs[:, 64:128] = 0.0
        assert same_numbers(device(inputs), cpu.product(inputs, "auto")), count
    assert same_numbers(device.read([*range(ROWS)]), cpu.rows())


def test_a_copy_is_the_same_matrix() -> None:
    data, inputs = random_blocks("Q4_K", 512), inputs_of(3, 512)
    device = Product("Q4_K", ROWS, 512, data, copies=3)
    expected = Product("Q4_K", ROWS, 512, data)(inputs)
    assert all(same_bits(device(inputs, copy=copy), expected) for copy in range(3))
    with pytest.raises(IndexError):
        device(inputs, copy=3)
    with pytest.raises(ValueError, match="copies must be at least 1"):
        Product("Q4_K", ROWS, 512, data, copies=0)


@pytest.mark.parametrize("name", MATRIX_TYPES)
def test_how_many_processors_there_are_changes_no_bit(name: str) -> None:
    """Many columns: on a small device a warp has row tiles for itself, on a large one segments of one; few: on a small
    one a block has eight row tiles at a time and a warp two, on a large one each has one. 163 rows: eleven row tiles,
    of which some are of blocks, and one of a warp, that are not full."""
    columns = columns_of(name, 19)
    data = np.tile(random_blocks(name, columns), (5, 1))[:163]
    cpu = _cpu.ProductProbe(name, 163, columns, data)
    for count in (1, 5, 16, 65, 109):
        inputs, device = inputs_of(count, columns), Product(name, 163, columns, data, most=count)
        expected = expected_of(name, cpu, device, inputs)
        for multiprocessors in (1, 1000):
            assert same_bits(device(inputs, multiprocessors), expected), (count, multiprocessors)


@pytest.mark.parametrize("columns", [64, 1088, 5632])
def test_a_router_has_the_bits_of_the_cpu_on_a_large_device(columns: int) -> None:
    """Fewer row tiles than multiprocessors: a part of a segment, two and a part, more than a block takes at once."""
    data = random_blocks("F32", columns)
    cpu, device = _cpu.ProductProbe("F32", ROWS, columns, data), Product("F32", ROWS, columns, data)
    for count in (1, 2, 3, 5, 8, 9):
        inputs = inputs_of(count, columns)
        assert same_bits(device(inputs, 1000), cpu.product(inputs, "auto")), count


@pytest.mark.parametrize("name", MATRIX_TYPES)
def test_a_row_has_the_same_bits_in_any_company(name: str) -> None:
    columns = columns_of(name, 9)
    device = Product(name, ROWS, columns, random_blocks(name, columns))
    inputs = inputs_of(70, columns)
    alone = np.concatenate([device(inputs[i : i + 1]) for i in (0, 1, 7, 15, 69)])
    for count in COUNTS:
        together = device(inputs[:count])
        for place, i in enumerate((0, 1, 7, 15, 69)):
            if i < count:
                assert same_bits(together[i], alone[place]), (count, i)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["Q8_0", "Q4_K", "Q6_K", "IQ3_S", "IQ2_XXS", "IQ1_M", "F32", "F16", "BF16"])
def test_lanes_in_any_order_give_the_same_bits(name: str, order: str) -> None:
    columns = columns_of(name, 35)
    data = random_blocks(name, columns)
    cpu, device = _cpu.ProductProbe(name, ROWS, columns, data), Product(name, ROWS, columns, data)
    for count in (1, 5, 11, 20):
        inputs = inputs_of(count, columns)
        expected = expected_of(name, cpu, device, inputs)
        with lanes(order, seed=count):
            assert same_bits(device(inputs), expected), count


@pytest.mark.parametrize(
    ("name", "segments", "rows", "counts"),
    [
        ("Q8_0", 97, 16, (1, 2, 20)),
        ("Q8_0", 40, 16, (1,)),
        ("Q4_K", 20, 37, (12,)),
        ("Q2_K", 20, 37, (12,)),
        ("F32", 19, 16, (1, 3, 16, 20, 40, 64)),
        ("BF16", 9, 37, (1, 20)),
        ("F16", 9, 37, (20,)),
        ("BF16", 97, 16, (2,)),
    ],
)
def test_many_segments_are_added_in_rounds(name: str, segments: int, rows: int, counts: tuple[int, ...]) -> None:
    """More segments than a block's warps, or than shared memory keeps sums of: 16 of them for 16 columns of two row
    tiles; for 64 eight, of float32 six. Beside a column that is alone, if it has room there: 40 of whose segments have,
    97 not."""
    columns = segments * 512
    data = random_blocks(name, columns)[:rows]
    cpu, device = _cpu.ProductProbe(name, rows, columns, data), Product(name, rows, columns, data)
    for count in counts:
        inputs = inputs_of(count, columns)
        assert same_bits(device(inputs), expected_of(name, cpu, device, inputs)), count


@pytest.mark.parametrize("name", MATRIX_TYPES)
def test_rows_of_an_embedding_have_the_bits_of_the_cpu(name: str) -> None:
    columns = columns_of(name, 9)
    data = random_blocks(name, columns)
    ids = [0, 36, 7, 8, 15, 16, 31]
    found = Product(name, ROWS, columns, data).read(ids)
    assert same_bits(np.ascontiguousarray(found[:, :columns]), _cpu.ProductProbe(name, ROWS, columns, data).rows()[ids])
