"""Tiny Hugging Face folders, for the tests of this folder."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paceline.native.weights import ModelUnreadable, open_model
from safetensors.numpy import save_file

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 131,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "eos_token_id": 2,
}
YARN = {"type": "yarn", "factor": 4}
LONG = {"type": "longrope", "long_factor": [2.0] * 8, "short_factor": [1.0] * 8}
SEVEN = {"num_hidden_layers": 7, "num_experts_per_tok": 1, "moe_intermediate_size": 8, "num_experts": 2}


def llama_tensors(dtype: Any = np.float32, layers: int = 2) -> dict[str, Any]:
    random = np.random.RandomState(5)

    def matrix(rows: int, columns: int) -> Any:
        return (random.standard_normal((rows, columns)) * 0.2).astype(dtype)

    tensors = {"model.embed_tokens.weight": matrix(131, 64), "model.norm.weight": np.ones(64, dtype)}
    for layer in range(layers):
        start = f"model.layers.{layer}."
        tensors |= {
            f"{start}{name}.weight": np.ones(64, dtype) for name in ("input_layernorm", "post_attention_layernorm")
        }
        tensors |= {f"{start}self_attn.{name}_proj.weight": matrix(64, 64) for name in "qo"}
        tensors |= {f"{start}self_attn.{name}_proj.weight": matrix(32, 64) for name in "kv"}
        tensors |= {f"{start}mlp.{name}_proj.weight": matrix(96, 64) for name in ("gate", "up")}
        tensors[f"{start}mlp.down_proj.weight"] = matrix(64, 96)
    return tensors


def write_folder(path: Path, tensors: dict[str, Any], config: dict[str, Any], shards: int = 1) -> Path:
    path.mkdir(exist_ok=True, parents=True)
    (path / "config.json").write_text(json.dumps(config))
    if shards == 1:
        save_file(tensors, path / "model.safetensors")
        return path
    places = {name: f"model-{number % shards}.safetensors" for number, name in enumerate(tensors)}
    for file in set(places.values()):
        save_file({name: tensors[name] for name, place in places.items() if place == file}, path / file)
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return path


def changed(folder: Path, **changes: Any) -> Path:
    (folder / "config.json").write_text(json.dumps({**LLAMA, **changes}))
    return folder


def refusal(folder: Path) -> str:
    with pytest.raises(ModelUnreadable) as caught:
        open_model(folder)
    text = str(caught.value)
    assert text.startswith(f"cannot read the model {folder}: ") and "\n" not in text
    return text.removeprefix(f"cannot read the model {folder}: ")
