"""Folders whose config.json somebody has edited: read as transformers reads them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paceline.native.files.folder_config import Config
from paceline.native.files.folder_families import ARCHITECTURES
from paceline.native.reference import open_reference

from ..configurations import CONFIGS, FAMILY_CONFIGS, LLAMA3, LONG, YARN
from ..families import VOCAB, expected_logits, random_family_model
from ..plain_families import random_model
from ..sequences import relative_error, run

pytestmark = pytest.mark.slow

LENGTH = 96
TYPED = {key: value for key, value in LONG.items() if key != "rope_type"}
OLDER = {"rope_parameters": None, "partial_rotary_factor": 0.75, "rope_theta": 5e3, "pad_token_id": 0}
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
        ("yarn-scaling", {"rope_parameters": None, "rope_scaling": YARN | {"attention_factor": 0.75, **MSCALES}}),
        ("yarn-scaling", {"rope_parameters": None, "rope_scaling": YARN | {"attn_factor": 0.5}}),
        ("yarn-scaling", {"model_type": "mistral", "sliding_window": 9}),
        ("yarn-scaling", {"model_type": "mistral", "sliding_window": 32, "max_position_embeddings": 32}),
        ("gemma3-ratio2", FLAT | {"rope_parameters": {**NESTED, "full_attention": YARN}}),
        ("qwen35-ratio3", {"rope_parameters": YARN | {"rope_theta": 1e4, "partial_rotary_factor": 0.25}}),
        ("yarn-scaling", {"rope_parameters": None, "rope_scaling": YARN | {"truncate": False}}),
        ("gpt_oss-ratio2", {"rope_parameters": None, "rope_theta": 1e4}),
        ("gpt_oss-ratio2", {"rope_parameters": None, "rope_scaling": YARN}),
        ("gpt_oss-ratio2", {"rope_parameters": None, "rope_scaling": YARN | {"truncate": False}}),
        ("gpt_oss-ratio2", {"layer_types": None, "sliding_window": None}),
        ("phi3-longrope", OLDER | {"rope_scaling": TYPED | {"type": "yarn", "attention_factor": 1.2}}),
        ("phi3-longrope", OLDER | {"rope_scaling": LONG | {"factor": 3.0}}),
        ("gemma-ratio1", {"hidden_act": "gelu"}),
        ("gemma2-ratio2", {"num_hidden_layers": 5, "sliding_window": 200}),
        ("ratio1-untied", {"tie_word_embeddings": True}),
        ("qwen3-ratio2", {"layer_types": ["full_attention"] * 3, "sliding_window": 9, "use_sliding_window": False}),
        (
            "qwen3-ratio2",
            {"max_window_layers": 3, "sliding_window": 9, "use_sliding_window": True, "layer_types": None},
        ),
        ("gemma3-ratio2", FLAT | {"rope_parameters": NESTED}),
        ("glm4moe-ratio2", {"rope_parameters": None, "rope_theta": 5e3}),
        ("glm4moe-ratio2", {"rope_parameters": None, "partial_rotary_factor": 0.75, "rope_scaling": YARN}),
        ("glm4moe-ratio2", {"n_routed_experts": None, "num_local_experts": 7, "num_nextn_predict_layers": 0}),
        ("afmoe-ratio2", {"layer_types": None, "global_attn_every_n_layers": 3, "rope_parameters": None}),
        ("afmoe-ratio2", {"rope_parameters": None, "rope_theta": 5e3, "route_scale": None}),
        ("dots1-ratio2", {"sliding_window": 9, "layer_types": None}),
        ("dots1-ratio2", {"sliding_window": 512, "max_window_layers": 1, "layer_types": None}),
        ("dots1-all-routed", {"rope_parameters": None, "rope_theta": 5e3, "use_sliding_window": True}),
        ("ernie4_5-ratio2-tied", {"rope_parameters": None, "tie_word_embeddings": None}),
        ("ernie4_5_moe-ratio2", {"rope_parameters": None, "rope_scaling": YARN, "moe_layer_end_index": -1}),
        ("ernie4_5_moe-ratio2", {"moe_k": None, "num_experts_per_tok": 3, "moe_layer_end_index": 9}),
        ("ernie4_5_moe-ratio2", {"moe_num_experts": None, "num_experts": 6, "rope_parameters": None}),
        ("granitemoe-ratio2-tied", {"rope_parameters": None, "rope_theta": 5e3, "logits_scaling": None}),
        ("granitemoeshared-odd", {"rope_parameters": None, "rope_scaling": YARN, "attention_multiplier": None}),
        ("gemma3-ratio2", FLAT | {"rope_parameters": None, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}),
    ],
)
def test_an_edited_folder_is_read_as_transformers_reads_it(tmp_path: Path, name: str, changes: dict[str, Any]) -> None:
    import torch
    import transformers

    family = name.split("-")[0]
    plain = name in CONFIGS
    (random_model(CONFIGS[name]) if plain else random_family_model(family, FAMILY_CONFIGS[name])).save_pretrained(
        tmp_path
    )
    config = json.loads((tmp_path / "config.json").read_text())
    kept = {key: value for key, value in {**config, **changes}.items() if value is not None}
    (tmp_path / "config.json").write_text(json.dumps(kept))
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    ids = np.random.RandomState(3).randint(0, VOCAB, LENGTH).tolist()
    assert relative_error(run(open_reference(tmp_path), ids, cuts=[1, 17]), expected_logits(model, ids)) < 1e-4


TEXT = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 90, "num_attention_heads": 4, "head_dim": 16,
    "num_key_value_heads": 2, "vocab_size": VOCAB, "max_position_embeddings": 8192, "num_experts": 4,
    "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 8,
    "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4,
}  # fmt: skip
SLIDING = {"use_sliding_window": True}
WITH_WINDOW = ("qwen2", "qwen3", "qwen2_vl_text", "qwen2_5_vl_text")


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (kind, {"num_hidden_layers": 62} if kind == "dots1" else {})
        for kind in ARCHITECTURES
        if "nemotron" not in kind and kind != "afmoe"
    ]
    + [("nemotron_h", {"layers_block_type": ["linear_attention", fed, "full_attention"]}) for fed in ("mlp", "moe")]
    + [(kind, SLIDING | {"max_window_layers": 0}) for kind in WITH_WINDOW]
    + [(kind, SLIDING | {"num_hidden_layers": 80 if "vl" in kind else 28}) for kind in WITH_WINDOW]
    + [("dots1", {"max_window_layers": 0}), ("ernie4_5", {"head_dim": None}), ("glm4_moe", {"head_dim": None})]
    + [("afmoe", {"mup_enabled": True})]
    + [("gemma", {"head_dim": None}), ("gemma2", {"head_dim": None}), ("qwen3", {"head_dim": None})],
)
def test_what_a_config_leaves_out_is_what_transformers_fills_in(kind: str, more: dict[str, Any]) -> None:
    import transformers

    inner = kind.endswith("_text") or not getattr(transformers.CONFIG_MAPPING[kind], "sub_configs", None)
    text = {key: value for key, value in (TEXT | more).items() if value is not None}
    silent = text if inner else {"text_config": text}
    full = json.loads(
        transformers.CONFIG_MAPPING[kind](**json.loads(json.dumps(silent))).to_json_string(use_diff=False)
    )
    assert understood({**silent, "model_type": kind}) == understood(full)


def understood(values: dict[str, Any]) -> dict[str, Any]:
    """A config's numbers, without those that say the default in so many words."""
    numbers = Config(values).gguf_values()
    for key, value in [*numbers.items()]:
        if (key.endswith("softcapping") and not value) or (key.endswith("rope_pattern") and all(value)):
            del numbers[key]
        elif key.endswith("head_count") and isinstance(value, list) and len({*value}) == 1:
            numbers[key] = value[0]
    return numbers
