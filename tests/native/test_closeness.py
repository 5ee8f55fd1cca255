"""The slow part: logits over the committed texts, against the limits of the scripts that compare them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from paceline.native.drafting import ARCHITECTURES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SCRIPTS = Path(__file__).parent.parent.parent / "scripts"


def held(script: str, *words: str | Path) -> str:
    """What the script says, which ends with an error where a limit is missed."""
    command = [sys.executable, str(SCRIPTS / script), *map(str, words)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.parametrize("against", ["transformers", "core"])
def test_logits_over_the_committed_texts_are_within_the_limits(against: str) -> None:
    assert "held" in held("compare_logits.py", against)


def test_we_are_as_close_to_the_float_model_as_llama_cpp_is() -> None:
    assert "divergence" in held("compare_llama_cpp.py", "--texts", "long")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_layer_drafts_what_llama_cpp_drafts(tiny_model: Any, architecture: str) -> None:
    sizes = {"vocab": 300, "value_size": 32, "key_size": 32, "query_rank": 48, "norm_epsilon": 1e-6}
    path = tiny_model(architecture=architecture, drafting=1, **sizes)
    assert "held" in held("compare_llama_drafts.py", path)


def test_logits_of_a_folder_are_within_the_limits(tmp_path: Path) -> None:
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=256, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=4096, initializer_range=0.2,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())  # one for each byte
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert held("compare_logits.py", "core", "transformers", "--model", tmp_path).count(": held") == 2
