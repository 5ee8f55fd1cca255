"""The slow part: the reference and the core against transformers itself, on random models."""

from pathlib import Path

import numpy as np
import pytest
from paceline.native.core import Core, open_core
from paceline.native.reference import open_reference

from .configurations import CONFIGS, DECODED, FAMILY_CONFIGS, PLAIN_DECODED
from .families import VOCAB, expected_logits, random_family_model
from .family_files import export_family
from .plain_families import export, random_model
from .rows import Row as CoreRow
from .rows import all_logits, table
from .sequences import relative_error, run

pytestmark = pytest.mark.slow

LENGTH = 48


@pytest.mark.parametrize("name", CONFIGS)
def test_random_models_agree(tmp_path: Path, name: str) -> None:
    import torch

    model = random_model(CONFIGS[name])
    export(model, tmp_path / "model.gguf")
    ids = np.random.RandomState(3).randint(0, VOCAB, LENGTH).tolist()
    with torch.inference_mode():
        expected = model(torch.tensor([ids])).logits[0].numpy()  # [positions, vocab]
    assert expected.std() > 0.5
    reference = open_reference(tmp_path / "model.gguf")
    assert reference.shape.tied == CONFIGS[name]["tied"]
    assert relative_error(run(reference, ids), expected) < 1e-4
    assert relative_error(run(reference, ids, cuts=[1, 17, 18]), expected) < 1e-4
    assert relative_error(all_logits(open_float_core(tmp_path / "model.gguf"), 0, ids), expected) < 1e-3


@pytest.mark.parametrize(
    ("name", "fused"),
    [(name, False) for name in FAMILY_CONFIGS] + [("qwen3next-ratio2", True), ("qwen3next-odd-tied", True)],
)
def test_random_models_of_the_newer_families_agree(tmp_path: Path, name: str, fused: bool) -> None:
    family = name.split("-")[0]
    model = random_family_model(family, FAMILY_CONFIGS[name])
    export_family(family, model, tmp_path / "model.gguf", fused)
    ids = np.random.RandomState(3).randint(0, VOCAB, 2 * LENGTH).tolist()
    expected = expected_logits(model, ids)
    assert expected.std() > 0.5
    reference = open_reference(tmp_path / "model.gguf")
    assert reference.shape.tied == FAMILY_CONFIGS[name]["tie_word_embeddings"]
    assert relative_error(run(reference, ids), expected) < 1e-4
    assert relative_error(run(reference, ids, cuts=[1, 17, 18, 70]), expected) < 1e-4
    assert relative_error(all_logits(open_float_core(tmp_path / "model.gguf"), 0, ids), expected) < 1e-3


@pytest.mark.parametrize("name", [*PLAIN_DECODED, *DECODED])
@pytest.mark.parametrize("length", [1, 7, 300])
@pytest.mark.parametrize("kind", ["reference", "cpu"])
def test_greedy_tokens_are_equal(tmp_path: Path, name: str, length: int, kind: str) -> None:
    if name in CONFIGS:
        model = random_model(CONFIGS[name])
        export(model, tmp_path / "model.gguf")
    else:
        family = name.split("-")[0]
        model = random_family_model(family, FAMILY_CONFIGS[name])
        export_family(family, model, tmp_path / "model.gguf")
    prompt = np.random.RandomState(length).randint(0, VOCAB, length).tolist()
    core = open_float_core(tmp_path / "model.gguf", kind)
    tokens, pending = list(prompt), list(prompt)
    for _ in range(64):
        [(chosen, *_)], _ = core.step([CoreRow(0, pending, len(tokens) - len(pending), 1, table(0, core.context))])
        core.commit(0, len(tokens))
        pending = list(chosen)
        tokens += pending
    expected = expected_logits(model, tokens[:-1]).argmax(axis=1).tolist()
    assert tokens[length:] == expected[length - 1 :]
    assert len(set(tokens[length:])) > 8


@pytest.mark.parametrize(("context", "trained"), [(128, 300), (300, 300), (301, 300)])
def test_longrope_divides_by_the_context_of_a_slot(tmp_path: Path, context: int, trained: int) -> None:
    """transformers divides by the length of the text: with a text within the context of training it computes what we
    do where slots are within it, and with a longer one what we do where they are not."""
    model = random_family_model("phi3", FAMILY_CONFIGS["phi3-longrope"] | {"original_max_position_embeddings": trained})
    export_family("phi3", model, tmp_path / "model.gguf")
    ids = np.random.RandomState(3).randint(0, VOCAB, min(context, 301)).tolist()
    expected = expected_logits(model, ids)
    for kind, bound in (("reference", 1e-4), ("cpu", 1e-3)):
        core = open_float_core(tmp_path / "model.gguf", kind, context)
        assert relative_error(all_logits(core, 0, ids), expected) < bound


def open_float_core(path: Path, kind: str = "cpu", context: int | None = None) -> Core:
    return open_core(path, slots=1, context=context, threads=2, kind=kind, cache_type_k="f32", cache_type_v="f32")
