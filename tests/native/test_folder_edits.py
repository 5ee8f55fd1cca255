"""Folders whose config.json somebody has edited: read as transformers reads them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paceline.native.reference import open_reference

from .configurations import CONFIGS, FAMILY_CONFIGS, LLAMA3, YARN
from .families import VOCAB, expected_logits, random_family_model
from .plain_families import random_model
from .sequences import relative_error, run

pytestmark = pytest.mark.slow

LENGTH = 96
LLAMA_3 = {key: value for key, value in LLAMA3.items() if key != "original_max_position_embeddings"}
MSCALES = {"mscale": 2.0, "mscale_all_dim": 0.5}
ONE_MSCALE = {"type": "yarn", "factor": 3, "original_max_position_embeddings": 64, "mscale": 2.0}
FLAT = {"rope_theta": 3e5, "rope_local_base_freq": 2e4}
NESTED = {"full_attention": {"rope_type": "default"}, "sliding_attention": {"rope_type": "default"}}


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("ratio2-tied", {"sliding_window": 9}),
        ("ratio2-tied", {"model_type": "mistral", "sliding_window": 9, "use_sliding_window": False}),
        ("ratio2-tied", {"model_type": "mistral", "sliding_window": 9, "layer_types": ["sliding_attention"] * 3}),
        ("ratio2-tied", {"model_type": "mistral"}),
        ("llama3-scaling", {"rope_parameters": None, "rope_scaling": LLAMA_3, "rope_theta": 1e4}),
        (
            "llama3-scaling",
            {"rope_parameters": None, "rope_scaling": LLAMA_3, "original_max_position_embeddings": 64},
        ),
        ("yarn-scaling", {"rope_parameters": None, "rope_scaling": YARN | MSCALES, "rope_theta": 1e4}),
        ("yarn-scaling", {"rope_parameters": None, "rope_scaling": YARN | {"factor": None}, "rope_theta": 1e4}),
        ("yarn-scaling", {"rope_parameters": None, "rope_scaling": ONE_MSCALE, "rope_theta": 1e4}),
        ("ratio1-untied", {"tie_word_embeddings": True}),
        ("qwen3-ratio2", {"layer_types": ["full_attention"] * 3, "sliding_window": 9, "use_sliding_window": False}),
        (
            "qwen3-ratio2",
            {"max_window_layers": 3, "sliding_window": 9, "use_sliding_window": True, "layer_types": None},
        ),
        ("gemma3-ratio2", FLAT | {"rope_parameters": NESTED}),
        ("gemma3-ratio2", FLAT | {"rope_parameters": None, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}),
    ],
)
def test_an_edited_folder_is_read_as_transformers_reads_it(tmp_path: Path, name: str, changes: dict[str, Any]) -> None:
    import torch
    import transformers

    gemma = name in FAMILY_CONFIGS
    (random_family_model("gemma3", FAMILY_CONFIGS[name]) if gemma else random_model(CONFIGS[name])).save_pretrained(
        tmp_path
    )
    config = json.loads((tmp_path / "config.json").read_text())
    kept = {key: value for key, value in {**config, **changes}.items() if value is not None}
    (tmp_path / "config.json").write_text(json.dumps(kept))
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    ids = np.random.RandomState(3).randint(0, VOCAB, LENGTH).tolist()
    assert relative_error(run(open_reference(tmp_path), ids, cuts=[1, 17]), expected_logits(model, ids)) < 1e-4
