"""The reference's contract for experts, windows and recurrent layers."""

import numpy as np
import pytest
from paceline.native.reference import Reference, open_reference

from .sequences import Row, run

FAMILIES = [
    "mistral3",
    "mixtral",
    "lfm2",
    "minimax-m2",
    "olmo2",
    "olmoe",
    "afmoe",
    "exaone4",
    "exaone-moe",
    "apertus",
    "granite_swa",
    "laguna",
    "mellum",
    "muse-glimmer",
    "command-r",
    "cohere2",
    "qwen2moe",
    "qwen3moe",
    "gemma",
    "gemma2",
    "gemma3",
    "gemma4",
    "gemma4-moe",
    "deepseek2",
    "smollm3",
    "granite",
    "granitehybrid",
    "hunyuan-dense",
    "nemotron_h",
    "nemotron_h_moe",
    "gpt-oss",
    "qwen35",
    "qwen35moe",
    "qwen3next",
]


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest, tiny_model) -> Reference:
    more = {
        "gemma4": {"borrowing": 2, "token_inputs": 32},
        "mistral3": {"temperature": 20},
        "laguna": {"local_heads": 8},
    }
    return open_reference(
        tiny_model(seed=1, architecture=request.param, layers=4, vocab=131, **more.get(request.param, {}))
    )


def test_every_family_gives_the_same_logits_in_any_chunks_and_company(family: Reference) -> None:
    generator = np.random.RandomState(0)
    prompts = [generator.randint(0, 131, length).tolist() for length in (1, 7, 65)]
    alone = [run(family, prompt, slot=9) for prompt in prompts]
    assert alone[2].std() > 1
    np.testing.assert_allclose(run(family, prompts[2], [1, 3, 40, 41]), alone[2], rtol=0, atol=1e-4)
    for slot in range(len(prompts)):
        family.commit(slot, 0)
    results = family.step([Row(slot, prompt, 0, len(prompt)) for slot, prompt in enumerate(prompts)])
    for result, expected in zip(results, alone, strict=True):
        np.testing.assert_allclose(result.logits, expected, rtol=0, atol=1e-4)


def test_every_family_can_try_a_step_again_and_commit_it_part_way(family: Reference) -> None:
    expected = run(family, [5, 6, 7, 8, 9, 10], cuts=[2])
    family.commit(0, 0)
    family.step([Row(0, [5, 6, 90], 0, 0)])
    family.commit(0, 3)
    family.commit(0, 2)
    family.step([Row(0, [91, 92, 93, 94], 2, 4)])  # never committed
    first = family.step([Row(0, [7, 8, 95], 2, 2)])[0]
    again = family.step([Row(0, [7, 8, 95], 2, 2)])[0]
    assert np.array_equal(first.logits, again.logits)
    family.commit(0, 5)
    family.commit(0, 4)
    rest = family.step([Row(0, [9, 10], 4, 2)])[0]
    np.testing.assert_allclose(rest.logits, expected[4:], rtol=0, atol=1e-4)
    family.commit(0, 0)
    [result] = family.step([Row(0, [5], 0, 1)])
    np.testing.assert_allclose(result.logits, expected[:1], rtol=0, atol=1e-4)


def test_a_recurrent_model_goes_back_no_further_than_its_last_step(tiny_model) -> None:
    model = open_reference(tiny_model(seed=1, architecture="qwen35"))
    run(model, [1, 2, 3, 4], cuts=[2])
    model.commit(0, 2)
    with pytest.raises(ValueError, match="commit to position 1, the last step began at 2"):
        model.commit(0, 1)


def test_what_came_before_matters_to_a_recurrent_layer_and_not_beyond_a_window(tiny_model) -> None:
    tokens = np.random.RandomState(2).randint(0, 128, 40).tolist()
    for architecture, forgets in (("qwen35", False), ("gemma2", True), ("gemma3", True)):
        model = open_reference(tiny_model(seed=1, architecture=architecture, layers=1, window=8))
        assert "attention" not in model.shape.kinds
        whole, other = run(model, tokens), run(model, [tokens[0] ^ 1, *tokens[1:]])
        assert np.array_equal(whole[8:], other[8:]) == forgets
        assert not np.array_equal(whole[7], other[7])
