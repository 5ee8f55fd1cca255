"""Folders with leading dense layers, a bias of the choice or shared experts without a gate: what is read, what is left
out, and what is refused by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paceline.native.files.folder_config import Config
from paceline.native.files.rearrange import floats
from paceline.native.model import read_shape
from paceline.native.weights import open_model

from .folders import LLAMA, SEVEN, refusal, write_folder
from .routed_folders import EXPERT_FFN, EXPERTS, KINDS, NORMS, SHARED_FFN, WIDTH, matrix, routed_folder, routed_tensors

GRANITES = ("granitemoe", "granitemoeshared")
SHARED = {"glm4_moe": 24, "dots1": 48, "ernie4_5_moe": 48, "granitemoe": 0, "granitemoeshared": SHARED_FFN}


def opened(folder: Path) -> dict[str, np.ndarray]:
    """The weights by GGUF name, of a folder that holds a supported model."""
    metadata, tensors = open_model(folder)
    read_shape(metadata, tensors)
    return {tensor.name: floats(tensor) for tensor in tensors}


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_of_a_published_folder_arrive(tmp_path: Path, kind: str) -> None:
    shape = read_shape(*open_model(routed_folder(tmp_path, kind)))
    assert (shape.experts, shape.experts_used, shape.expert_ffn, shape.shared_ffn) == (5, 2, 24, SHARED[kind])
    assert (shape.dense_layers, shape.choice_bias) == ((0, False) if kind in GRANITES else (1, True))
    assert shape.sigmoid_routing is (kind in ("glm4_moe", "dots1")) and not shape.shared_gated
    assert shape.normalize_experts is (kind != "dots1") and shape.qk_norm is (kind == "dots1")
    assert shape.rope_size == (8 if kind == "glm4_moe" else 16)


@pytest.mark.parametrize("kind", ["glm4_moe", "dots1", "ernie4_5_moe"])
def test_the_experts_of_a_published_folder_are_stacked(tmp_path: Path, kind: str) -> None:
    found, stored = opened(routed_folder(tmp_path, kind)), routed_tensors(kind)
    for part in ("gate", "up", "down"):
        names = [f"model.layers.1.mlp.experts.{number}.{part}_proj.weight" for number in range(EXPERTS)]
        assert (found[f"blk.1.ffn_{part}_exps.weight"] == np.concatenate([stored[name] for name in names])).all()
        assert (found[f"blk.0.ffn_{part}.weight"] == stored[f"model.layers.0.mlp.{part}_proj.weight"]).all()
        shared = stored[f"model.layers.1.mlp.shared_experts.{part}_proj.weight"]
        assert (found[f"blk.1.ffn_{part}_shexp.weight"] == shared).all()
    place = "moe_statics" if kind == "ernie4_5_moe" else "gate"
    bias = stored[f"model.layers.1.mlp.{place}.e_score_correction_bias"]
    assert (found["blk.1.exp_probs_b.bias"] == bias.reshape(1, EXPERTS)).all()


def test_an_afmoe_says_what_its_weights_are_multiplied_by() -> None:
    config = LLAMA | {"model_type": "afmoe", "mup_enabled": True, "route_scale": 2.5}
    values = Config(config).gguf_values()
    assert values["afmoe.expert_weights_scale"] == 2.5
    assert (values["afmoe.leading_dense_block_count"], values["afmoe.expert_shared_feed_forward_length"]) == (1, 2816)
    assert values["afmoe.attention.sliding_window"] == 1024
    assert "afmoe.attention.sliding_window_pattern" not in values
    three = Config(config | {"global_attn_every_n_layers": 3}).gguf_values()
    assert three["afmoe.attention.sliding_window_pattern"] == 3
    for key, value in (
        ("mup_enabled", None),
        ("score_func", "softmax"),
        ("route_norm", False),
        ("num_expert_groups", 2),
    ):
        with pytest.raises(ValueError, match=f"the key '{key}' of config.json is"):
            Config(config | {key: value})


@pytest.mark.parametrize("kind", GRANITES)
def test_the_experts_of_a_granite_are_taken_apart(tmp_path: Path, kind: str) -> None:
    found, stored = opened(routed_folder(tmp_path, kind)), routed_tensors(kind)
    both = stored["model.layers.1.block_sparse_moe.input_linear.weight"]  # [experts, 2 * ffn, width]
    assert (found["blk.1.ffn_gate_exps.weight"].reshape(EXPERTS, EXPERT_FFN, WIDTH) == both[:, :EXPERT_FFN]).all()
    assert (found["blk.1.ffn_up_exps.weight"].reshape(EXPERTS, EXPERT_FFN, WIDTH) == both[:, EXPERT_FFN:]).all()
    down = stored["model.layers.1.block_sparse_moe.output_linear.weight"]
    assert (found["blk.1.ffn_down_exps.weight"].reshape(down.shape) == down).all()
    if kind == "granitemoeshared":
        shared = stored["model.layers.1.shared_mlp.input_linear.weight"]
        assert (found["blk.1.ffn_gate_shexp.weight"] == shared[:SHARED_FFN]).all()
        assert (found["blk.1.ffn_up_shexp.weight"] == shared[SHARED_FFN:]).all()


def test_the_experts_of_a_layer_may_be_one_tensor(tmp_path: Path) -> None:
    """As transformers has them in memory."""
    stored = routed_tensors("glm4_moe")
    gate, up, down = (
        np.stack([stored.pop(f"model.layers.1.mlp.experts.{n}.{part}_proj.weight") for n in range(EXPERTS)])
        for part in ("gate", "up", "down")
    )
    published = opened(routed_folder(tmp_path / "published", "glm4_moe"))
    from safetensors.numpy import save_file

    fused = routed_folder(tmp_path / "fused", "glm4_moe")
    experts = "model.layers.1.mlp.experts."
    both = {f"{experts}gate_up_proj": np.concatenate([gate, up], axis=1), f"{experts}down_proj": down}
    save_file(stored | both, fused / "model.safetensors")
    found = opened(fused)
    assert found.keys() == published.keys()
    assert all((found[name] == published[name]).all() for name in found)


DRAFTERS = {
    "glm4_moe": (
        *("embed_tokens.weight", "eh_proj.weight", "enorm.weight", "hnorm.weight", "shared_head.head.weight"),
        *("shared_head.norm.weight", "input_layernorm.weight", "self_attn.q_proj.weight", "mlp.gate.weight"),
        *("mlp.experts.0.gate_proj.weight", "mlp.gate.e_score_correction_bias"),
    ),
    "ernie4_5_moe": (
        *("block.0.self_attn.q_proj.weight", "block.0.mlp.up_proj.weight", "emb_norm.0.weight"),
        *("hidden_norm.0.weight", "linear_proj.0.weight"),
    ),
}


@pytest.mark.parametrize(("kind", "start"), [("glm4_moe", "model.layers.2."), ("ernie4_5_moe", "model.mtp_")])
def test_layers_that_draft_are_left_out(tmp_path: Path, kind: str, start: str) -> None:
    drafters = {f"{start}{name}": matrix(8, 8) for name in DRAFTERS[kind]}
    plain = opened(routed_folder(tmp_path / "plain", kind))
    full = opened(routed_folder(tmp_path / "full", kind, {"num_nextn_predict_layers": 1}, drafters))
    assert full.keys() == plain.keys() and all((full[name] == plain[name]).all() for name in full)


@pytest.mark.parametrize("count", [None, 0])
def test_a_layer_too_many_is_refused_where_none_drafts(tmp_path: Path, count: int | None) -> None:
    more = {"model.layers.2.enorm.weight": matrix(8, 8)}
    folder = routed_folder(tmp_path, "glm4_moe", {"num_nextn_predict_layers": count}, more)
    expected = "the tensor 'model.layers.2.enorm.weight' is not part of a supported glm4moe model"
    assert refusal(folder) == expected


@pytest.mark.parametrize(
    ("kind", "changes", "reason"),
    [
        ("glm4_moe", {"n_group": 0}, "the key 'n_group' of config.json is 0, expected a whole number above 0"),
        ("dots1", {"topk_group": "one"}, "the key 'topk_group' of config.json is 'one', expected a whole number"),
        ("dots1", {"scoring_func": "softmax"}, "the key 'scoring_func' of config.json is 'softmax', supported: 'sigm"),
        ("dots1", {"moe_layer_freq": 2}, "the key 'moe_layer_freq' of config.json is 2, supported: 1"),
        ("glm4_moe", {"topk_method": "greedy"}, "the key 'topk_method' of config.json is 'greedy', supported: 'noaux"),
        ("glm4_moe", {"n_routed_experts": None}, "the key 'n_routed_experts' of config.json is None, expected a whole"),
        ("glm4_moe", {"num_local_experts": 4}, "the keys 'n_routed_experts' and 'num_local_experts' of config.json di"),
        ("glm4_moe", {"n_shared_experts": -1}, "the key 'n_shared_experts' of config.json is -1, expected a whole num"),
        ("glm4_moe", {"first_k_dense_replace": 0.5}, "the key 'first_k_dense_replace' of config.json is 0.5, expected"),
        ("glm4_moe", {"norm_topk_prob": 1}, "the key 'norm_topk_prob' of config.json is 1, expected true or false"),
        ("glm4_moe", {"routed_scaling_factor": 0}, "the key 'routed_scaling_factor' of config.json is 0, expected a n"),
        ("glm4_moe", {"num_nextn_predict_layers": -1}, "the key 'num_nextn_predict_layers' of config.json is -1, expe"),
        ("glm4_moe", {"hidden_act": "gelu"}, "the key 'hidden_act' of config.json is 'gelu', supported: 'silu'"),
        ("dots1", {"attention_bias": True}, "the key 'attention_bias' of config.json is True, supported: False"),
        ("dots1", {"partial_rotary_factor": 0.5}, "the key 'partial_rotary_factor' of config.json is 0.5, supported:"),
        (
            "dots1",
            {"sliding_window": 9, "layer_types": ["full_attention", "sliding_attention"]},
            "the key 'layer_types' of config.json has other layers than 'sliding_attention', expected none",
        ),
        ("ernie4_5_moe", {"use_bias": True}, "the key 'use_bias' of config.json is True, supported: False"),
        ("ernie4_5_moe", {"moe_layer_interval": 2}, "the key 'moe_layer_interval' of config.json is 2, supported: 1"),
        (
            "ernie4_5_moe",
            {"moe_layer_end_index": 0},
            "the key 'moe_layer_end_index' of config.json is 0, supported: -1 or the last layer, 1",
        ),
        ("ernie4_5_moe", {"moe_norm_min": 0.5}, "the key 'moe_norm_min' of config.json is 0.5, supported: 1e-12"),
        ("ernie4_5_moe", {"moe_num_experts": [5, 5]}, "the key 'moe_num_experts' of config.json is [5, 5], expected a"),
        ("ernie4_5_moe", {"moe_k": None}, "the key 'moe_k' of config.json is None, expected a whole number above 0"),
        ("ernie4_5_moe", {"num_experts_per_tok": 3}, "the keys 'moe_k' and 'num_experts_per_tok' of config.json diffe"),
        ("granitemoe", {"attention_bias": True}, "the key 'attention_bias' of config.json is True, supported: False"),
        (
            "granitemoe",
            {"position_embedding_type": "nope"},
            "the key 'position_embedding_type' of config.json is 'nope', supported: 'rope'",
        ),
        ("granitemoe", {"logits_scaling": 0}, "the key 'logits_scaling' of config.json is 0, expected a number above"),
        ("granitemoe", {"num_local_experts": None}, "the key 'num_local_experts' of config.json is None, expected a w"),
        ("granitemoeshared", {"shared_intermediate_size": "x"}, "the key 'shared_intermediate_size' of config.json is"),
        ("granitemoe", {"routed_scaling_factor": 2.5}, "the key 'routed_scaling_factor' of config.json is 2.5, suppor"),
        ("glm4_moe", {"attention_bias": True}, "the key 'attention_bias' of config.json is True, expected False: the "),
        (
            "glm4_moe",
            {"use_qk_norm": True},
            "the key 'use_qk_norm' of config.json is True, expected False: the tensor 'blk.0.attn_q_norm.weight' is mi",
        ),
        ("glm4_moe", {"use_qk_norm": "no"}, "the key 'use_qk_norm' of config.json is 'no', expected False: the tensor"),
    ],
)
def test_what_cannot_be_followed_is_named(tmp_path: Path, kind: str, changes: dict[str, Any], reason: str) -> None:
    assert refusal(routed_folder(tmp_path, kind, changes)).startswith(reason)


@pytest.mark.parametrize(
    ("kind", "name", "reason"),
    [
        ("granitemoe", "block_sparse_moe.output_linear.bias", "is not part of a supported granitemoe model"),
        ("granitemoe", "block_sparse_moe.input_linear.weight", "has 10 rows, expected a multiple of 10"),
        ("granitemoeshared", "shared_mlp.input_linear.weight", "has 3 rows, expected a multiple of 2"),
        ("granitemoe", "shared_mlp.gate_linear.weight", "is not part of a supported granitemoe model"),
        ("ernie4_5_moe", "mlp.experts.0.up_proj.bias", "is not part of a supported ernie4_5-moe model"),
        ("dots1", "mlp.shared_expert.up_proj.weight", "is not part of a supported dots1 model"),
        ("glm4_moe", "self_attn.o_proj.bias", "is not part of a supported glm4moe model"),
    ],
)
def test_a_tensor_that_does_not_belong_there_is_named(tmp_path: Path, kind: str, name: str, reason: str) -> None:
    full = f"model.layers.1.{name}"
    rows = {"block_sparse_moe.input_linear.weight": 15}.get(name, 3)
    folder = routed_folder(tmp_path, kind, more={full: matrix(rows, WIDTH)})
    assert refusal(folder) == f"the tensor {full!r} {reason.replace('10 rows', '15 rows')}"


def test_norms_that_the_config_does_not_announce_are_refused(tmp_path: Path) -> None:
    norms = {name: np.ones(16, np.float32) for name in NORMS}
    folder = routed_folder(tmp_path / "silent", "glm4_moe", more=norms)
    expected = "the key 'use_qk_norm' of config.json is False, expected True: the tensor 'blk.0.attn_q_norm.weight' is"
    assert refusal(folder) == f"{expected} there"
    announced = routed_folder(tmp_path / "announced", "glm4_moe", {"use_qk_norm": True}, norms)
    assert read_shape(*open_model(announced)).qk_norm


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        ([0, 2], "the up matrix of expert 1 in layer 0 is missing, expected 0 to 2"),
        ([0, 1, 2, 3], "the up matrix of expert 3 in layer 0 is one too many, expected 0 to 2"),
    ],
)
def test_experts_that_are_missing_or_too_many(tmp_path: Path, held: list[int], reason: str) -> None:
    config = LLAMA | SEVEN | {"model_type": "qwen3_moe", "num_experts": 3}
    experts = {f"model.layers.0.mlp.experts.{n}.up_proj.weight": np.ones((8, 64), np.float32) for n in held}
    assert refusal(write_folder(tmp_path / "m", experts, config)) == reason


def test_hunyuans_numbers_may_be_lists() -> None:
    """As its published files have them, one for each layer."""
    many = {"num_experts": 6, "moe_topk": [2, 2], "num_hidden_layers": 2, "head_dim": 16}
    values = Config({**LLAMA, "model_type": "hunyuan_v1_moe", **many}).gguf_values()
    assert (values["hunyuan-moe.expert_count"], values["hunyuan-moe.expert_used_count"]) == (6, 2)
    assert values["hunyuan-moe.expert_shared_feed_forward_length"] == values["hunyuan-moe.expert_feed_forward_length"]
    with pytest.raises(ValueError, match=r"'moe_topk' of config.json is \[2, 3\], expected a whole number above 0"):
        Config({**LLAMA, "model_type": "hunyuan_v1_moe", **many, "moe_topk": [2, 3]}).gguf_values()
