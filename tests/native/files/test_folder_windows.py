"""The sliding window in config.json of a Hugging Face folder: where it counts, and where not."""

from pathlib import Path

import pytest
from paceline.native.weights import read_metadata

from .folders import SEVEN, changed


def test_a_window_is_passed_on_where_it_hides_something(folder: Path) -> None:
    key = "llama.attention.sliding_window"
    assert read_metadata(changed(folder, model_type="mistral", sliding_window=64)).values[key] == 64
    assert key not in read_metadata(changed(folder, model_type="mistral", sliding_window=512)).values
    assert key not in read_metadata(changed(folder, model_type="mistral", sliding_window=None)).values
    qwen = read_metadata(changed(folder, model_type="qwen2", sliding_window=64, use_sliding_window=False))
    assert "qwen2.attention.sliding_window" not in qwen.values


@pytest.mark.parametrize(("kind", "window"), [("llama", 9), ("mistral", None), ("mistral", 5000), ("qwen3", 9)])
def test_a_window_that_does_not_count(folder: Path, kind: str, window: int | None) -> None:
    metadata = read_metadata(changed(folder, **SEVEN, model_type=kind, sliding_window=window))
    assert f"{metadata.architecture}.attention.sliding_window" not in metadata.values


@pytest.mark.parametrize(("first_full", "window"), [(0, 9), (6, 9), (7, None), (None, None)])
@pytest.mark.parametrize("kind", ["qwen2", "qwen3"])
def test_the_first_layers_of_a_qwen_have_no_window(
    folder: Path, kind: str, first_full: int | None, window: int | None
) -> None:
    sliding = {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": first_full}
    metadata = read_metadata(changed(folder, **SEVEN, **sliding, model_type=kind))
    assert metadata.values.get(f"{kind}.attention.sliding_window") == window


def test_a_window_that_hides_nothing_makes_layers_alike(folder: Path) -> None:
    kinds = ["full_attention", *["sliding_attention"] * 6]
    for more in ({"model_type": "mistral"}, {"model_type": "qwen2", "use_sliding_window": True}):
        metadata = read_metadata(changed(folder, **SEVEN, **more, sliding_window=512, layer_types=kinds))
        assert f"{metadata.architecture}.attention.sliding_window" not in metadata.values
