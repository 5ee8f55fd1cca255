"""Folders of Nemotron-H and Nemotron 3, with the names and keys that published ones have."""

from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paceline.native.files.folder_config import Config
from paceline.native.files.rearrange import floats
from paceline.native.model import read_shape
from paceline.native.weights import ModelUnreadable, open_model

from .folders import write_folder

WIDTH, HEAD, FFN, HEADS, GROUPS, STATE, SIZE, EXPERTS, SHARED = 48, 16, 40, 4, 2, 8, 12, 3, 56
INNER, CHANNELS = HEADS * SIZE, HEADS * SIZE + 2 * GROUPS * STATE
CONFIG: dict[str, Any] = {
    "model_type": "nemotron_h",
    "hidden_size": WIDTH,
    "intermediate_size": FFN,
    "num_hidden_layers": 4,
    "hybrid_override_pattern": "M-*M",
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "attention_head_dim": HEAD,
    "attention_bias": False,
    "mamba_num_heads": HEADS,
    "mamba_head_dim": SIZE,
    "mamba_hidden_act": "silu",
    "mamba_proj_bias": False,
    "n_groups": GROUPS,
    "ssm_state_size": STATE,
    "conv_kernel": 4,
    "use_conv_bias": True,
    "use_bias": False,
    "mlp_bias": False,
    "mlp_hidden_act": "relu2",
    "time_step_limit": [0.0, inf],
    "time_step_min": 0.001,
    "layer_norm_epsilon": 1e-5,
    "residual_in_fp32": False,
    "vocab_size": 131,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "eos_token_id": 7,
}
ROUTED: dict[str, Any] = {
    "hybrid_override_pattern": "ME*M",
    "head_dim": HEAD,
    "attention_head_dim": None,
    "n_routed_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": FFN,
    "moe_shared_expert_intermediate_size": SHARED,
    "routed_scaling_factor": 2.5,
    "norm_topk_prob": True,
    "n_group": 1,
    "topk_group": 1,
}


def matrix(*shape: int) -> Any:
    return np.random.RandomState(sum(shape)).standard_normal(shape).astype(np.float32) * np.float32(0.1)


def state_space() -> dict[str, Any]:
    return {
        "in_proj.weight": matrix(INNER + CHANNELS + HEADS, WIDTH),
        "conv1d.weight": matrix(CHANNELS, 1, 4),
        "conv1d.bias": matrix(CHANNELS),
        **{name: matrix(HEADS) for name in ("A_log", "D", "dt_bias")},
        "norm.weight": matrix(INNER),
        "out_proj.weight": matrix(WIDTH, INNER),
    }


def feed_forward(path: str = "", ffn: int = FFN) -> dict[str, Any]:
    return {f"{path}up_proj.weight": matrix(ffn, WIDTH), f"{path}down_proj.weight": matrix(WIDTH, ffn)}


def tensors(routed: bool = False) -> dict[str, Any]:
    heads = {"q": 4 * HEAD, "k": 2 * HEAD, "v": 2 * HEAD}
    attention = {f"{part}_proj.weight": matrix(rows, WIDTH) for part, rows in heads.items()}
    experts = {"gate.weight": matrix(EXPERTS, WIDTH), "gate.e_score_correction_bias": matrix(EXPERTS)}
    for expert in range(EXPERTS):
        experts |= feed_forward(f"experts.{expert}.")
    experts |= feed_forward("shared_experts.", SHARED)
    fed = experts if routed else feed_forward()
    mixers = [state_space(), fed, attention | {"o_proj.weight": matrix(WIDTH, 4 * HEAD)}, state_space()]
    found = {"backbone.embeddings.weight": matrix(131, WIDTH), "backbone.norm_f.weight": matrix(WIDTH)}
    found["lm_head.weight"] = matrix(131, WIDTH)
    for layer, mixer in enumerate(mixers):
        found[f"backbone.layers.{layer}.norm.weight"] = matrix(WIDTH)
        found |= {f"backbone.layers.{layer}.mixer.{name}": values for name, values in mixer.items()}
    return found


def test_a_published_folder_is_read(tmp_path: Path) -> None:
    metadata, found = open_model(write_folder(tmp_path, tensors(), CONFIG))
    shape = read_shape(metadata, found)
    assert shape.architecture == "nemotron_h" and shape.kinds == ("recurrent", "feed_forward", "unrotated", "recurrent")
    assert (shape.ffn, shape.head_size, shape.key_heads, shape.norm_epsilon) == (FFN, HEAD, GROUPS, 1e-5)
    parts = {tensor.name: floats(tensor) for tensor in found}
    assert (parts["blk.1.ffn_up.weight"] == matrix(FFN, WIDTH)).all()
    np.testing.assert_allclose(parts["blk.3.ssm_a"].ravel(), -np.exp(matrix(HEADS)), rtol=1e-6)


def test_one_with_experts_is_read(tmp_path: Path) -> None:
    shape = read_shape(*open_model(write_folder(tmp_path, tensors(routed=True), CONFIG | ROUTED)))
    assert shape.architecture == "nemotron_h_moe"
    assert (shape.experts, shape.experts_used, shape.expert_ffn, shape.shared_ffn) == (EXPERTS, 2, FFN, SHARED)
    assert (shape.expert_scale, shape.sigmoid_routing, shape.choice_bias) == (2.5, True, True)


def test_where_it_is_silent_transformers_speaks(tmp_path: Path) -> None:
    silent = {key: value for key, value in CONFIG.items() if key not in ("layer_norm_epsilon", "attention_head_dim")}
    config = Config({**silent, "num_key_value_heads": None, "num_attention_heads": 8, "rms_norm_eps": 1e-3})
    assert config.gguf_values()["nemotron_h.attention.layer_norm_rms_epsilon"] == 1e-5
    assert (config.sizes().head_size, config.sizes().kv_heads) == (128, 8)


@pytest.mark.parametrize("first", [{}, {"layer_types": None}])
def test_layers_may_be_named_in_words(tmp_path: Path, first: dict[str, Any]) -> None:
    words = {"layers_block_type": ["mamba", "mlp", "attention", "mamba"], "hybrid_override_pattern": None, **first}
    shape = read_shape(*open_model(write_folder(tmp_path, tensors(), CONFIG | words)))
    assert shape.kinds == ("recurrent", "feed_forward", "unrotated", "recurrent")


def test_an_expert_without_a_matrix_is_named(tmp_path: Path) -> None:
    found = tensors(routed=True)
    del found["backbone.layers.1.mixer.experts.1.up_proj.weight"]
    with pytest.raises(ModelUnreadable, match="the up matrix of expert 1 in layer 1 is missing"):
        open_model(write_folder(tmp_path, found, CONFIG | ROUTED))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"hybrid_override_pattern": "M-*X"},
            "'hybrid_override_pattern' of config.json has 'X' as layer 3, expected 'M'",
        ),
        ({"hybrid_override_pattern": None}, "'layer_types' of config.json is None, expected 'full_attention' or"),
        ({**ROUTED, "hybrid_override_pattern": "ME*-"}, r"has '-' as layer 3, expected 'M' or '\*' or 'E'"),
        ({"layers_block_type": ["mamba", "mlp", 5, "mamba"]}, "'layers_block_type' of config.json has 5 as layer 2"),
        ({"mlp_hidden_act": "silu"}, "'mlp_hidden_act' of config.json is 'silu', supported: 'relu2'"),
        ({"use_bias": True}, "'use_bias' of config.json is True, supported: False"),
        ({**ROUTED, "moe_latent_size": 32}, "'moe_latent_size' of config.json is 32, supported: null"),
        ({"mamba_num_heads": 0}, "'mamba_num_heads' of config.json is 0, expected a whole number above 0"),
        ({"n_groups": 3}, "its 4 value heads are no multiple of its 3 key heads"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Config({**CONFIG, **changes}).gguf_values()
