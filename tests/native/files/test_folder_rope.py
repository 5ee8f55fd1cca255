"""The settings of RoPE in config.json of a Hugging Face folder."""

from math import log, sqrt
from pathlib import Path

import pytest
from paceline.native.files.folder_config import Config
from paceline.native.files.folder_rope import read_rope
from paceline.native.model import read_shape
from paceline.native.weights import open_model, read_metadata

from .folders import LLAMA, LONG, YARN, changed


def test_layers_that_rotate_as_the_family_does(folder: Path) -> None:
    open_model(changed(folder, no_rope_layers=[1, 1]))
    assert Config({**LLAMA, "model_type": "smollm3", "no_rope_layers": [1, 1, 1, 0] * 2}).gguf_values()


@pytest.mark.parametrize(("inside", "outside", "trained"), [(32, None, 32), (None, 64, 64), (None, None, 128)])
def test_the_context_that_scaling_begins_with(inside: int | None, outside: int | None, trained: int) -> None:
    three = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    given = {} if inside is None else {"original_max_position_embeddings": inside}
    values = {"rope_scaling": three | given, "max_position_embeddings": 128}
    if outside is not None:
        values["original_max_position_embeddings"] = outside
    assert read_rope(values, "llama").trained == trained


@pytest.mark.parametrize(
    ("more", "amplitude"),
    [
        ({}, 1 + 0.1 * log(4)),
        ({"mscale": 2.0}, 1 + 0.1 * log(4)),
        ({"mscale": 2.0, "mscale_all_dim": 0.5}, (1 + 0.2 * log(4)) / (1 + 0.05 * log(4))),
        ({"mscale": 2.0, "mscale_all_dim": 0.5, "attention_factor": 0.9}, 0.9),
    ],
)
def test_yarn_gives_a_longer_context(folder: Path, more: dict[str, float], amplitude: float) -> None:
    metadata = read_metadata(changed(folder, rope_scaling=YARN | more | {"original_max_position_embeddings": 256}))
    values = {key.removeprefix("llama.rope.scaling."): value for key, value in metadata.values.items()}
    assert (values["type"], values["factor"], values["original_context_length"]) == ("yarn", 4, 256)
    assert metadata.values["paceline.rope_amplitude"] == pytest.approx(amplitude)
    assert metadata.values["llama.context_length"] == 1024


@pytest.mark.parametrize(
    ("more", "trained", "amplitude"),
    [
        ({}, 64, sqrt(1 + log(8) / log(64))),
        ({"factor": 32.0}, 64, sqrt(1 + log(32) / log(64))),
        ({"attention_factor": 1.5}, 64, 1.5),
        ({}, 512, 1.0),
        ({}, 1, 1.0),
    ],
)
def test_longrope_is_two_tensors(folder: Path, more: dict[str, float], trained: int, amplitude: float) -> None:
    changes = {"rope_scaling": LONG | more, "original_max_position_embeddings": trained}
    metadata, tensors = open_model(changed(folder, **changes))
    shape = read_shape(metadata, tensors)
    assert (shape.rope_divisors, shape.short_divisors) == ((2.0,) * 8, (1.0,) * 8)
    assert (shape.context, shape.short_context) == (512, trained)
    assert shape.rope_amplitude == pytest.approx(amplitude)


def test_phi_3_has_called_longrope_by_other_names() -> None:
    for name in ("su", "yarn"):
        assert Config(LLAMA | {"model_type": "phi3", "rope_scaling": LONG | {"type": name}}).rope_divisors()
