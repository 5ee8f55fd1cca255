"""Attention of the CUDA core in whole steps: histories of several splits, every type of cache, heads of many sizes."""

from __future__ import annotations

import pytest
from paceline.native.core import open_core

from .core_models import ONE_ORDER, ids_of
from .core_pairs import CONTEXT, Pair
from .emulated import KIND, planned_for, same_bits
from .rows import Row, all_logits, table


@pytest.fixture(scope="module")
def small(tiny_model) -> Pair:
    return Pair("Q8_0", tiny_model(**ONE_ORDER["Q8_0"]))


def test_a_history_of_two_splits_reads_the_cpu_cores_pages(small: Pair) -> None:
    """Pages lie alike on both: what one computed the other goes on from, splits side by side or one after the other."""
    ids = ids_of(3, 600, small.cpu.vocab)
    own = table(0, CONTEXT)
    small.cpu.commit(0, 0)
    small.cpu.step([Row(0, ids[:520], 0, 0, own)])
    small.cpu.commit(0, 520)
    for page in own[:9]:
        small.device.write_page(page, small.cpu.read_page(page))
    small.device.seat(0, ids[:520], None)
    expected, _ = small.cpu.step([Row(0, ids[520:], 520, 80, own)])
    whole, _ = small.device.step([Row(0, ids[520:], 520, 80, own)])  # each block takes all splits
    assert same_bits(whole[0][1], expected[0][1])
    few, _ = small.device.step([Row(0, ids[520:523], 520, 3, own)])  # each block takes one
    assert same_bits(few[0][1], expected[0][1][:3])
    with planned_for(1000):
        one, _ = small.device.step([Row(0, ids[520:521], 520, 1, own)])  # and one head
    assert same_bits(one[0][1], expected[0][1][:1])
    full = own[8]  # positions 512 .. 575
    assert small.device.read_page(full) == small.cpu.read_page(full)
    small.device.copy_page(full, own[0])
    assert small.device.read_page(own[0]) == small.device.read_page(full)


@pytest.mark.parametrize("types", [("f32", "f32"), ("bf16", "q8_0"), ("q8_0", "q4_0"), ("q4_0", "f16")])
def test_every_cache_type_has_the_bits_of_the_cpu(tiny_model, types: tuple[str, str]) -> None:
    both = Pair("Q8_0", tiny_model(**ONE_ORDER["Q8_0"]), cache_type_k=types[0], cache_type_v=types[1])
    ids = ids_of(4, 70, both.cpu.vocab)
    expected = all_logits(both.cpu, 0, ids)
    assert same_bits(all_logits(both.device, 0, ids, cuts=(40, 67)), expected)
    with planned_for(1000):
        assert same_bits(all_logits(both.device, 0, ids, cuts=(68, 69)), expected)


# heads, kv heads, their size, types of the cache
TOKEN_HEADS = [
    (12, 1, 128, "f16", "f16"),
    (4, 1, 256, "f16", "f16"),
    (8, 1, 256, "q8_0", "q4_0"),
    (2, 2, 128, "f32", "bf16"),
    (3, 1, 96, "q4_0", "q8_0"),
    (6, 1, 64, "bf16", "f32"),
]


@pytest.mark.parametrize("case", TOKEN_HEADS)
def test_rows_of_one_token_have_the_bits_of_the_cpu(tiny_model, case: tuple[int, int, int, str, str]) -> None:
    """Warps with a page each: the first of a page, of a split, and of a history of two splits."""
    heads, kv_heads, head_size, *types = case
    sizes = {"width": 32, "layers": 1, "heads": heads, "kv_heads": kv_heads, "head_size": head_size, "ffn": 32}
    both = Pair("Q8_0", tiny_model(**ONE_ORDER["Q8_0"] | sizes), cache_type_k=types[0], cache_type_v=types[1])
    ids = ids_of(6, 580, both.cpu.vocab)
    expected = all_logits(both.cpu, 0, ids)
    for multiprocessors in (1, 1000):  # heads of a group share a block, or have one each
        with planned_for(multiprocessors):
            found = all_logits(both.device, 0, ids, cuts=(1, 63, 64, 65, 130, 131, 511, 512, 513, 576, 577, 579))
        assert same_bits(found, expected)


def test_three_splits_of_a_row_of_one_token_are_merged_as_on_the_cpu(tiny_model) -> None:
    """Two are one block's, three have a block each."""
    sizes = {"width": 32, "layers": 1, "heads": 6, "kv_heads": 1, "head_size": 32, "ffn": 32}
    path = tiny_model(**ONE_ORDER["Q8_0"] | sizes)
    cpu, device = (open_core(path, slots=1, context=1088, kind=kind) for kind in ("cpu", KIND))
    ids = ids_of(6, 1030, cpu.vocab)
    expected = all_logits(cpu, 0, ids)
    for multiprocessors in (1, 1000):
        with planned_for(multiprocessors):
            found = all_logits(device, 0, ids, cuts=(1022, 1023, 1024, 1025, 1026))
        assert same_bits(found, expected)


@pytest.mark.parametrize("head_size", [336, 512])
def test_a_float32_cache_of_large_heads_has_the_bits_of_the_cpu(tiny_model, head_size: int) -> None:
    """A page of their values does not fit into every GPU's shared memory; the emulated device has no more of it."""
    sizes = {"width": 32, "layers": 1, "heads": 2, "kv_heads": 1, "head_size": head_size, "ffn": 32}
    both = Pair("Q8_0", tiny_model(**ONE_ORDER["Q8_0"] | sizes), cache_type_k="f32", cache_type_v="f32")
    ids = ids_of(4, 530, both.cpu.vocab)  # a step of two splits, side by side and one after the other
    expected = all_logits(both.cpu, 0, ids)
    assert same_bits(all_logits(both.device, 0, ids, cuts=(1, 3, 400, 526, 528)), expected)
    with planned_for(1000):
        assert same_bits(all_logits(both.device, 0, ids, cuts=(1, 529)), expected)


def test_latent_attention_takes_fewer_columns(tiny_model) -> None:
    """Of each head a grid has a row of blocks for 64 columns."""
    sizes = {"heads": 200, "kv_heads": 1, "latent": 32, "latent_keys": 32, "latent_values": 32, "rope_size": 8}
    core = open_core(tiny_model(architecture="deepseek2", layers=2, **sizes), slots=1, context=64, kind=KIND)
    with pytest.raises(ValueError, match="a step of 16385 tokens is more than the 16384 of a GPU's"):
        core.stepper.make_room(16385, 1)
