"""The slow part: the reference against transformers itself, and the whole comparison of logits."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from paceline.native.reference import open_reference

from .sequences import relative_error, run

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "compare_logits.py"
LINEAR = {"rope_type": "linear", "factor": 4.0}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "ratio1-untied": {"heads": 4, "kv_heads": 4, "width": 64, "ffn": 96, "tied": False},
    "ratio2-tied": {"heads": 4, "kv_heads": 2, "width": 64, "ffn": 100, "tied": True},
    "ratio4-odd": {"heads": 12, "kv_heads": 3, "width": 72, "ffn": 75, "tied": False},
    "ratio4-wide-heads": {"heads": 4, "kv_heads": 1, "width": 40, "ffn": 51, "head_size": 24, "tied": True},
    "ratio3-base": {"heads": 3, "kv_heads": 1, "width": 66, "ffn": 64, "tied": False, "rope_base": 5e5},
    "llama3-scaling": {
        "heads": 4,
        "kv_heads": 1,
        "width": 64,
        "ffn": 96,
        "tied": True,
        "rope_base": 5e5,
        "rope": LLAMA3,
    },
    "linear-scaling": {"heads": 4, "kv_heads": 2, "width": 64, "ffn": 96, "tied": False, "rope": LINEAR},
    "qwen2-ratio2": {"family": "qwen2", "heads": 4, "kv_heads": 2, "width": 64, "ffn": 100, "tied": True},
    "qwen2-ratio1-base": {
        "family": "qwen2",
        "heads": 3,
        "kv_heads": 3,
        "width": 66,
        "ffn": 75,
        "tied": False,
        "rope_base": 1e6,
    },
    "qwen2-ratio7": {"family": "qwen2", "heads": 7, "kv_heads": 1, "width": 84, "ffn": 51, "tied": True},
    "qwen3-ratio2": {
        "family": "qwen3",
        "heads": 4,
        "kv_heads": 2,
        "width": 64,
        "ffn": 96,
        "head_size": 24,
        "tied": False,
    },
    "qwen3-ratio4-base": {
        "family": "qwen3",
        "heads": 8,
        "kv_heads": 2,
        "width": 40,
        "ffn": 51,
        "head_size": 16,
        "tied": True,
        "rope_base": 1e6,
    },
    "qwen3-ratio1": {
        "family": "qwen3",
        "heads": 3,
        "kv_heads": 3,
        "width": 72,
        "ffn": 100,
        "head_size": 12,
        "tied": True,
    },
}
NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
VOCAB, LENGTH = 131, 48


def random_model(options: dict[str, Any]) -> Any:
    import torch
    import transformers

    torch.manual_seed(7)
    family = options.get("family", "llama").capitalize()
    head_size = options.get("head_size", options["width"] // options["heads"])
    config = getattr(transformers, f"{family}Config")(
        vocab_size=VOCAB,
        hidden_size=options["width"],
        intermediate_size=options["ffn"],
        num_hidden_layers=3,
        num_attention_heads=options["heads"],
        num_key_value_heads=options["kv_heads"],
        head_dim=head_size,
        max_position_embeddings=512,
        rms_norm_eps=1e-5,
        tie_word_embeddings=options["tied"],
        rope_parameters={"rope_theta": options.get("rope_base", 10000.0)}
        | options.get("rope", {"rope_type": "default"}),
        initializer_range=0.2,
    )
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    for name, weights in model.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(weights, 0.5, 1.5)
        if name.endswith("bias"):
            torch.nn.init.normal_(weights, 0.0, 0.5)
    return model


def paired(weights: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a q or k matrix [heads * head_size, width] moved from halves to GGUF's pairs for the llama family."""
    rows, columns = weights.shape
    return weights.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def export(model: Any, path: Path) -> None:
    config = model.config
    writer = gguf.GGUFWriter(path, config.model_type)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    head_size = model.model.layers[0].self_attn.head_dim
    writer.add_key_length(head_size)
    writer.add_value_length(head_size)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(head_size)
    if config.rope_parameters["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(config.rope_parameters["factor"])
    if config.rope_parameters["rope_type"] == "llama3":
        base = config.rope_parameters["rope_theta"] ** (-np.arange(0, head_size, 2) / head_size)
        writer.add_tensor("rope_freqs.weight", (base / model.model.rotary_emb.inv_freq.numpy()).astype(np.float32))
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    for name, parameter in model.named_parameters():
        weights, (stem, ending) = parameter.detach().numpy(), name.rsplit(".", 1)
        if stem in OUTER:
            writer.add_tensor(f"{OUTER[stem]}.weight", weights)
            continue
        _, _, layer, part = stem.split(".", 3)
        if part.endswith("q_proj") and config.model_type == "llama":
            weights = paired(weights, config.num_attention_heads)
        if part.endswith("k_proj") and config.model_type == "llama":
            weights = paired(weights, config.num_key_value_heads)
        writer.add_tensor(f"blk.{layer}.{NAMES[part]}.{ending}", weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


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


@pytest.mark.parametrize("against", ["transformers", "core"])
def test_logits_over_the_committed_texts_are_within_the_limits(against: str) -> None:
    ended = subprocess.run([sys.executable, SCRIPT, against], capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0 and "held" in ended.stdout, ended.stdout + ended.stderr
