"""Folders that transformers writes, of every family: logits where the reference has it, else tensor by tensor."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paceline.native.core import open_core
from paceline.native.reference import open_reference
from paceline.native.reference_weights import to_float32
from paceline.native.weights import open_model

from ..configurations import CONFIGS, FAMILY_CONFIGS
from ..families import VOCAB, expected_logits, random_family_model
from ..plain_families import random_model
from ..rows import all_logits
from ..sequences import relative_error, run
from ..test_transformers import LENGTH, open_float_core

pytestmark = pytest.mark.slow

EXPERTS = {"moe_intermediate_size": 24, "num_experts": 4, "num_experts_per_tok": 2}
SHARED = {**EXPERTS, "shared_expert_intermediate_size": 20}
KEY_HEADS, VALUE_HEADS, KEY_SIZE, VALUE_SIZE = 2, 6, 8, 16
RECURRENT = {
    "linear_num_key_heads": KEY_HEADS,
    "linear_num_value_heads": VALUE_HEADS,
    "linear_key_head_dim": KEY_SIZE,
    "linear_value_head_dim": VALUE_SIZE,
    "layer_types": ["linear_attention", "full_attention"],
}
LAYER = "layers.0.linear_attn."
KEYS, VALUES = KEY_HEADS * KEY_SIZE, VALUE_HEADS * VALUE_SIZE


def saved(
    path: Path, family: str, config: str, **options: Any
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """A tiny random model in a folder: its values and tensors as opened, and its weights by transformers' name."""
    import torch
    import transformers

    torch.manual_seed(3)
    model = getattr(transformers, f"{family}ForCausalLM")(
        getattr(transformers, config)(
            vocab_size=64,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            max_position_embeddings=128,
            **options,
        )
    )
    for weights in model.parameters():
        torch.nn.init.normal_(weights)
    model.save_pretrained(path)
    metadata, tensors = open_model(path)
    weights = {name.removeprefix("model."): value.numpy() for name, value in model.state_dict().items()}
    assert all(tensor.data.nbytes == tensor.nbytes for tensor in tensors)
    return dict(metadata.values), {tensor.name: to_float32(tensor) for tensor in tensors}, weights


@pytest.mark.parametrize("name", CONFIGS)
def test_logits_of_a_saved_folder(tmp_path: Path, name: str) -> None:
    import torch

    model = random_model(CONFIGS[name])
    model.save_pretrained(tmp_path, max_shard_size="50KB")
    ids = np.random.RandomState(3).randint(0, VOCAB, LENGTH).tolist()
    with torch.inference_mode():
        expected = model(torch.tensor([ids])).logits[0].numpy()  # [positions, vocab]
    reference = open_reference(tmp_path)
    assert reference.shape.tied == CONFIGS[name]["tied"]
    assert relative_error(run(reference, ids, cuts=[1, 17]), expected) < 1e-4


@pytest.mark.parametrize("name", FAMILY_CONFIGS)
def test_logits_of_a_saved_folder_of_the_newer_families(tmp_path: Path, name: str) -> None:
    model = random_family_model(name.split("-")[0], FAMILY_CONFIGS[name])
    model.save_pretrained(tmp_path)
    ids = np.random.RandomState(3).randint(0, VOCAB, 2 * LENGTH).tolist()
    expected = expected_logits(model, ids)
    assert relative_error(run(open_reference(tmp_path), ids, cuts=[1, 17]), expected) < 1e-4
    assert relative_error(all_logits(open_float_core(tmp_path), 0, ids), expected) < 1e-3


@pytest.mark.parametrize("window", [None, 9])
def test_logits_of_mistral_in_bfloat16(tmp_path: Path, window: int | None) -> None:
    import torch
    import transformers

    torch.manual_seed(3)
    config = transformers.MistralConfig(
        vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, sliding_window=window, initializer_range=0.2,
    )  # fmt: skip
    transformers.MistralForCausalLM(config).to(torch.bfloat16).save_pretrained(tmp_path)
    model = transformers.MistralForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    ids = list(range(LENGTH))
    with torch.inference_mode():
        expected = model(torch.tensor([ids])).logits[0].numpy()
    assert {tensor.type for tensor in open_model(tmp_path)[1]} == {"BF16", "F32"}
    assert relative_error(run(open_reference(tmp_path), ids), expected) < 1e-4
    core = open_core(tmp_path, slots=1, threads=2, cache_type_k="f32", cache_type_v="f32")
    assert relative_error(all_logits(core, 0, ids), expected) < 1e-3


SEEING = {
    "Qwen2VL": {"depth": 1, "embed_dim": 16, "hidden_size": 64, "num_heads": 2},
    "Qwen2_5_VL": {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 64},
    "Qwen3VLMoe": {
        "depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 64,
        "deepstack_visual_indexes": [0],
    },
    "Qwen3VL": {
        "depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 64,
        "deepstack_visual_indexes": [0],
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("family", "flat"), [*((family, False) for family in SEEING), ("Qwen2VL", True), ("Qwen2_5_VL", True)]
)
def test_logits_of_text_of_a_qwen_that_sees(tmp_path: Path, family: str, flat: bool) -> None:
    """flat: the form that their folders had at first."""
    import torch
    import transformers

    torch.manual_seed(3)
    rope = {"rope_type": "default", "rope_theta": 1e5, "mrope_section": [3, 3, 2]}
    text = {
        "vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 128,
        "initializer_range": 0.2, "rope_parameters": rope, "tie_word_embeddings": False, "num_experts": 4,
        "num_experts_per_tok": 2, "moe_intermediate_size": 24,
    }  # fmt: skip
    config = getattr(transformers, f"{family}Config")(
        text_config=text, vision_config=SEEING[family], tie_word_embeddings=False
    )
    model = getattr(transformers, f"{family}ForConditionalGeneration")(config).eval()
    model.save_pretrained(tmp_path)
    if flat:
        saved_config = json.loads((tmp_path / "config.json").read_text())
        old = {"rope_theta": 1e5, "rope_scaling": {"type": "mrope", "mrope_section": [3, 3, 2]}}
        inner = {key: value for key, value in saved_config.pop("text_config").items() if key != "rope_parameters"}
        (tmp_path / "config.json").write_text(json.dumps({**inner, **saved_config, **old}))
    ids = np.random.RandomState(3).randint(0, VOCAB - 8, LENGTH).tolist()
    with torch.inference_mode():
        expected = model(torch.tensor([ids])).logits[0].numpy()
    assert expected.std() > 0.5
    assert relative_error(run(open_reference(tmp_path), ids), expected) < 1e-4


def test_experts_of_qwen_3_vl_may_lie_transposed(tmp_path: Path) -> None:
    """As in the published folders."""
    from safetensors.numpy import load_file, save_file

    values, upright, _ = saved(tmp_path, "Qwen3Moe", "Qwen3MoeConfig", norm_topk_prob=True, **EXPERTS)
    stored = {
        name: np.ascontiguousarray(weights) for name, weights in load_file(tmp_path / "model.safetensors").items()
    }
    fused: dict[str, Any] = {name: weights for name, weights in stored.items() if ".experts." not in name}
    for layer in range(2):
        start = f"model.layers.{layer}.mlp.experts."
        gate, up, down = (
            np.stack([stored[f"{start}{expert}.{part}_proj.weight"].T for expert in range(4)])
            for part in ("gate", "up", "down")
        )
        fused |= {f"{start}gate_up_proj": np.concatenate([gate, up], axis=2), f"{start}down_proj": down}
    save_file({name: np.ascontiguousarray(weights) for name, weights in fused.items()}, tmp_path / "model.safetensors")
    metadata, tensors = open_model(tmp_path)
    assert metadata.values == values and fused["model.layers.0.mlp.experts.gate_up_proj"].shape == (4, 32, 48)
    assert {tensor.name for tensor in tensors} == set(upright)
    for tensor in tensors:
        assert np.array_equal(to_float32(tensor), upright[tensor.name]), tensor.name


def test_qwen3_moe(tmp_path: Path) -> None:
    values, found, weights = saved(tmp_path, "Qwen3Moe", "Qwen3MoeConfig", norm_topk_prob=True, **EXPERTS)
    assert values["general.architecture"] == "qwen3moe"
    sizes = [values[f"qwen3moe.expert_{key}"] for key in ("count", "used_count", "feed_forward_length")]
    assert sizes == [4, 2, 24]
    check_experts(found, weights)
    assert (found["blk.1.ffn_norm.weight"] == weights["layers.1.post_attention_layernorm.weight"]).all()


def check_experts(found: dict[str, Any], weights: dict[str, Any]) -> None:
    fused = weights["layers.1.mlp.experts.gate_up_proj"]  # [experts, 2 * ffn, width]
    assert found["blk.1.ffn_gate_exps.weight"].shape == (4 * 24, 32)
    assert (found["blk.1.ffn_gate_exps.weight"].reshape(4, 24, 32) == fused[:, :24]).all()
    assert (found["blk.1.ffn_up_exps.weight"].reshape(4, 24, 32) == fused[:, 24:]).all()
    down = weights["layers.1.mlp.experts.down_proj"]  # [experts, width, ffn]
    assert (found["blk.1.ffn_down_exps.weight"].reshape(4, 32, 24) == down).all()
    assert (found["blk.1.ffn_gate_inp.weight"] == weights["layers.1.mlp.gate.weight"]).all()


def test_gemma3(tmp_path: Path) -> None:
    values, found, weights = saved(tmp_path, "Gemma3", "Gemma3TextConfig", intermediate_size=48, sliding_window=8)
    assert values["gemma3.attention.sliding_window"] == 8
    assert (values["gemma3.rope.freq_base"], values["gemma3.rope.freq_base_swa"]) == (1e6, 1e4)
    assert values["gemma3.attention.scale"] == 256**-0.5
    names = {
        "attn_norm": "input_layernorm",
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_feedforward_layernorm",
        "post_ffw_norm": "post_feedforward_layernorm",
        "attn_q_norm": "self_attn.q_norm",
    }
    for name, stored in names.items():
        assert (found[f"blk.0.{name}.weight"] == weights[f"layers.0.{stored}.weight"] + 1).all()
    assert (found["output_norm.weight"] == weights["norm.weight"] + 1).all() and "output.weight" not in found


def check_recurrent_values(values: dict[str, Any], architecture: str) -> None:
    sizes = ("conv_kernel", "state_size", "group_count", "time_step_rank", "inner_size")
    assert [values[f"{architecture}.ssm.{size}"] for size in sizes] == [4, KEY_SIZE, KEY_HEADS, VALUE_HEADS, VALUES]
    assert values[f"{architecture}.full_attention_interval"] == 2
    assert values[f"{architecture}.rope.dimension_count"] == 4


@pytest.mark.parametrize("experts", [False, True])
def test_qwen35_has_tiled_value_heads(tmp_path: Path, experts: bool) -> None:
    family, architecture = ("Qwen3_5Moe", "qwen35moe") if experts else ("Qwen3_5", "qwen35")
    options = SHARED if experts else {"intermediate_size": 48}
    values, found, weights = saved(tmp_path, family, f"{family}TextConfig", **RECURRENT, **options)
    check_recurrent_values(values, architecture)
    if experts:
        check_experts(found, weights)
        assert values["qwen35moe.expert_shared_feed_forward_length"] == 20
        assert found["blk.0.ffn_gate_inp_shexp.weight"].shape == (1, 32)
    stored = {name[len(LAYER) :]: value for name, value in weights.items() if name.startswith(LAYER)}
    for tile in range(
        VALUE_HEADS
    ):  # value head `tile` reads key head tile % KEY_HEADS, which in the folder has 3 in a row
        group = tile % KEY_HEADS * (VALUE_HEADS // KEY_HEADS) + tile // KEY_HEADS
        here, there = (
            slice(tile * VALUE_SIZE, (tile + 1) * VALUE_SIZE),
            slice(group * VALUE_SIZE, (group + 1) * VALUE_SIZE),
        )
        qkv = found["blk.0.attn_qkv.weight"][2 * KEYS :], stored["in_proj_qkv.weight"][2 * KEYS :]
        convolution = found["blk.0.ssm_conv1d.weight"][2 * KEYS :], stored["conv1d.weight"][2 * KEYS :, 0]
        assert (qkv[0][here] == qkv[1][there]).all() and (convolution[0][here] == convolution[1][there]).all()
        assert (found["blk.0.attn_gate.weight"][here] == stored["in_proj_z.weight"][there]).all()
        assert (found["blk.0.ssm_out.weight"][:, here] == stored["out_proj.weight"][:, there]).all()
        assert (found["blk.0.ssm_beta.weight"][tile] == stored["in_proj_b.weight"][group]).all()
        assert (found["blk.0.ssm_alpha.weight"][tile] == stored["in_proj_a.weight"][group]).all()
        assert found["blk.0.ssm_dt.bias"][0, tile] == stored["dt_bias"][group]
        assert np.isclose(found["blk.0.ssm_a"][0, tile], -np.exp(stored["A_log"][group]), rtol=1e-6)
    assert (found["blk.0.attn_qkv.weight"][: 2 * KEYS] == stored["in_proj_qkv.weight"][: 2 * KEYS]).all()
    assert (found["blk.0.ssm_norm.weight"][0] == stored["norm.weight"]).all()
    after = weights["layers.0.post_attention_layernorm.weight"]
    assert (found["blk.0.post_attention_norm.weight"][0] == after + 1).all()
    assert (found["blk.1.attn_q.weight"] == weights["layers.1.self_attn.q_proj.weight"]).all()


def test_qwen3_next_is_taken_apart(tmp_path: Path) -> None:
    values, found, weights = saved(tmp_path, "Qwen3Next", "Qwen3NextConfig", **RECURRENT, **SHARED)
    check_recurrent_values(values, "qwen3next")
    check_experts(found, weights)
    stored = {name[len(LAYER) :]: value for name, value in weights.items() if name.startswith(LAYER)}
    share = VALUES // KEY_HEADS
    for head, block in enumerate(np.split(stored["in_proj_qkvz.weight"], KEY_HEADS)):
        query, key, value, gate = np.split(block, np.cumsum([KEY_SIZE, KEY_SIZE, share]))
        queries, keys, mixed = np.split(found["blk.0.attn_qkv.weight"], [KEYS, 2 * KEYS])
        assert (queries[head * KEY_SIZE :][:KEY_SIZE] == query).all() and (
            keys[head * KEY_SIZE :][:KEY_SIZE] == key
        ).all()
        assert (mixed[head * share :][:share] == value).all()
        assert (found["blk.0.attn_gate.weight"][head * share :][:share] == gate).all()
    for head, block in enumerate(np.split(stored["in_proj_ba.weight"], KEY_HEADS)):
        beta, alpha = np.split(block, 2)
        assert (found["blk.0.ssm_beta.weight"][3 * head :][:3] == beta).all()
        assert (found["blk.0.ssm_alpha.weight"][3 * head :][:3] == alpha).all()
    assert (found["blk.0.ssm_conv1d.weight"] == stored["conv1d.weight"][:, 0]).all()
    assert (found["blk.0.ssm_out.weight"] == stored["out_proj.weight"]).all()


def test_a_model_that_sees_gives_its_language_part(tmp_path: Path) -> None:
    values, found, _ = saved(tmp_path / "text", "Gemma3", "Gemma3TextConfig", intermediate_size=48)
    from safetensors.numpy import load_file, save_file

    stored = load_file(tmp_path / "text" / "model.safetensors")
    inner = json.loads((tmp_path / "text" / "config.json").read_text())
    (tmp_path / "seeing").mkdir()
    (tmp_path / "seeing" / "config.json").write_text(json.dumps({"model_type": "gemma3", "text_config": inner}))
    extra = {"vision_tower.a.weight": np.ones(3), "multi_modal_projector.b": np.ones(3)}
    inside = {f"language_model.{name}": weights for name, weights in stored.items()}
    save_file({**inside, **extra}, tmp_path / "seeing" / "model.safetensors")
    metadata, tensors = open_model(tmp_path / "seeing")
    assert metadata.values == values and {tensor.name for tensor in tensors} == set(found)
