"""The settings of RoPE in config.json of a Hugging Face folder."""

import json
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


ALPHA = {"type": "dynamic", "alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0}


def test_hunyuans_scaling_is_another_base() -> None:
    """As its published files have it; GGUF's hold 11158839.9."""
    config = Config({**LLAMA, "model_type": "hunyuan_v1_dense", "head_dim": 128, "rope_scaling": ALPHA})
    assert config.gguf_values()["hunyuan-dense.rope.freq_base"] == pytest.approx(11158839.9251)
    for changes, says in (
        ({"rope_scaling": {**ALPHA, "alpha": None}}, "'alpha' of config.json is None, expected a number above 0"),
        ({"head_dim": None}, "'head_dim' of config.json is None, expected a number above 0"),
        ({"head_dim": 2}, "its head size is 2.0, expected more than 2"),
        ({"model_type": "llama"}, "its RoPE scaling is 'dynamic', supported: 'default'"),
    ):
        with pytest.raises(ValueError, match=says):
            Config({**LLAMA, "model_type": "hunyuan_v1_dense", "head_dim": 128, "rope_scaling": ALPHA, **changes})


MINISTRAL = {
    "rope_theta": 1e6,
    "type": "yarn",
    "factor": 16.0,
    "original_max_position_embeddings": 64,
    "max_position_embeddings": 1024,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}


def of_ministral(settings: dict[str, object] | None) -> dict[str, object]:
    """As folders of Ministral 3 have it, which can also see."""
    inner = {key: value for key, value in LLAMA.items() if key not in ("rope_theta", "eos_token_id")}
    return {
        "model_type": "mistral3",
        "text_config": inner | {"model_type": "ministral3", "head_dim": 16, "rope_parameters": settings},
    }


def test_queries_of_a_ministral_grow_with_their_positions(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps(of_ministral(MINISTRAL) | {"tie_word_embeddings": True}))
    shape = read_shape(*open_model(folder))
    assert (shape.architecture, shape.temperature_scale, shape.temperature_length) == ("mistral3", 0.1, 64)
    assert (shape.rope_amplitude, shape.context, shape.rope_layout) == (1.0, 1024, "pairs")


def test_a_ministral_that_says_nothing_grows_as_the_published_ones() -> None:
    values = Config(of_ministral(None)).gguf_values()
    assert values["mistral3.attention.temperature_scale"] == 0.1
    assert values["mistral3.attention.temperature_length"] == 16384
    assert (values["mistral3.rope.scaling.factor"], values["paceline.rope_amplitude"]) == (16.0, 1.0)


def test_queries_of_a_devstral_do_not_grow() -> None:
    changes = {
        "llama_4_scaling_beta": 0,
        "mscale_all_dim": 0.0,
        "factor": 64.0,
        "original_max_position_embeddings": 4096,
    }
    values = Config(of_ministral(MINISTRAL | changes)).gguf_values()
    assert values["mistral3.attention.temperature_scale"] == 0
    assert values["paceline.rope_amplitude"] == pytest.approx(1 + 0.1 * log(64))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"llama_4_scaling_beta": -1}, "'llama_4_scaling_beta' of config.json is -1, expected a number above 0"),
        ({"llama_4_scaling_beta": None}, "'llama_4_scaling_beta' of config.json is None, expected a number above 0"),
        ({"type": "default"}, "its RoPE scaling is 'default', supported: 'yarn'"),
    ],
)
def test_a_ministral_that_does_not_say_how_is_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Config(of_ministral(MINISTRAL | changes))


def test_others_do_not_read_how_queries_grow() -> None:
    """As in transformers."""
    values = Config(LLAMA | {"model_type": "mistral", "rope_parameters": MINISTRAL}).gguf_values()
    assert not any("temperature" in key for key in values)
