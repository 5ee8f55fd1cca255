"""Folders of LFM2, with the names and keys that published ones have."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paceline.native.files.folder_config import Config
from paceline.native.files.rearrange import floats
from paceline.native.model import read_shape
from paceline.native.weights import open_model

from .folders import write_folder

WIDTH, HEADS, KV_HEADS, FFN, EXPERTS, EXPERT_FFN, TAPS = 64, 4, 2, 96, 5, 24, 3
CONFIG: dict[str, Any] = {
    "model_type": "lfm2",
    "hidden_size": WIDTH,
    "block_ff_dim": 120,
    "block_auto_adjust_ff_dim": True,
    "block_ffn_dim_multiplier": 1.0,
    "block_multiple_of": 32,
    "full_attn_idxs": [1],
    "num_hidden_layers": 3,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "conv_L_cache": TAPS,
    "conv_bias": False,
    "norm_eps": 1e-5,
    "rope_theta": 1e6,
    "vocab_size": 131,
    "max_position_embeddings": 512,
    "tie_embedding": True,
    "eos_token_id": 7,
}
MOE = {
    "model_type": "lfm2_moe",
    "intermediate_size": FFN,
    "layer_types": ["conv", "full_attention", "conv"],
    "num_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": EXPERT_FFN,
    "num_dense_layers": 1,
    "use_expert_bias": True,
}


def matrix(*shape: int) -> Any:
    return np.random.RandomState(sum(shape)).standard_normal(shape).astype(np.float32) * np.float32(0.1)


def feed_forward(path: str, ffn: int) -> dict[str, Any]:
    shapes = {"w1": (ffn, WIDTH), "w2": (WIDTH, ffn), "w3": (ffn, WIDTH)}
    return {f"{path}.{part}.weight": matrix(*shape) for part, shape in shapes.items()}


def tensors(experts_from: int = 3) -> dict[str, Any]:
    found = {"model.embed_tokens.weight": matrix(131, WIDTH), "model.embedding_norm.weight": matrix(WIDTH)}
    for layer in range(3):
        block = f"model.layers.{layer}"
        found |= {f"{block}.{name}.weight": matrix(WIDTH) for name in ("operator_norm", "ffn_norm")}
        if layer == 1:
            rows = {"q_proj": WIDTH, "k_proj": 32, "v_proj": 32, "out_proj": WIDTH}
            found |= {f"{block}.self_attn.{name}.weight": matrix(size, WIDTH) for name, size in rows.items()}
            found |= {f"{block}.self_attn.{part}_layernorm.weight": matrix(WIDTH // HEADS) for part in "qk"}
        else:
            found[f"{block}.conv.in_proj.weight"] = matrix(3 * WIDTH, WIDTH)
            found[f"{block}.conv.conv.weight"] = matrix(WIDTH, 1, TAPS)
            found[f"{block}.conv.out_proj.weight"] = matrix(WIDTH, WIDTH)
        if layer < experts_from:
            found |= feed_forward(f"{block}.feed_forward", FFN)
            continue
        found[f"{block}.feed_forward.gate.weight"] = matrix(EXPERTS, WIDTH)
        found[f"{block}.feed_forward.expert_bias"] = matrix(EXPERTS)
        for expert in range(EXPERTS):
            found |= feed_forward(f"{block}.feed_forward.experts.{expert}", EXPERT_FFN)
    return found


def test_a_published_folder_is_read(tmp_path: Path) -> None:
    metadata, found = open_model(write_folder(tmp_path, tensors(), CONFIG))
    shape = read_shape(metadata, found)
    assert shape.kinds == ("recurrent", "attention", "recurrent") and shape.gated_convolution and shape.tied
    assert (shape.ffn, shape.kv_heads, shape.head_size, shape.conv_kernel) == (FFN, KV_HEADS, 16, TAPS)
    taps = next(tensor for tensor in found if tensor.name == "blk.2.shortconv.conv.weight")
    assert np.array_equal(floats(taps), tensors()["model.layers.2.conv.conv.weight"][:, 0])


def test_a_published_folder_with_experts_is_read(tmp_path: Path) -> None:
    config = {key: value for key, value in CONFIG.items() if "block" not in key} | MOE
    shape = read_shape(*open_model(write_folder(tmp_path, tensors(experts_from=1), config)))
    assert (shape.ffn, shape.dense_layers, shape.experts, shape.expert_ffn) == (FFN, 1, EXPERTS, EXPERT_FFN)
    assert shape.sigmoid_routing and shape.choice_bias and shape.normalize_experts


@pytest.mark.parametrize(
    ("changes", "width"),
    [
        ({}, 96),
        ({"block_ffn_dim_multiplier": 1.5}, 128),
        ({"block_auto_adjust_ff_dim": False}, 120),
        ({"block_ff_dim": None, "intermediate_size": 60}, 64),
        ({"block_ff_dim": 120, "intermediate_size": 60}, 96),
        ({"block_multiple_of": None}, 256),
        ({"block_ffn_dim_multiplier": None}, 80),
    ],
)
def test_the_width_of_a_feed_forward_part(changes: dict[str, Any], width: int) -> None:
    """As in transformers."""
    assert Config(CONFIG | changes).gguf_values()["lfm2.feed_forward_length"] == width


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"conv_bias": True}, r"'conv_bias' of config.json is True, supported: False"),
        (
            {"layer_types": ["conv", "mamba", "conv"]},
            r"'layer_types' of config.json is .* expected 'full_attention' or",
        ),
        ({"layer_types": [["conv"], {}, "conv"]}, r"'layer_types' of config.json is .* for each of 3 layers"),
        ({"num_hidden_layers": 1 << 40}, r"'num_hidden_layers' of config.json is 1099511627776, expected at most"),
        ({"layer_types": ["conv"]}, r"'layer_types' of config.json is .* for each of 3 layers"),
        ({"block_multiple_of": 0}, r"'block_multiple_of' of config.json is 0, expected a whole number above 0"),
        ({"conv_L_cache": 0}, r"'conv_L_cache' of config.json is 0, expected a whole number above 0"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Config(CONFIG | changes).gguf_values()


@pytest.mark.parametrize("tied", [True, False])
def test_its_own_key_says_whether_the_head_is_the_embedding(tied: bool) -> None:
    assert Config(CONFIG | {"tie_embedding": tied, "tie_word_embeddings": not tied}).tied is tied
    assert Config({key: CONFIG[key] for key in CONFIG if key != "tie_embedding"}).tied is True
