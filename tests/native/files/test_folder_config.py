"""config.json of a Hugging Face folder: what is passed on, and the one sentence about what is not."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paceline.native.files.folder_config import Config
from paceline.native.files.folder_families import ARCHITECTURES
from paceline.native.weights import ModelUnreadable, open_model, read_metadata

from .folders import LLAMA, LONG, SEVEN, YARN, changed, llama_tensors, refusal, write_folder

GEMMA = {"model_type": "gemma3_text", "hidden_activation": None}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model_type": "mamba"}, "its model_type is 'mamba', supported: llama, mistral, mixtral, "),
        ({"model_type": None}, "its model_type is None, supported: llama"),
        ({"hidden_size": "many"}, "the key 'hidden_size' of config.json is 'many', expected a whole number above 0"),
        ({"vocab_size": None}, "the key 'vocab_size' of config.json is None"),
        ({"rope_theta": -1}, "the key 'rope_theta' of config.json is -1, expected a number above 0"),
        ({"rms_norm_eps": True}, "the key 'rms_norm_eps' of config.json is True"),
        ({"hidden_act": "relu"}, "the key 'hidden_act' of config.json is 'relu', supported: 'silu'"),
        ({"rope_scaling": {"type": "dynamic", "factor": 4}}, "its RoPE scaling is 'dynamic', supported: 'default', '"),
        ({"rope_scaling": YARN | {"truncate": 0}}, "the key 'truncate' of config.json is 0, expected true or false"),
        ({"model_type": "gpt_oss", "swiglu_limit": 5.0}, "the key 'swiglu_limit' of config.json is 5.0, supported: 7"),
        (
            {"rope_scaling": YARN | {"beta_fast": -1}},
            "the key 'beta_fast' of config.json is -1, expected a number above",
        ),
        ({"rope_scaling": YARN | {"attention_factor": 0.0}}, "the key 'attention_factor' of config.json is 0.0, expec"),
        (
            {"rope_parameters": {"sliding_attention": {}}},
            "the RoPE settings of config.json are for kinds of layers, exp",
        ),
        (
            {"rope_parameters": {"full_attention": {}}},
            "the RoPE settings of config.json are for kinds of layers, expec",
        ),
        (
            GEMMA | {"rope_parameters": {"rope_type": "linear", "factor": 2.0}},
            "the key 'rope_parameters' of config.json",
        ),
        ({"model_type": "qwen2_moe", "qkv_bias": False}, "the key 'qkv_bias' of config.json is False, supported: True"),
        (
            {"hidden_act": "relu", "hidden_activation": "silu"},
            "the key 'hidden_act' of config.json is 'relu', supported",
        ),
        ({"rope_scaling": LONG | {"long_factor": None}}, "the key 'long_factor' of config.json is None, expected a li"),
        ({"rope_scaling": LONG | {"short_factor": [0]}}, "the key 'short_factor' of config.json is 0, expected a numb"),
        ({"rope_scaling": LONG | {"short_factor": [1]}}, "the key 'short_factor' of config.json has 1 numbers, expect"),
        ({"rope_scaling": LONG | {"type": "su"}}, "its RoPE scaling is 'su', supported: 'default', 'linear', 'llama3"),
        ({"rope_scaling": {"rope_type": "linear"}}, "the key 'factor' of config.json is None"),
        ({"rope_scaling": [1]}, "the RoPE settings of config.json are [1], expected an object"),
        ({"eos_token_id": "end"}, "the key 'eos_token_id' is 'end', expected a token id or a list of them"),
        ({"final_logit_softcapping": 30.0}, "the key 'final_logit_softcapping' of config.json is 30.0, supported: n"),
        (
            {"num_hidden_layers": 1},
            "the tensor 'model.layers.1.input_layernorm.weight' is not part of a supported llama",
        ),
        (
            {"model_type": "qwen3_5_moe", "norm_topk_prob": False},
            "the key 'norm_topk_prob' of config.json is False, supported: T",
        ),
        (
            {"no_rope_layers": [1, 0]},
            "the key 'no_rope_layers' of config.json is [1, 0], supported: a 1 for every layer",
        ),
        (
            {"model_type": "smollm3", "no_rope_layers": [1, 0]},
            "the key 'no_rope_layers' of config.json is [1, 0], supported: a 0 for every 4 layers, and 1 for the oth",
        ),
        ({"model_type": "smollm3", "no_rope_layers": 4}, "the key 'no_rope_layers' of config.json is 4, supported: a "),
        ({"quantization_config": {"quant_method": "bitnet"}}, "its quantization_config says 'bitnet'"),
    ],
)
def test_a_config_that_cannot_be_followed(folder: Path, changes: dict[str, Any], reason: str) -> None:
    assert refusal(changed(folder, **changes)).startswith(reason)


@pytest.mark.parametrize(
    ("changes", "key", "value"),
    [
        (GEMMA | {"attn_logit_softcapping": 50, "final_logit_softcapping": None}, "attn_logit_softcapping", 50.0),
        (GEMMA | {"final_logit_softcapping": 30.0}, "final_logit_softcapping", 30.0),
        (GEMMA | {"sliding_window_pattern": 2}, "attention.sliding_window_pattern", 2),
        (GEMMA | {"layer_types": ["full_attention"] * 7}, "attention.sliding_window_pattern", 1),
        (GEMMA | {"layer_types": ["sliding_attention"] * 7}, "attention.sliding_window_pattern", 8),
        (
            GEMMA | {"layer_types": [*["full_attention"] * 3, *["sliding_attention"] * 4]},
            "attention.sliding_window_pattern",
            [False] * 3 + [True] * 4,
        ),
        ({"model_type": "mistral", "max_position_embeddings": 8192}, "attention.sliding_window", 4096),
        ({"model_type": "mistral", "sliding_window": 9, "use_sliding_window": False}, "attention.sliding_window", 9),
        (
            {"model_type": "mistral", "sliding_window": 9, "layer_types": ["sliding_attention"] * 7},
            "attention.sliding_window",
            9,
        ),
        (
            GEMMA
            | {"rope_local_base_freq": 2e4, "rope_theta": 3e5}
            | {"rope_parameters": {"full_attention": {}, "sliding_attention": {"rope_type": "default"}}},
            "rope.freq_base_swa",
            2e4,
        ),
        (GEMMA | {"rope_theta": None}, "rope.freq_base", 1e6),
        ({"model_type": "qwen3_moe"}, "expert_weights_norm", False),
        ({"model_type": "qwen3_moe", "norm_topk_prob": None}, "expert_weights_norm", False),
        ({"model_type": "qwen3_moe", "norm_topk_prob": True}, "expert_weights_norm", True),
    ],
)
def test_what_a_family_may_vary_is_passed_on(folder: Path, changes: dict[str, Any], key: str, value: Any) -> None:
    metadata = read_metadata(changed(folder, **SEVEN, **changes))
    assert metadata.values[f"{metadata.architecture}.{key}"] == value


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (GEMMA | {"final_logit_softcapping": -1}, "the key 'final_logit_softcapping' of config.json is -1, expected a"),
        (GEMMA | {"sliding_window_pattern": 0}, "the key 'sliding_window_pattern' of config.json is 0, expected a "),
        (GEMMA | {"layer_types": 3}, "the key 'layer_types' of config.json is 3, expected a list of 7"),
        (GEMMA | {"layer_types": ["full_attention"]}, "the key 'layer_types' of config.json is a list of 1, expected "),
        (
            GEMMA | {"layer_types": ["chunked_attention"] * 7},
            "the key 'layer_types' of config.json holds 'chunked_attention', supported: 'full_attention', 'sliding_at",
        ),
        (GEMMA | {"use_bidirectional_attention": True}, "the key 'use_bidirectional_attention' of config.json is True"),
        (
            {"model_type": "mistral", "sliding_window": 9, "layer_types": ["full_attention"] * 7},
            "the key 'layer_types' of config.json has other layers than 'sliding_attention', expected none",
        ),
        (
            {"model_type": "qwen3", "layer_types": ["sliding_attention"] * 7},
            "the key 'layer_types' of config.json has other layers than 'full_attention', expected none",
        ),
        (
            {"rope_parameters": {"rope_type": "default"}, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
            "the keys 'rope_parameters' and 'rope_scaling' of config.json differ, expected one of them",
        ),
        ({"partial_rotary_factor": 0.5}, "the key 'partial_rotary_factor' of config.json is 0.5, supported: 1.0"),
        ({"quantization_config": {"quant_method": "bitnet"}}, "its quantization_config says 'bitnet', whose weights"),
        (
            {"original_max_position_embeddings": 64}
            | {"rope_scaling": {"rope_type": "llama3", "original_max_position_embeddings": 32}},
            "the key 'original_max_position_embeddings' of config.json is 64 and 32",
        ),
        ({"model_type": "qwen3_moe", "norm_topk_prob": "yes"}, "the key 'norm_topk_prob' of config.json is 'yes', exp"),
        ({"model_type": "qwen3_moe", "mlp_only_layers": [0]}, "the key 'mlp_only_layers' of config.json is [0], supp"),
        (
            {
                "model_type": "qwen3_5",
                "layer_types": [f"{kind}_attention" for kind in ["linear", "full", "full", *["linear"] * 4]],
                **{f"linear_{part}": 2 for part in ("num_key_heads", "num_value_heads", "conv_kernel_dim")},
                **{f"linear_{part}_head_dim": 8 for part in ("key", "value")},
            },
            "the key 'layer_types' of config.json has 'full_attention' as layer 2, expected 'linear_attention': ev",
        ),
    ],
)
def test_what_a_family_may_not_vary_is_named(folder: Path, changes: dict[str, Any], reason: str) -> None:
    assert refusal(changed(folder, **SEVEN, **changes)).startswith(reason)


@pytest.mark.parametrize("inner", [True, False])
@pytest.mark.parametrize("outer", [True, False])
def test_the_outer_word_on_the_head_counts(inner: bool, outer: bool) -> None:
    text = LLAMA | {"tie_word_embeddings": inner}
    assert Config({"model_type": "mistral3", "text_config": text, "tie_word_embeddings": outer}).tied is outer
    assert Config({"model_type": "mistral3", "text_config": text}).tied is inner


JUNK = st.sampled_from([None, True, -1, 0, 3, 1 << 40, 10**400, 0.5, float("nan"), "x", [], [1], {}, {"rope_type": []}])
MORE = ("head_dim", "layer_types", "rope_parameters", "text_config", "sliding_window", "full_attention_interval")
ROUTED = ("n_group", "n_shared_experts", "moe_layer_end_index", "num_nextn_predict_layers", "use_qk_norm")


@settings(max_examples=300, deadline=None)
@given(
    kind=st.sampled_from(list(ARCHITECTURES)),
    junk=st.dictionaries(st.sampled_from([*LLAMA, *MORE, *ROUTED]), JUNK, min_size=1, max_size=3),
)
def test_any_config_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, kind: str, junk: dict[str, Any]
) -> None:
    sizes = {
        "num_experts": 4,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 8,
        "norm_topk_prob": True,
    }
    sizes |= {"shared_expert_intermediate_size": 8, "full_attention_interval": 2, "linear_conv_kernel_dim": 4}
    sizes |= {f"linear_{part}_head_dim": 8 for part in ("key", "value")}
    sizes |= {f"linear_num_{part}_heads": 2 for part in ("key", "value")}
    folder = tmp_path_factory.mktemp("junk")
    (folder / "config.json").write_text(json.dumps({**LLAMA, **sizes, "model_type": kind, **junk}))
    write_folder(folder, llama_tensors(), json.loads((folder / "config.json").read_text()))
    for opened in (read_metadata, open_model):
        try:
            opened(folder)
        except ModelUnreadable as problem:
            assert "\n" not in str(problem)
