"""The slow part: the reference and the core against transformers itself, on random models."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from paceline.native.core import Core, open_core
from paceline.native.reference import open_reference

from .families import expected_logits, export_family, random_family_model
from .rows import Row as CoreRow
from .rows import all_logits, table
from .sequences import relative_error, run

pytestmark = pytest.mark.slow

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


def rope(base: float = 1e4, **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": "default", "rope_theta": base, **more}}


def attention(width: int, heads: int, kv_heads: int, head_size: int, layers: int, tied: bool = False) -> dict[str, Any]:
    return {
        "hidden_size": width,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_size,
        "num_hidden_layers": layers,
        "tie_word_embeddings": tied,
    }


def routing(experts: int, used: int, ffn: int, shared: int = 0) -> dict[str, Any]:
    sizes = {"num_experts": experts, "num_experts_per_tok": used, "moe_intermediate_size": ffn}
    return sizes | ({"shared_expert_intermediate_size": shared} if shared else {"intermediate_size": 3 * ffn})


def recurrence(kernel: int, key_heads: int, value_heads: int, key_size: int, value_size: int) -> dict[str, Any]:
    return {
        "linear_conv_kernel_dim": kernel,
        "linear_num_key_heads": key_heads,
        "linear_num_value_heads": value_heads,
        "linear_key_head_dim": key_size,
        "linear_value_head_dim": value_size,
    }


def period(interval: int, layers: int, between: str = "linear_attention") -> dict[str, Any]:
    return {"layer_types": [between if (layer + 1) % interval else "full_attention" for layer in range(layers)]}


def local(base: float, window: int, scalar: int, **scaling: Any) -> dict[str, Any]:
    full = {"rope_type": "default", "rope_theta": base, **scaling}
    both = {"full_attention": full, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
    return {"rope_parameters": both, "sliding_window": window, "query_pre_attn_scalar": scalar}


QUARTER = rope(1e6, partial_rotary_factor=0.25)
HALF = rope(1e4, partial_rotary_factor=0.5)
# The first of each family also decodes.
FAMILY_CONFIGS: dict[str, dict[str, Any]] = {
    "qwen3moe-ratio2": attention(64, 4, 2, 24, 3) | routing(8, 2, 36) | rope(1e6) | {"norm_topk_prob": True},
    "qwen3moe-odd-tied": attention(70, 3, 1, 12, 2, True) | routing(5, 3, 19) | rope() | {"norm_topk_prob": True},
    "qwen3moe-all-unnormalized": attention(40, 8, 2, 16, 3) | routing(4, 4, 51) | rope() | {"norm_topk_prob": False},
    "gemma3-ratio2": attention(64, 4, 2, 24, 7, True) | local(1e6, 11, 24) | {"intermediate_size": 100},
    "gemma3-period2-untied": attention(69, 3, 1, 20, 4)
    | local(1e5, 5, 31)
    | period(2, 4, "sliding_attention")
    | {"intermediate_size": 75, "final_logit_softcapping": 5.0},
    "gemma3-period3-linear": attention(72, 6, 6, 12, 5, True)
    | local(1e6, 17, 12, rope_type="linear", factor=8.0)
    | period(3, 5, "sliding_attention")
    | {"intermediate_size": 51},
    "gemma3-irregular-softcaps": attention(60, 4, 2, 16, 5)
    | local(1e6, 7, 16)
    | {"intermediate_size": 64, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 20.0}
    | {"layer_types": [f"{kind}_attention" for kind in ("sliding", "full", "full", "sliding", "sliding")]},
    "qwen35-ratio3": attention(64, 4, 2, 32, 5) | QUARTER | recurrence(4, 2, 6, 16, 12) | {"intermediate_size": 100},
    "qwen35-period2-tied": attention(69, 3, 1, 20, 4, True)
    | HALF
    | recurrence(3, 3, 3, 9, 20)
    | period(2, 4)
    | {"intermediate_size": 51},
    "qwen35-period3-ratio4": attention(40, 8, 2, 16, 6)
    | HALF
    | recurrence(5, 1, 4, 24, 7)
    | period(3, 6)
    | {"intermediate_size": 75},
    "qwen35moe-ratio2": attention(64, 4, 2, 32, 5) | QUARTER | recurrence(4, 2, 4, 16, 12) | routing(8, 3, 36, 40),
    "qwen35moe-odd-tied": attention(69, 3, 1, 20, 3, True)
    | HALF
    | recurrence(2, 2, 6, 11, 8)
    | period(3, 3)
    | routing(5, 2, 19, 27),
    "qwen35moe-period2": attention(40, 6, 3, 16, 4)
    | HALF
    | recurrence(4, 4, 4, 8, 8)
    | period(2, 4)
    | routing(6, 6, 20, 33),
    "qwen3next-ratio2": attention(64, 4, 2, 32, 5) | QUARTER | recurrence(4, 2, 4, 16, 12) | routing(8, 3, 36, 40),
    "qwen3next-odd-tied": attention(69, 3, 1, 20, 3, True)
    | HALF
    | recurrence(2, 2, 6, 11, 8)
    | period(3, 3)
    | routing(5, 2, 19, 27),
    "qwen3next-period2": attention(40, 6, 3, 16, 4)
    | HALF
    | recurrence(3, 3, 12, 8, 9)
    | period(2, 4)
    | routing(6, 1, 20, 33),
    "qwen3next-unnormalized": attention(48, 4, 2, 12, 4)
    | HALF
    | recurrence(4, 2, 4, 8, 12)
    | period(4, 4)
    | routing(6, 3, 24, 20)
    | {"norm_topk_prob": False},
}
DECODED = list({name.split("-")[0]: name for name in reversed(FAMILY_CONFIGS)}.values())


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


@pytest.mark.parametrize("name", DECODED)
@pytest.mark.parametrize("length", [1, 7, 300])
@pytest.mark.parametrize("kind", ["reference", "cpu"])
def test_greedy_tokens_of_the_newer_families_are_equal(tmp_path: Path, name: str, length: int, kind: str) -> None:
    family = name.split("-")[0]
    model = random_family_model(family, FAMILY_CONFIGS[name])
    export_family(family, model, tmp_path / "model.gguf")
    prompt = np.random.RandomState(length).randint(0, VOCAB, length).tolist()
    core = open_float_core(tmp_path / "model.gguf", kind)
    tokens, pending = list(prompt), list(prompt)
    for _ in range(64):
        [(chosen, _)], _ = core.step([CoreRow(0, pending, len(tokens) - len(pending), 1, table(0, core.context))])
        core.commit(0, len(tokens))
        pending = list(chosen)
        tokens += pending
    expected = expected_logits(model, tokens[:-1]).argmax(axis=1).tolist()
    assert tokens[length:] == expected[length - 1 :]
    assert len(set(tokens[length:])) > 8


def open_float_core(path: Path, kind: str = "cpu") -> Core:
    return open_core(path, slots=1, threads=2, kind=kind, cache_type_k="f32", cache_type_v="f32")
