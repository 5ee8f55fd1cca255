"""MXFP4 of a folder against values worked out element by element, and the damage that it may have."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paceline.native.files import mxfp4
from paceline.native.files.safetensors_file import Stored
from paceline.native.reference import open_reference
from paceline.native.reference_weights import to_float32
from paceline.native.weights import ModelUnreadable

from ..configurations import FAMILY_CONFIGS
from ..families import VOCAB, expected_logits, random_family_model
from ..rows import all_logits
from ..sequences import relative_error, run
from ..test_transformers import open_float_core
from .test_nvfp4 import E2M1


def random_parts(*shape: int) -> tuple[Any, Any]:
    """pairs [*shape, 16] and scales [*shape], the extreme exponents among them."""
    random = np.random.RandomState(2)
    scales = random.randint(100, 140, shape).astype(np.uint8)
    scales.flat[:4] = [0, 1, 2, 250]
    return random.randint(0, 256, (*shape, 16)).astype(np.uint8), scales


def stored(parts: dict[str, tuple[str, Any]]) -> dict[str, Stored]:
    return {n: Stored(n, dtype, a.shape, a.reshape(-1).view(np.uint8)) for n, (dtype, a) in parts.items()}


def test_blocks_hold_the_same_weights_in_ggmls_order() -> None:
    pairs, scales = random_parts(2, 3, 5)
    [(tensor, names)] = mxfp4.packed_tensors(stored({"a_blocks": ("U8", pairs), "a_scales": ("U8", scales)}))
    assert names == ("a_blocks", "a_scales")
    assert (tensor.name, tensor.type, tensor.rows, tensor.columns) == ("a", "MXFP4", 6, 160)
    assert tensor.data.shape == (6, 5 * 17) and tensor.data.nbytes == tensor.nbytes
    found = to_float32(tensor).reshape(2, 3, 5, 32)
    for place in np.ndindex(2, 3, 5):
        for element in range(32):
            code = pairs[place][element // 2] >> 4 * (element % 2) & 15
            assert found[place][element] == np.float32(E2M1[code] * 2.0 ** (int(scales[place]) - 127))


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"a_blocks": ("U8", (2, 3, 5, 16))}, "the tensor 'a_blocks' is U8 and its scales are missing, expected U8"),
        ({"a_blocks": ("F32", (2, 3, 5, 4)), "a_scales": ("U8", (2, 3, 5))}, "'a_blocks' is F32 and its scales are U8"),
        ({"a_blocks": ("U8", (2, 3, 5, 16)), "a_scales": ("I8", (2, 3, 5))}, "'a_blocks' is U8 and its scales are I8"),
        ({"a_blocks": ("U8", (2, 3, 5, 16)), "a_scales": ("U8", (2, 3, 4))}, r"expected \[experts, rows, n, 16\]"),
        ({"a_blocks": ("U8", (2, 3, 5, 8)), "a_scales": ("U8", (2, 3, 5))}, r"'a_blocks' is \[2, 3, 5, 8\]"),
    ],
)
def test_parts_that_do_not_fit_are_refused(parts: dict[str, tuple[str, tuple[int, ...]]], reason: str) -> None:
    widths = {"U8": np.uint8, "I8": np.int8, "F32": np.float32}
    found = stored({name: (dtype, np.zeros(shape, widths[dtype])) for name, (dtype, shape) in parts.items()})
    with pytest.raises(ValueError, match=reason):
        list(mxfp4.packed_tensors(found))


def test_other_names_are_left_alone() -> None:
    one = np.zeros((1, 1, 16), np.uint8)
    assert list(mxfp4.packed_tensors(stored({"a_blocks_b": ("U8", one), "blocks": ("U8", one)}))) == []


def test_a_scale_that_is_no_number_is_refused_when_it_is_read() -> None:
    pairs, scales = random_parts(1, 1, 4)
    scales[0, 0, 3] = 255
    [(tensor, _)] = mxfp4.packed_tensors(stored({"a_blocks": ("U8", pairs), "a_scales": ("U8", scales)}))
    with pytest.raises(ModelUnreadable, match="the tensor 'a_scales' has a scale that is no number"):
        _ = tensor.data


@pytest.mark.slow
def test_the_folder_of_openai_as_transformers_reads_it(tmp_path: Path) -> None:
    """Experts as in the published folders, packed from random bytes; transformers' own conversion is the judge."""
    import torch
    from safetensors.torch import load_file, save_file
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    options = FAMILY_CONFIGS["gpt_oss-ratio2"] | {"intermediate_size": 64}
    model = random_family_model("gpt_oss", options)
    model.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    random = np.random.RandomState(5)
    for name in [name for name in tensors if name.endswith(("gate_up_proj", "down_proj"))]:
        experts, inputs, outputs = tensors.pop(name).shape
        pairs = torch.from_numpy(random.randint(0, 256, (experts, outputs, inputs // 32, 16)).astype(np.uint8))
        scales = torch.from_numpy(random.randint(121, 125, (experts, outputs, inputs // 32)).astype(np.uint8))
        tensors |= {f"{name}_blocks": pairs, f"{name}_scales": scales}
        own = dict(model.named_parameters())[name]
        own.data = convert_moe_packed_tensors(pairs, scales, dtype=torch.float32).reshape(own.shape)
    save_file(tensors, file)
    ids = random.randint(0, VOCAB, 60).tolist()
    expected = expected_logits(model, ids)
    assert expected.std() > 0.5
    assert relative_error(run(open_reference(tmp_path), ids, cuts=[1, 17]), expected) < 1e-4
    assert relative_error(all_logits(open_float_core(tmp_path), 0, ids), expected) < 0.05
