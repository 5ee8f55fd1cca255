"""A folder that transformers writes and a GGUF file of the same model hold the same, bit for bit."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from paceline.native.arrange import arranged
from paceline.native.model import read_shape
from paceline.native.rope_scaling import ROPE_FREQUENCIES
from paceline.native.weights import open_model

from ..configurations import FAMILY_CONFIGS
from ..families import random_family_model
from ..family_files import export_family

pytestmark = pytest.mark.slow


# Ling's has the folder of another family, which transformers knows.
@pytest.mark.parametrize("name", [name for name in FAMILY_CONFIGS if not name.startswith("bailingmoe2")])
def test_a_folder_holds_what_the_file_holds(tmp_path: Path, name: str) -> None:
    family = name.split("-")[0]
    model = random_family_model(family, FAMILY_CONFIGS[name])
    export_family(family, model, tmp_path / "model.gguf")
    model.save_pretrained(tmp_path / "folder")
    shapes, found = [], []
    for path in (tmp_path / "model.gguf", tmp_path / "folder"):
        metadata, tensors = open_model(path)
        shapes.append(read_shape(metadata, tensors))
        found.append({tensor.name: tensor for tensor in arranged(shapes[-1], tensors)})
    assert found[0].keys() == found[1].keys()
    for one, other in zip(*(dict(sorted(each.items())).values() for each in found), strict=True):
        assert (one.type, one.rows, one.columns) == (other.type, other.rows, other.columns), one.name
        if one.name == ROPE_FREQUENCIES:  # the file's are quotients of what transformers computed in float32
            np.testing.assert_allclose(*(each.data.view(np.float32).ravel() for each in (one, other)), rtol=1e-6)
            continue
        assert np.array_equal(one.data.reshape(-1), other.data.reshape(-1)), one.name
    for field in fields(shapes[0]):
        read, written = (getattr(shape, field.name) for shape in shapes)
        narrow = field.type is float or field.name.endswith("divisors")  # a file's numbers are float32
        assert written == (pytest.approx(read, rel=1e-6) if narrow else read), field.name
