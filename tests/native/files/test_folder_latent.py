"""Folders of DeepSeek's latent attention, with the names and keys that published ones have."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paceline.native.files.folder_config import Config
from paceline.native.files.rearrange import floats
from paceline.native.model import read_shape
from paceline.native.weights import ModelUnreadable, open_model

from .folders import refusal, write_folder

WIDTH, HEADS, LATENT, KEYS, TURNING, VALUES, RANK, FFN, EXPERTS, EXPERT_FFN = 64, 3, 96, 32, 16, 64, 40, 96, 5, 24
CONFIG: dict[str, Any] = {
    "model_type": "glm4_moe_lite",
    "hidden_size": WIDTH,
    "intermediate_size": FFN,
    "moe_intermediate_size": EXPERT_FFN,
    "num_hidden_layers": 2,
    "num_nextn_predict_layers": 1,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "kv_lora_rank": LATENT,
    "q_lora_rank": RANK,
    "qk_nope_head_dim": KEYS,
    "qk_rope_head_dim": TURNING,
    "v_head_dim": VALUES,
    "n_routed_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.8,
    "rope_theta": 1e6,
    "vocab_size": 131,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "eos_token_id": [2, 3],
}


def matrix(*shape: int) -> Any:
    return np.random.RandomState(sum(shape)).standard_normal(shape).astype(np.float32) * np.float32(0.1)


def tensors(layers: int = 3) -> dict[str, Any]:
    """The last layer drafts."""
    found = {f"{name}.weight": matrix(131, WIDTH) for name in ("model.embed_tokens", "lm_head")}
    found["model.norm.weight"] = matrix(WIDTH)
    for layer in range(layers):
        parts = {
            "self_attn.q_a_proj.weight": matrix(RANK, WIDTH),
            "self_attn.q_a_layernorm.weight": matrix(RANK),
            "self_attn.q_b_proj.weight": matrix(HEADS * (KEYS + TURNING), RANK),
            "self_attn.kv_a_proj_with_mqa.weight": matrix(LATENT + TURNING, WIDTH),
            "self_attn.kv_a_layernorm.weight": matrix(LATENT),
            "self_attn.kv_b_proj.weight": matrix(HEADS * (KEYS + VALUES), LATENT),
            "self_attn.o_proj.weight": matrix(WIDTH, HEADS * VALUES),
            "input_layernorm.weight": matrix(WIDTH),
            "post_attention_layernorm.weight": matrix(WIDTH),
        }
        widths = {"mlp": FFN} if layer == 0 else {f"mlp.experts.{expert}": EXPERT_FFN for expert in range(EXPERTS)}
        if layer:
            widths["mlp.shared_experts"] = EXPERT_FFN
            parts["mlp.gate.weight"] = matrix(EXPERTS, WIDTH)
            parts["mlp.gate.e_score_correction_bias"] = matrix(EXPERTS)
        for name, width in widths.items():
            parts |= {f"{name}.{part}_proj.weight": matrix(width, WIDTH) for part in ("gate", "up")}
            parts[f"{name}.down_proj.weight"] = matrix(WIDTH, width)
        found |= {f"model.layers.{layer}.{part}": values for part, values in parts.items()}
    found["model.layers.2.eh_proj.weight"] = matrix(WIDTH, 2 * WIDTH)
    return found


def test_a_published_folder_is_read(tmp_path: Path) -> None:
    metadata, found = open_model(write_folder(tmp_path, tensors(), CONFIG))
    shape = read_shape(metadata, found)
    assert (shape.latent, shape.latent_keys, shape.latent_values, shape.query_rank) == (LATENT, KEYS, VALUES, RANK)
    assert (shape.layers, shape.dense_layers, shape.expert_scale, shape.shared_ffn) == (2, 1, 1.8, EXPERT_FFN)
    assert shape.sigmoid_routing and shape.choice_bias and shape.normalize_experts and shape.rope_layout == "pairs"
    both = tensors()["model.layers.1.self_attn.kv_b_proj.weight"].reshape(HEADS, KEYS + VALUES, LATENT)
    named = {tensor.name: tensor for tensor in found}
    keys = floats(named["blk.1.attn_k_b.weight"]).reshape(HEADS, LATENT, KEYS)
    assert np.array_equal(keys, both[:, :KEYS].swapaxes(1, 2))
    assert np.array_equal(floats(named["blk.1.attn_v_b.weight"]).reshape(HEADS, VALUES, LATENT), both[:, KEYS:])


def test_the_layers_without_experts_may_be_listed(tmp_path: Path) -> None:
    config = {key: value for key, value in CONFIG.items() if key != "first_k_dense_replace"}
    listed = config | {"mlp_layer_types": ["dense", "sparse"]}
    assert read_shape(*open_model(write_folder(tmp_path, tensors(), listed))).dense_layers == 1


def test_a_folder_may_rotate_by_halves(tmp_path: Path) -> None:
    shape = read_shape(*open_model(write_folder(tmp_path, tensors(), CONFIG | {"rope_interleave": False})))
    assert shape.rope_layout == "halves"
    second = CONFIG | {"rope_interleave": False, "model_type": "deepseek_v2", "first_k_dense_replace": 1}
    assert read_shape(*open_model(write_folder(tmp_path, tensors(), second))).rope_layout == "pairs"


def test_the_second_generation_normalizes_only_where_it_says_so(tmp_path: Path) -> None:
    silent = {key: value for key, value in CONFIG.items() if key != "norm_topk_prob"}
    for kind, normalizes in (("deepseek_v2", False), ("deepseek_v3", True)):
        more = {"model_type": kind, "first_k_dense_replace": 1}
        shape = read_shape(*open_model(write_folder(tmp_path, tensors(), silent | more)))
        assert shape.normalize_experts is normalizes


@pytest.mark.parametrize(("kind", "sigmoid"), [("deepseek_v2", False), ("deepseek_v3", True), ("glm4_moe_lite", True)])
def test_how_experts_are_weighed_follows_from_the_model_type(tmp_path: Path, kind: str, sigmoid: bool) -> None:
    more = {"model_type": kind, "first_k_dense_replace": 1}
    assert read_shape(*open_model(write_folder(tmp_path, tensors(), CONFIG | more))).sigmoid_routing is sigmoid


@pytest.mark.parametrize(
    ("kind", "method", "groups"),
    [
        ("deepseek_v2", "greedy", (1, 1)),
        ("deepseek_v2", "group_limited_greedy", (5, 2)),
        ("deepseek_v3", "noaux_tc", (5, 2)),
        ("glm4_moe_lite", None, (5, 2)),
    ],
)
def test_experts_may_be_chosen_by_groups(
    tmp_path: Path, kind: str, method: str | None, groups: tuple[int, int]
) -> None:
    more = {"model_type": kind, "topk_method": method, "n_group": 5, "topk_group": 2}
    shape = read_shape(*open_model(write_folder(tmp_path, tensors(), CONFIG | {"first_k_dense_replace": 1} | more)))
    assert (shape.expert_groups, shape.groups_used) == groups


@pytest.mark.parametrize(
    ("kind", "rank", "scale"), [("deepseek_v2", 1536, 1.0), ("deepseek_v3", 1536, 2.5), ("glm4_moe_lite", 768, 1.8)]
)
def test_a_rank_that_is_null_is_none_and_one_left_out_is_the_models(kind: str, rank: int, scale: float) -> None:
    silent = {key: CONFIG[key] for key in CONFIG if key not in ("q_lora_rank", "routed_scaling_factor")}
    for more, expected in (({}, rank), ({"q_lora_rank": None}, 0), ({"q_lora_rank": 8}, 8)):
        values = Config({**silent, "model_type": kind, **more}).gguf_values()
        assert values["deepseek2.attention.q_lora_rank"] == expected
        assert values["deepseek2.expert_weights_scale"] == scale


def test_scores_grow_with_yarns_factor(tmp_path: Path) -> None:
    """By the square of what mscale_all_dim says, and cosines and sines by what is left of mscale."""
    growth = {"mscale": 0.707, "mscale_all_dim": 0.707}
    yarn = {"type": "yarn", "factor": 40, "original_max_position_embeddings": 64, **growth}
    shape = read_shape(*open_model(write_folder(tmp_path, tensors(), CONFIG | {"rope_scaling": yarn})))
    assert shape.query_scale == pytest.approx((KEYS + TURNING) ** -0.5 * (1 + 0.0707 * np.log(40)) ** 2)
    assert shape.rope_amplitude == pytest.approx(1.0)


def of_mistral(share: float, **more: Any) -> dict[str, Any]:
    settings = {"rope_theta": 1e4, "type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64}
    settings |= {"mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1, "partial_rotary_factor": share}
    values = {key: value for key, value in CONFIG.items() if key not in ("rope_theta", "num_nextn_predict_layers")}
    return values | {"model_type": "mistral4", "rope_parameters": settings} | more


def test_a_mistral_4_says_which_share_of_a_head_turns(tmp_path: Path) -> None:
    own = {
        name: values
        for name, values in tensors(2).items()
        if not name.endswith(("e_score_correction_bias", "eh_proj.weight"))
    }
    config = of_mistral(1 / 3, first_k_dense_replace=1)
    shape = read_shape(*open_model(write_folder(tmp_path, own, config)))
    assert (shape.architecture, shape.rope_size, shape.rope_layout) == ("mistral4", TURNING, "pairs")
    assert (shape.temperature_scale, shape.temperature_length) == (0.1, 64)
    assert (shape.sigmoid_routing, shape.normalize_experts, shape.choice_bias) == (False, True, False)
    assert shape.query_scale == pytest.approx((KEYS + TURNING) ** -0.5 * (1 + 0.1 * np.log(8)) ** 2)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (of_mistral(0.5), "'partial_rotary_factor' of config.json is 0.5, supported: 1.0"),
        (of_mistral(1 / 3, n_group=2), "'n_group' of config.json is 2, supported: 1"),
    ],
)
def test_a_mistral_4_of_another_form_is_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Config(values)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"n_group": 0}, "'n_group' of config.json is 0, expected a whole number above 0"),
        ({"topk_method": "hottest"}, "'topk_method' of config.json is 'hottest', expected 'noaux_tc'"),
        (
            {"mlp_layer_types": ["sparse", "dense"]},
            "'mlp_layer_types' of config.json is .* 'dense' for the first layers",
        ),
        ({"scoring_func": "softmax"}, "'scoring_func' of config.json is 'softmax', expected 'sigmoid' or 'noaux_tc'"),
        (
            {"model_type": "deepseek_v2", "scoring_func": "sigmoid"},
            "'scoring_func' of config.json is 'sigmoid', expected 'softmax'",
        ),
        ({"mlp_layer_types": ["dense"]}, "'mlp_layer_types' of config.json is .* expected a list of 2"),
        ({"qk_rope_head_dim": 0}, "'qk_rope_head_dim' of config.json is 0, expected a whole number above 0"),
        ({"rope_interleave": 3}, "'rope_interleave' of config.json is 3, expected true or false"),
        ({"attention_bias": True}, "'attention_bias' of config.json is True, supported: False"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    text = refusal(write_folder(tmp_path, tensors(), CONFIG | changes))
    assert re.search(says, text), text


def test_heads_of_another_size_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelUnreadable, match=r"the tensor '.*kv_b_proj.weight' has 288 rows, expected 384"):
        open_model(write_folder(tmp_path, tensors(), CONFIG | {"v_head_dim": 96}))
