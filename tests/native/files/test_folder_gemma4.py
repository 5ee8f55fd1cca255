"""Folders of Gemma 4, with the names and keys that published ones have."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paceline.native.model import read_shape
from paceline.native.weights import open_model, read_metadata

from .folders import refusal, write_folder

WIDTH, HEADS, KV_HEADS, SIZE, FULL_SIZE, FFN, INPUTS, LAYERS, VOCAB = 64, 4, 2, 16, 32, 96, 32, 4, 131
EXPERTS, EXPERT_FFN = 5, 24
KINDS = ["sliding_attention", "full_attention"] * 2
CONFIG: dict[str, Any] = {
    "model_type": "gemma4_text",
    "hidden_size": WIDTH,
    "intermediate_size": FFN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": SIZE,
    "global_head_dim": FULL_SIZE,
    "layer_types": KINDS,
    "sliding_window": 24,
    "vocab_size": VOCAB,
    "max_position_embeddings": 512,
    "hidden_size_per_layer_input": 0,
    "final_logit_softcapping": 30.0,
    "tie_word_embeddings": True,
    "use_bidirectional_attention": "vision",
    "eos_token_id": [1, 106],
}
EXPERT_KEYS = {
    "enable_moe_block": True,
    "num_experts": EXPERTS,
    "top_k_experts": 2,
    "moe_intermediate_size": EXPERT_FFN,
    "attention_k_eq_v": True,
    "num_global_key_value_heads": 1,
}
BORROWING = {"num_kv_shared_layers": 2, "use_double_wide_mlp": True, "hidden_size_per_layer_input": INPUTS}
PREFIX = "model.language_model."


def matrix(*shape: int) -> Any:
    return np.random.RandomState(sum(shape)).standard_normal(shape).astype(np.float32) * np.float32(0.1)


def tensors(experts: bool = False, borrowing: int = 0, inputs: int = 0) -> dict[str, Any]:
    """As published: layers that borrow keep keys and values too, which are not used."""
    found = {"embed_tokens.weight": matrix(VOCAB, WIDTH), "norm.weight": matrix(WIDTH)}
    if inputs:
        found["embed_tokens_per_layer.weight"] = matrix(VOCAB, LAYERS * inputs)
        found["per_layer_model_projection.weight"] = matrix(LAYERS * inputs, WIDTH)
        found["per_layer_projection_norm.weight"] = matrix(inputs)
    for layer, kind in enumerate(KINDS):
        full = kind == "full_attention"
        size, kv_heads = FULL_SIZE if full else SIZE, 1 if full and experts else KV_HEADS
        ffn = FFN * (2 if layer >= LAYERS - borrowing else 1)
        parts = {
            "self_attn.q_proj.weight": matrix(HEADS * size, WIDTH),
            "self_attn.k_proj.weight": matrix(kv_heads * size, WIDTH),
            "self_attn.o_proj.weight": matrix(WIDTH, HEADS * size),
            "self_attn.q_norm.weight": matrix(size),
            "self_attn.k_norm.weight": matrix(size),
            "mlp.gate_proj.weight": matrix(ffn, WIDTH),
            "mlp.up_proj.weight": matrix(ffn, WIDTH),
            "mlp.down_proj.weight": matrix(WIDTH, ffn),
            "layer_scalar": matrix(1),
        }
        norms = ["input", "post_attention", "pre_feedforward", "post_feedforward"]
        parts |= {f"{name}_layernorm.weight": matrix(WIDTH) for name in norms}
        if not (full and experts):
            parts["self_attn.v_proj.weight"] = matrix(kv_heads * size, WIDTH)
        if inputs:
            parts["per_layer_input_gate.weight"] = matrix(inputs, WIDTH)
            parts["per_layer_projection.weight"] = matrix(WIDTH, inputs)
            parts["post_per_layer_input_norm.weight"] = matrix(WIDTH)
        if experts:
            parts["router.proj.weight"] = matrix(EXPERTS, WIDTH)
            parts["router.scale"] = matrix(WIDTH)
            parts["router.per_expert_scale"] = matrix(EXPERTS)
            parts["experts.gate_up_proj"] = matrix(EXPERTS, 2 * EXPERT_FFN, WIDTH)
            parts["experts.down_proj"] = matrix(EXPERTS, WIDTH, EXPERT_FFN)
            for name in ("pre_feedforward_layernorm_2", "post_feedforward_layernorm_1", "post_feedforward_layernorm_2"):
                parts[f"{name}.weight"] = matrix(WIDTH)
        found |= {f"layers.{layer}.{part}": values for part, values in parts.items()}
    return {f"{PREFIX}{name}": values for name, values in found.items()}


def test_the_sizes_of_both_kinds_of_layers_are_read(tmp_path: Path) -> None:
    shape = read_shape(*open_model(write_folder(tmp_path, tensors(), CONFIG)))
    assert shape.kinds == ("sliding", "attention") * 2 and shape.window == 24
    assert shape.heads_of("attention")[1:] == (2, 32, 32, 32) and shape.heads_of("sliding")[1:] == (2, 16, 16, 16)
    assert shape.rope_divisors == (1.0,) * 4 + (pytest.approx(1e30),) * 12
    assert (shape.rope_base, shape.local_rope_base, shape.final_softcap, shape.tied) == (1e6, 1e4, 30.0, True)
    assert not shape.keys_as_values and not shape.experts and not shape.token_inputs


def test_layers_that_borrow_and_inputs_of_tokens(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, tensors(borrowing=2, inputs=INPUTS), CONFIG | BORROWING)
    shape = read_shape(*open_model(folder))
    assert (shape.borrowing_layers, shape.ffn, shape.borrowing_ffn, shape.token_inputs) == (2, FFN, 2 * FFN, INPUTS)


def test_experts(tmp_path: Path) -> None:
    shape = read_shape(*open_model(write_folder(tmp_path, tensors(experts=True), CONFIG | EXPERT_KEYS)))
    assert (shape.experts, shape.experts_used, shape.expert_ffn, shape.shared_ffn) == (EXPERTS, 2, EXPERT_FFN, FFN)
    assert shape.keys_as_values and shape.heads_of("attention").kv_heads == 1


def test_the_later_form_of_the_sizes_says_the_same(tmp_path: Path) -> None:
    later = {key: value for key, value in CONFIG.items() if key != "global_head_dim"} | EXPERT_KEYS
    del later["num_global_key_value_heads"]
    own = {"head_dim": FULL_SIZE, "num_key_value_heads": 1}
    later["per_layer_config"] = {"01": own, "3": own}
    folders = [tmp_path / "published", tmp_path / "later"]
    shapes = [
        read_shape(*open_model(write_folder(folder, tensors(experts=True), config)))
        for folder, config in zip(folders, (CONFIG | EXPERT_KEYS, later), strict=True)
    ]
    assert shapes[0] == shapes[1]


def test_what_sees_and_hears_is_left_out(tmp_path: Path) -> None:
    more = {
        f"model.{name}.weight": matrix(3, 5)
        for name in ("vision_tower.layer", "embed_vision.projection", "audio_tower.layer", "embed_audio.projection")
    }
    config = {"model_type": "gemma4", "text_config": CONFIG, "eos_token_id": [1, 106, 50], "vision_config": {}}
    metadata, found = open_model(write_folder(tmp_path, tensors() | more, config))
    assert read_shape(metadata, found).layers == LAYERS
    assert set(metadata.eos) == {1, 106, 50}


def test_what_config_json_does_not_say(tmp_path: Path) -> None:
    """As transformers fills it in; the last layer has full attention whatever it says."""
    (tmp_path / "config.json").write_text('{"model_type": "gemma4_text", "num_hidden_layers": 7}')
    values = read_metadata(tmp_path).values
    assert values["gemma4.attention.sliding_window_pattern"] == [True] * 5 + [False] * 2
    assert values["gemma4.attention.head_count_kv"] == [4] * 7
    expected = {
        "attention.key_length": 512,
        "attention.key_length_swa": 256,
        "embedding_length_per_layer_input": 256,
        "attention.sliding_window": 512,
        "rope.freq_base": 1e6,
        "rope.freq_base_swa": 1e4,
        "rope.dimension_count": 512,
    }
    assert expected == {key: values[f"gemma4.{key}"] for key in expected}
    (tmp_path / "config.json").write_text('{"model_type": "gemma4_unified"}')
    unified = read_metadata(tmp_path).values
    assert unified["gemma4.context_length"] == 262144 and unified["gemma4.embedding_length_per_layer_input"] == 0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"layer_types": KINDS[:3]}, "'layer_types' of config.json is .* expected 4 of 'full_attention'"),
        ({"layer_types": [["full_attention"], {}, None, 1]}, "'layer_types' of config.json is .* expected 4 of"),
        ({"num_hidden_layers": 2**24}, "'num_hidden_layers' of config.json is 16777216, expected at most 65536"),
        ({"layer_types": ["linear_attention"] * 4}, "'layer_types' of config.json is .* expected 4 of"),
        ({"per_layer_config": {"0": {"head_dim": 32}}}, "expected sizes of all layers with full attention"),
        ({"per_layer_config": []}, "expected sizes of all layers with full attention"),
        (
            {"per_layer_config": {"1": {"head_dim": 32}, "3": {"head_dim": 16}}},
            "expected the same sizes for all of its",
        ),
        ({"per_layer_config": {"1": 3, "3": 3}}, "expected the same sizes for all of its layers"),
        ({"global_head_dim": 0}, "'global_head_dim' of config.json is 0, expected a whole number above 0"),
        ({"use_bidirectional_attention": "all"}, "'use_bidirectional_attention' of config.json is 'all', supported"),
        ({"attention_bias": True}, "'attention_bias' of config.json is True, supported: False"),
        ({"attn_logit_softcapping": 50.0}, "'attn_logit_softcapping' of config.json is 50.0"),
        ({"hidden_activation": "silu"}, "'hidden_activation' of config.json is 'silu', supported: 'gelu_pytorch_tanh'"),
        ({"num_kv_shared_layers": -1}, "'num_kv_shared_layers' of config.json is -1, expected a whole number"),
        ({"use_double_wide_mlp": 2}, "'use_double_wide_mlp' of config.json is 2, expected true or false"),
        ({"enable_moe_block": True}, "'num_experts' of config.json is None, expected a whole number above 0"),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 2.0}}},
            "its RoPE scaling is 'yarn', supported: 'default', 'proportional'",
        ),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    text = refusal(write_folder(tmp_path, tensors(), CONFIG | changes))
    assert re.search(says, text), text


@pytest.mark.parametrize(
    ("settings", "turning"),
    [
        ({"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 1e6}, [1.0] * 8 + [1e30] * 8),
        ({"rope_type": "proportional", "factor": 8.0, "partial_rotary_factor": 1.0, "rope_theta": 1e6}, [8.0] * 16),
        ({"rope_type": "default", "rope_theta": 1e6}, [1.0] * 16),
    ],
)
def test_the_share_of_a_head_that_turns(tmp_path: Path, settings: dict[str, Any], turning: list[float]) -> None:
    both = {"full_attention": settings, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
    _, found = open_model(write_folder(tmp_path, tensors(), CONFIG | {"rope_parameters": both}))
    [divisors] = [tensor for tensor in found if tensor.name == "rope_freqs.weight"]
    assert divisors.data.view(np.float32)[0].tolist() == pytest.approx(turning)
