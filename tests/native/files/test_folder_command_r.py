"""Folders of Command R and its successors, whose layers have one LayerNorm for both branches."""

from pathlib import Path
from typing import Any

import pytest
from paceline.native.files.folder_config import Config
from paceline.native.weights import ModelUnreadable, open_model

from .folders import LLAMA, changed

SILENT = {key: value for key, value in LLAMA.items() if key not in ("rope_theta", "rms_norm_eps")}


def values_of(kind: str, **more: Any) -> dict[str, Any]:
    return Config(SILENT | {"model_type": kind, "num_hidden_layers": 8} | more).gguf_values()


def test_what_a_command_r_does_not_say_is_as_in_transformers() -> None:
    values = values_of("cohere")
    assert values["general.architecture"] == "command-r" and values["command-r.rope.freq_base"] == 5e5
    assert (values["command-r.logit_scale"], values["command-r.attention.layer_norm_epsilon"]) == (0.0625, 1e-5)
    assert not any("rms" in key or "sliding" in key for key in values)
    later = values_of("cohere2")
    assert (later["cohere2.logit_scale"], later["cohere2.attention.layer_norm_epsilon"]) == (0.0625, 1e-5)
    assert (later["cohere2.attention.sliding_window"], later["cohere2.rope.freq_base"]) == (4096, 1e4)
    assert "cohere2.attention.sliding_window_pattern" not in later


def test_a_command_r_may_have_been_trained_on_more_than_its_positions() -> None:
    assert values_of("cohere", model_max_length=2048)["command-r.context_length"] == 2048
    assert values_of("cohere2", model_max_length=2048)["cohere2.context_length"] == 512


def test_the_layers_of_a_cohere_2_are_said_in_two_ways() -> None:
    kinds = [f"{kind}_attention" for kind in ("sliding", "full") * 4]
    for more in ({"sliding_window_pattern": 2}, {"layer_types": kinds}):
        values = values_of("cohere2", sliding_window=9, **more)
        assert values["cohere2.attention.sliding_window_pattern"] == 2
        assert values["cohere2.attention.sliding_window"] == 9


@pytest.mark.parametrize("kind", ["cohere", "cohere2"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("use_qk_norm", True),
        ("attention_bias", True),
        ("use_parallel_block", False),
        ("rotary_pct", 0.5),
        ("hidden_act", "gelu"),
    ],
)
def test_what_a_command_r_is_not_computed_with(kind: str, key: str, value: Any) -> None:
    assert values_of(kind, rotary_pct=1.0, use_parallel_block=True, use_qk_norm=False)
    with pytest.raises(ValueError, match=f"the key {key!r} of config.json is {value!r}, supported: "):
        values_of(kind, **{key: value})


def test_a_second_norm_is_no_part_of_a_command_r(folder: Path) -> None:
    """It would be taken for the first where that is missing."""
    with pytest.raises(ModelUnreadable, match=r"'model.layers.0.post_attention_layernorm.weight'"):
        open_model(changed(folder, model_type="cohere"))
