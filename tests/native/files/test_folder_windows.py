"""Folders of families with windows, and which of their layers rotate."""

from typing import Any

import pytest
from paceline.native.files.folder_config import Config

from .folders import LLAMA

SILENT = {key: value for key, value in LLAMA.items() if key not in ("rope_theta", "rms_norm_eps")}
FULL, SLIDING = "full_attention", "sliding_attention"
BY_KIND = {FULL: {"rope_type": "default", "rope_theta": 5e5}, SLIDING: {"rope_type": "default", "rope_theta": 1e4}}


def values_of(kind: str, **more: Any) -> dict[str, Any]:
    return Config(SILENT | {"model_type": kind, "num_hidden_layers": 5} | more).gguf_values()


def own(architecture: str, values: dict[str, Any]) -> dict[str, Any]:
    return {key.removeprefix(f"{architecture}."): value for key, value in values.items()}


def test_layers_that_a_config_does_not_list_are_as_in_transformers() -> None:
    granite = own("granite_swa", values_of("granite_swa"))
    assert granite["attention.sliding_window_pattern"] == [False, True, True, True, False]
    assert granite["attention.sliding_window"] == 128 and "attention.rope_pattern" not in granite
    muse = own("muse-glimmer", values_of("muse_glimmer_text", num_hidden_layers=6))
    assert muse["attention.sliding_window_pattern"] == [True, False, True, True, True, False]
    assert (muse["attention.sliding_window"], muse["logit_scale"], muse["final_logit_softcapping"]) == (
        2048,
        0.19611613513818404,
        20.0,
    )
    for kind in ("mellum", "laguna"):  # all layers see everything
        values = own(kind, values_of(kind, num_attention_heads=48, head_dim=8))
        assert not any("sliding" in key or "swa" in key for key in values)
    exaone = own("exaone-moe", values_of("exaone_moe"))
    assert exaone["attention.sliding_window"] == 4096 and "attention.sliding_window_pattern" not in exaone
    assert (exaone["leading_dense_block_count"], exaone["expert_weights_scale"]) == (1, 2.5)


@pytest.mark.parametrize(("kind", "kv_heads", "epsilon"), [("granite_swa", 4, 1e-5), ("granitemoe_swa", 8, 1e-6)])
def test_a_granite_with_experts_has_defaults_of_its_own(kind: str, kv_heads: int, epsilon: float) -> None:
    sizes = {"model_type": kind, "num_attention_heads": 8, "num_local_experts": 4, "num_experts_per_tok": 2}
    silent = {key: value for key, value in SILENT.items() if key not in ("num_key_value_heads", "tie_word_embeddings")}
    config = Config(silent | sizes)
    values = own("granite_swa", config.gguf_values())
    assert values["attention.head_count_kv"] == kv_heads
    assert values["attention.layer_norm_rms_epsilon"] == epsilon


def test_each_kind_of_layer_of_a_laguna_has_heads_and_a_rotation_of_its_own() -> None:
    kinds = [FULL, SLIDING, SLIDING, SLIDING, FULL]
    rope = {"rope_parameters": {FULL: BY_KIND[FULL] | {"partial_rotary_factor": 0.5}, SLIDING: BY_KIND[SLIDING]}}
    sizes = {"num_attention_heads_per_layer": [4, 8, 8, 8, 4], "head_dim": 16, "sliding_window": 9}
    mixed = {"mlp_layer_types": ["dense", "dense", "sparse", "sparse", "sparse"], "moe_routed_scaling_factor": 1.5}
    values = own("laguna", values_of("laguna", layer_types=kinds, **rope, **sizes, **mixed))
    assert values["attention.head_count"] == [4, 8, 8, 8, 4]
    assert values["attention.sliding_window_pattern"] == [False, True, True, True, False]
    assert (values["rope.dimension_count"], values["rope.dimension_count_swa"]) == (8, 16)
    assert (values["rope.freq_base"], values["rope.freq_base_swa"]) == (5e5, 1e4)
    assert (values["leading_dense_block_count"], values["expert_weights_scale"]) == (2, 1.5)
    short = {"rope_parameters": {FULL: BY_KIND[FULL] | {"partial_rotary_factor": 1.0}, SLIDING: partly(0.5)[SLIDING]}}
    values = own("laguna", values_of("laguna", layer_types=kinds, **short, **sizes, **mixed))
    assert (values["rope.dimension_count"], values["rope.dimension_count_swa"]) == (16, 8)
    with pytest.raises(ValueError, match=r"'num_attention_heads_per_layer' of config.json is .*, expected a list of 5"):
        values_of("laguna", **sizes | {"num_attention_heads_per_layer": [4, 8]})
    with pytest.raises(ValueError, match=r"'num_attention_heads_per_layer' of config.json is 0, expected whole "):
        values_of("laguna", **sizes | {"num_attention_heads_per_layer": [4, 8, 8, 8, 0]})


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("laguna", "gating", "per-element"),
        ("laguna", "moe_router_logit_softcapping", 30.0),
        ("laguna", "moe_apply_router_weight_on_input", True),
        ("mellum", "attention_bias", True),
        ("muse_glimmer_text", "post_norm_eps", 1e-5),
        ("muse_glimmer_text", "hidden_activation", "gelu"),
        ("exaone_moe", "scoring_func", "softmax"),
        ("granite_swa", "attention_bias", True),
        ("apertus", "hidden_act", "silu"),
        ("mellum", "partial_rotary_factor", 0.5),
    ],
)
def test_what_they_are_not_computed_with(kind: str, key: str, value: Any) -> None:
    given = {key: value} if key != "partial_rotary_factor" else {"rope_parameters": partly(value)}
    with pytest.raises(ValueError, match=f"the key {key!r} of config.json is {value!r}, supported: "):
        values_of(kind, head_dim=8, **given)


def partly(share: float) -> dict[str, Any]:
    return BY_KIND | {SLIDING: BY_KIND[SLIDING] | {"partial_rotary_factor": share}}


def test_layers_of_a_mellum_without_experts_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the key 'first_k_dense_replace' of config.json is 1, supported: 0"):
        values_of("mellum", head_dim=8, mlp_layer_types=["dense", *["sparse"] * 4])


def test_a_base_for_each_layer_says_which_rotate() -> None:
    values = own("granite_swa", values_of("granite_swa", layer_rope_theta=[0, 1e5, 1e5, 1e5, 0]))
    assert values["attention.rope_pattern"] == [False, True, True, True, False] and values["rope.freq_base"] == 1e5
    old = own("granite_swa", values_of("granite_swa", no_rope_layers=[0, 1, 1, 1, 0], rope_theta=2e4))
    assert old["attention.rope_pattern"] == [False, True, True, True, False] and old["rope.freq_base"] == 2e4
    settings = {"rope_parameters": {"rope_type": "default", "rope_theta": 7e5}}
    muse = own("muse-glimmer", values_of("muse_glimmer_text", layer_rope_theta=[0, 5e5, 5e5, 5e5, 0], **settings))
    assert muse["rope.freq_base"] == 5e5
    still = own("granite_swa", values_of("granite_swa", layer_rope_theta=[0] * 5))
    assert still["attention.rope_pattern"] == [False] * 5


@pytest.mark.parametrize(
    ("kind", "key", "value", "says"),
    [
        ("granite_swa", "layer_rope_theta", [0, 1e4, 1e5, 1e5, 0], r"has \[10000.0, 100000.0\], supported: 0 and one"),
        ("granite_swa", "layer_rope_theta", "1e4", "expected a list of numbers"),
        ("granite_swa", "layer_rope_theta", [0, -1.0, 1e5, 1e5, 0], "expected a list of numbers"),
        ("granite_swa", "no_rope_layers", [1, 1], "expected a list of 5 times 0 or 1"),
        ("granite_swa", "no_rope_layers", [2, 1, 1, 1, 1], "expected a list of 5 times 0 or 1"),
        ("muse_glimmer_text", "layer_rope_theta", [1e4] * 5, r"layers that rotate are \[1, 1, 1, 1, 1\], supported: "),
        ("mellum", "no_rope_layers", [0, 1, 1, 1, 1], r"layers that rotate are \[0, 1, 1, 1, 1\], supported: "),
    ],
)
def test_rotations_that_no_key_of_gguf_can_say(kind: str, key: str, value: Any, says: str) -> None:
    kinds = {"layer_types": [FULL, SLIDING, SLIDING, SLIDING, FULL]}
    with pytest.raises(ValueError, match=says):
        values_of(kind, head_dim=8, **{key: value}, **kinds)


@pytest.mark.parametrize("kind", ["cohere2", "muse_glimmer_text", "granite_swa", "exaone_moe"])
def test_a_window_that_is_null_is_named_as_the_folder_names_it(kind: str) -> None:
    with pytest.raises(ValueError, match=r"the key 'sliding_window' of config.json is missing or null, expected a num"):
        values_of(kind, sliding_window=None)
