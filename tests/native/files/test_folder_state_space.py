"""Folders of Granite 4 H, with the names and keys that published ones have."""

from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paceline.native.files.folder_config import Config
from paceline.native.files.rearrange import floats
from paceline.native.model import read_shape
from paceline.native.weights import open_model

from .folders import write_folder

WIDTH, FFN, HEADS, STATE, SIZE, EXPERTS = 32, 48, 4, 8, 16, 3
INNER, CHANNELS = HEADS * SIZE, HEADS * SIZE + 2 * STATE
CONFIG: dict[str, Any] = {
    "model_type": "granitemoehybrid",
    "hidden_size": WIDTH,
    "intermediate_size": 40,
    "shared_intermediate_size": FFN,
    "num_hidden_layers": 3,
    "layer_types": ["mamba", "attention", "mamba"],
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_local_experts": 0,
    "num_experts_per_tok": 0,
    "mamba_n_heads": HEADS,
    "mamba_n_groups": 1,
    "mamba_d_state": STATE,
    "mamba_d_head": SIZE,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_conv_bias": True,
    "mamba_proj_bias": False,
    "time_step_limit": [0.0, inf],
    "position_embedding_type": "nope",
    "embedding_multiplier": 12,
    "residual_multiplier": 0.25,
    "logits_scaling": 3,
    "attention_multiplier": 0.125,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000,
    "vocab_size": 131,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
    "eos_token_id": 7,
}


def matrix(*shape: int) -> Any:
    return np.random.RandomState(sum(shape)).standard_normal(shape).astype(np.float32) * np.float32(0.1)


def tensors(experts: int = 0) -> dict[str, Any]:
    found = {"model.embed_tokens.weight": matrix(131, WIDTH), "model.norm.weight": matrix(WIDTH)}
    for layer in range(3):
        block = f"model.layers.{layer}"
        found |= {f"{block}.{name}_layernorm.weight": matrix(WIDTH) for name in ("input", "post_attention")}
        if layer == 1:
            rows = {"q": WIDTH, "k": 16, "v": 16, "o": WIDTH}
            found |= {f"{block}.self_attn.{name}_proj.weight": matrix(size, WIDTH) for name, size in rows.items()}
        else:
            found[f"{block}.mamba.in_proj.weight"] = matrix(INNER + CHANNELS + HEADS, WIDTH)
            found[f"{block}.mamba.conv1d.weight"] = matrix(CHANNELS, 1, 4)
            found[f"{block}.mamba.conv1d.bias"] = matrix(CHANNELS)
            found |= {f"{block}.mamba.{name}": matrix(HEADS) for name in ("A_log", "D", "dt_bias")}
            found[f"{block}.mamba.norm.weight"] = matrix(INNER)
            found[f"{block}.mamba.out_proj.weight"] = matrix(WIDTH, INNER)
        found[f"{block}.shared_mlp.input_linear.weight"] = matrix(2 * FFN, WIDTH)
        found[f"{block}.shared_mlp.output_linear.weight"] = matrix(WIDTH, FFN)
        if experts:
            found[f"{block}.block_sparse_moe.router.layer.weight"] = matrix(experts, WIDTH)
            found[f"{block}.block_sparse_moe.input_linear.weight"] = matrix(experts, 80, WIDTH)
            found[f"{block}.block_sparse_moe.output_linear.weight"] = matrix(experts, WIDTH, 40)
    return found


def test_a_published_folder_is_read(tmp_path: Path) -> None:
    metadata, found = open_model(write_folder(tmp_path, tensors(), CONFIG))
    shape = read_shape(metadata, found)
    assert shape.architecture == "granitehybrid" and shape.kinds == ("recurrent", "unrotated", "recurrent")
    assert (shape.ffn, shape.experts, shape.state_space, shape.tied) == (FFN, 0, True, True)
    assert (shape.embedding_scale, shape.residual_scale, shape.query_scale) == (12, 0.25, 0.125)
    parts = {tensor.name: floats(tensor) for tensor in found}
    np.testing.assert_allclose(parts["blk.0.ssm_a"].ravel(), -np.exp(matrix(HEADS)), rtol=1e-6)
    assert (parts["blk.2.ffn_gate.weight"] == matrix(2 * FFN, WIDTH)[:FFN]).all()


def test_one_with_experts_is_read(tmp_path: Path) -> None:
    routed = {"num_local_experts": EXPERTS, "num_experts_per_tok": 2}
    shape = read_shape(*open_model(write_folder(tmp_path, tensors(EXPERTS), CONFIG | routed)))
    assert (shape.experts, shape.experts_used, shape.expert_ffn, shape.shared_ffn) == (EXPERTS, 2, 40, FFN)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"layer_types": ["mamba", "conv", "mamba"]},
            "'layer_types' of config.json has 'conv' as layer 1, expected 'full_attention'",
        ),
        ({"layer_types": ["mamba"]}, "expected 'full_attention' or 'linear_attention' for each of 3 layers"),
        ({"layer_types": [1, 2, 3]}, "'layer_types' of config.json has 1 as layer 0, expected 'full_attention' or"),
        ({"mamba_expand": 3}, "its 4 state space heads of 16 are not its mamba_expand times its width, 96"),
        ({"mamba_n_groups": 3}, "its 4 value heads are no multiple of its 3 key heads"),
        ({"mamba_n_heads": 0}, "'mamba_n_heads' of config.json is 0, expected a whole number above 0"),
        ({"mamba_proj_bias": True}, "'mamba_proj_bias' of config.json is True, supported: False"),
        ({"mamba_conv_bias": False}, "'mamba_conv_bias' of config.json is False, supported: True"),
        ({"time_step_limit": [0.001, inf]}, "'time_step_limit' of config.json is"),
        ({"position_embedding_type": "alibi"}, "'position_embedding_type' of config.json is 'alibi'"),
        ({"hidden_act": "relu"}, "'hidden_act' of config.json is 'relu', supported: 'silu'"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Config({**CONFIG, **changes}).gguf_values()


def test_where_it_is_silent_transformers_speaks() -> None:
    silent = ("shared_intermediate_size", "mamba_n_groups", "mamba_d_conv", "mamba_expand", "mamba_d_head")
    values = Config({key: value for key, value in CONFIG.items() if key not in silent}).gguf_values()
    assert values["granitehybrid.feed_forward_length"] == 1024
    assert (values["granitehybrid.ssm.group_count"], values["granitehybrid.ssm.conv_kernel"]) == (1, 4)
    assert values["granitehybrid.ssm.inner_size"] == 2 * WIDTH


def test_a_head_may_be_as_wide_as_the_rest_makes_it() -> None:
    assert Config({**CONFIG, "mamba_d_head": "auto"}).sizes().value_size == SIZE
    assert Config({**CONFIG, "layers_block_type": CONFIG["layer_types"], "layer_types": None}).gguf_values()
