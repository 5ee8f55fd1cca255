"""Folders whose queries and keys are normed as one vector: OLMo's and MiniMax's."""

from typing import Any

import pytest
from paceline.native.files.folder_config import Config

from .folders import LLAMA, YARN

OLMO = {key: value for key, value in LLAMA.items() if key not in ("rope_theta", "rms_norm_eps")} | {
    "model_type": "olmo3"
}
LAYERS = [f"{kind}_attention" for kind in ("sliding", "sliding", "sliding", "full") * 2]
MINIMAX = {key: value for key, value in LLAMA.items() if key != "rope_theta"} | {
    "model_type": "minimax_m2",
    "head_dim": 16,
    "num_local_experts": 6,
    "num_experts_per_tok": 2,
    "rotary_dim": 8,
}


def olmo(**more: Any) -> dict[str, Any]:
    values = Config(OLMO | {"num_hidden_layers": 8} | more).gguf_values()
    return {key.removeprefix("olmo2."): value for key, value in values.items()}


def test_an_olmo_2_has_no_window() -> None:
    for more in ({}, {"sliding_window": 64, "use_sliding_window": True}):  # which transformers does not read
        values = Config(OLMO | {"model_type": "olmo2", "rope_theta": 3e5} | more).gguf_values()
        assert values["olmo2.rope.freq_base"] == 3e5
        assert not any("sliding" in key or "swa" in key for key in values)


@pytest.mark.parametrize(
    ("more", "base", "local_base", "kind"),
    [
        ({}, 5e5, 5e5, None),
        ({"rope_theta": 3e5}, 3e5, 5e5, None),  # as in transformers
        ({"rope_scaling": YARN | {"original_max_position_embeddings": 64}}, 5e5, 5e5, "yarn"),
        ({"rope_parameters": {"full_attention": YARN, "sliding_attention": {"rope_theta": 2e5}}}, 5e5, 2e5, "yarn"),
    ],
)
def test_windows_of_an_olmo_3_rotate_unscaled(
    more: dict[str, Any], base: float, local_base: float, kind: str | None
) -> None:
    values = olmo(**more)
    assert (values["rope.freq_base"], values["rope.freq_base_swa"]) == (base, local_base)
    assert values.get("rope.scaling.type") == kind
    assert values["attention.sliding_window"] == 4096


def test_the_layers_of_an_olmo_3() -> None:
    assert "attention.sliding_window_pattern" not in olmo(layer_types=LAYERS)
    others = LAYERS[1:] + LAYERS[:1]
    assert olmo(layer_types=others)["attention.sliding_window_pattern"] == ["sliding" in kind for kind in others]
    assert olmo(layer_types=LAYERS[2:4] * 4)["attention.sliding_window_pattern"] == 2


def test_a_minimax_says_in_two_ways_how_much_of_a_head_turns() -> None:
    for more in ({}, {"rotary_dim": None, "partial_rotary_factor": 0.5}):
        values = Config(MINIMAX | more).gguf_values()
        assert values["minimax-m2.rope.dimension_count"] == 8
    assert values["minimax-m2.rope.freq_base"] == 5e6
    assert (values["minimax-m2.expert_count"], values["minimax-m2.expert_feed_forward_length"]) == (6, 96)


def test_the_experts_of_an_olmoe_are_as_wide_as_a_feed_forward_part() -> None:
    for more, normalized in (({}, False), ({"norm_topk_prob": True}, True)):
        values = Config(OLMO | {"model_type": "olmoe", "rope_theta": 1e4} | more).gguf_values()
        sizes = [values[f"olmoe.expert_{key}"] for key in ("count", "used_count", "feed_forward_length")]
        assert sizes == [64, 8, OLMO["intermediate_size"]]
        assert values["olmoe.expert_weights_norm"] is normalized
        assert values["olmoe.attention.layer_norm_rms_epsilon"] == 1e-5
    assert Config(OLMO | {"model_type": "olmoe", "num_local_experts": 32}).gguf_values()["olmoe.expert_count"] == 32
    with pytest.raises(ValueError, match=r"'clip_qkv' of config.json is 8.0, supported:"):
        Config(OLMO | {"model_type": "olmoe", "clip_qkv": 8.0})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"use_qk_norm": False}, "'use_qk_norm' of config.json is False, supported: True"),
        ({"scoring_func": "softmax"}, "'scoring_func' of config.json is 'softmax', supported: 'sigmoid'"),
        ({"shared_intermediate_size": 64}, "'shared_intermediate_size' of config.json is 64, supported: 0"),
        ({"rotary_dim": 32}, "'partial_rotary_factor' of config.json is 2.0, expected at most 1"),
    ],
)
def test_another_minimax_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Config(MINIMAX | changes)


def test_an_olmo_with_biases_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'attention_bias' of config.json is True, supported: False"):
        Config(OLMO | {"attention_bias": True})
