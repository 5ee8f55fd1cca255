"""config.json of a Hugging Face folder: what is passed on, and the one sentence about what is not."""

import json
from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paceline.native.files.folder_config import Config
from paceline.native.files.folder_families import ARCHITECTURES
from paceline.native.files.folder_rope import read_rope
from paceline.native.model import read_shape
from paceline.native.weights import ModelUnreadable, open_model, read_metadata

from .folders import LLAMA, changed, llama_tensors, refusal, write_folder

YARN = {"type": "yarn", "factor": 4}
LONG = {"type": "longrope", "long_factor": [2.0] * 8, "short_factor": [1.0] * 8}
GEMMA = {"model_type": "gemma3_text", "hidden_activation": None}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "tiny", llama_tensors(), LLAMA)


def test_a_window_is_passed_on_where_it_hides_something(folder: Path) -> None:
    key = "llama.attention.sliding_window"
    assert read_metadata(changed(folder, model_type="mistral", sliding_window=64)).values[key] == 64
    assert key not in read_metadata(changed(folder, model_type="mistral", sliding_window=512)).values
    assert key not in read_metadata(changed(folder, model_type="mistral", sliding_window=None)).values
    qwen = read_metadata(changed(folder, model_type="qwen2", sliding_window=64, use_sliding_window=False))
    assert "qwen2.attention.sliding_window" not in qwen.values


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


def test_layers_that_rotate_as_the_family_does(folder: Path) -> None:
    open_model(changed(folder, no_rope_layers=[1, 1]))
    assert Config({**LLAMA, "model_type": "smollm3", "no_rope_layers": [1, 1, 1, 0] * 2}).gguf_values()


SEVEN = {"num_hidden_layers": 7, "num_experts_per_tok": 1, "moe_intermediate_size": 8, "num_experts": 2}


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


@pytest.mark.parametrize(("kind", "window"), [("llama", 9), ("mistral", None), ("mistral", 5000), ("qwen3", 9)])
def test_a_window_that_does_not_count(folder: Path, kind: str, window: int | None) -> None:
    metadata = read_metadata(changed(folder, **SEVEN, model_type=kind, sliding_window=window))
    assert f"{metadata.architecture}.attention.sliding_window" not in metadata.values


@pytest.mark.parametrize(("first_full", "window"), [(0, 9), (6, 9), (7, None), (None, None)])
@pytest.mark.parametrize("kind", ["qwen2", "qwen3"])
def test_the_first_layers_of_a_qwen_have_no_window(
    folder: Path, kind: str, first_full: int | None, window: int | None
) -> None:
    sliding = {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": first_full}
    metadata = read_metadata(changed(folder, **SEVEN, **sliding, model_type=kind))
    assert metadata.values.get(f"{kind}.attention.sliding_window") == window


def test_a_window_that_hides_nothing_makes_layers_alike(folder: Path) -> None:
    kinds = ["full_attention", *["sliding_attention"] * 6]
    for more in ({"model_type": "mistral"}, {"model_type": "qwen2", "use_sliding_window": True}):
        metadata = read_metadata(changed(folder, **SEVEN, **more, sliding_window=512, layer_types=kinds))
        assert f"{metadata.architecture}.attention.sliding_window" not in metadata.values


@pytest.mark.parametrize("inner", [True, False])
@pytest.mark.parametrize("outer", [True, False])
def test_the_outer_word_on_the_head_counts(inner: bool, outer: bool) -> None:
    text = LLAMA | {"tie_word_embeddings": inner}
    assert Config({"model_type": "mistral3", "text_config": text, "tie_word_embeddings": outer}).tied is outer
    assert Config({"model_type": "mistral3", "text_config": text}).tied is inner


@pytest.mark.parametrize(("inside", "outside", "trained"), [(32, None, 32), (None, 64, 64), (None, None, 128)])
def test_the_context_that_scaling_begins_with(inside: int | None, outside: int | None, trained: int) -> None:
    three = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    given = {} if inside is None else {"original_max_position_embeddings": inside}
    values = {"rope_scaling": three | given, "max_position_embeddings": 128}
    if outside is not None:
        values["original_max_position_embeddings"] = outside
    assert read_rope(values, "llama").trained == trained


@pytest.mark.parametrize(
    ("more", "amplitude"),
    [
        ({}, 1 + 0.1 * log(4)),
        ({"mscale": 2.0}, 1 + 0.1 * log(4)),
        ({"mscale": 2.0, "mscale_all_dim": 0.5}, (1 + 0.2 * log(4)) / (1 + 0.05 * log(4))),
        ({"mscale": 2.0, "mscale_all_dim": 0.5, "attention_factor": 0.9}, 0.9),
    ],
)
def test_yarn_gives_a_longer_context(folder: Path, more: dict[str, float], amplitude: float) -> None:
    metadata = read_metadata(changed(folder, rope_scaling=YARN | more | {"original_max_position_embeddings": 256}))
    values = {key.removeprefix("llama.rope.scaling."): value for key, value in metadata.values.items()}
    assert (values["type"], values["factor"], values["original_context_length"]) == ("yarn", 4, 256)
    assert metadata.values["paceline.rope_amplitude"] == pytest.approx(amplitude)
    assert metadata.values["llama.context_length"] == 1024


@pytest.mark.parametrize(
    ("more", "trained", "amplitude"),
    [
        ({}, 64, sqrt(1 + log(8) / log(64))),
        ({"factor": 32.0}, 64, sqrt(1 + log(32) / log(64))),
        ({"attention_factor": 1.5}, 64, 1.5),
        ({}, 512, 1.0),
        ({}, 1, 1.0),
    ],
)
def test_longrope_is_two_tensors(folder: Path, more: dict[str, float], trained: int, amplitude: float) -> None:
    changes = {"rope_scaling": LONG | more, "original_max_position_embeddings": trained}
    metadata, tensors = open_model(changed(folder, **changes))
    shape = read_shape(metadata, tensors)
    assert (shape.rope_divisors, shape.short_divisors) == ((2.0,) * 8, (1.0,) * 8)
    assert (shape.context, shape.short_context) == (512, trained)
    assert shape.rope_amplitude == pytest.approx(amplitude)


def test_phi_3_has_called_longrope_by_other_names() -> None:
    for name in ("su", "yarn"):
        assert Config(LLAMA | {"model_type": "phi3", "rope_scaling": LONG | {"type": name}}).rope_divisors()


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


JUNK = st.sampled_from([None, True, -1, 0, 3, 1 << 40, 10**400, 0.5, float("nan"), "x", [], [1], {}, {"rope_type": []}])
MORE = ("head_dim", "layer_types", "rope_parameters", "text_config", "sliding_window", "full_attention_interval")


@settings(max_examples=300, deadline=None)
@given(
    kind=st.sampled_from(list(ARCHITECTURES)),
    junk=st.dictionaries(st.sampled_from([*LLAMA, *MORE]), JUNK, min_size=1, max_size=3),
)
def test_any_config_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, kind: str, junk: dict[str, Any]
) -> None:
    sizes = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "norm_topk_prob": True}
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
