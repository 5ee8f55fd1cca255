"""The tiny models that the tests of the C++ core run, and how near to the reference each must be."""

import numpy as np
from paceline.native import _cpu

CONTEXT = 1280
SETS = _cpu.instruction_sets()
MODELS = {
    "qwen2": {
        "architecture": "qwen2",
        "type": "F16",
        "width": 72,
        "heads": 6,
        "kv_heads": 2,
        "head_size": 12,
        "ffn": 100,
    },
    "qwen3": {
        "architecture": "qwen3",
        "type": "Q4_0",
        "width": 64,
        "heads": 4,
        "kv_heads": 1,
        "head_size": 48,
        "ffn": 96,
    },
    "qwen3moe": {
        "architecture": "qwen3moe",
        "type": "F32",
        "width": 72,
        "heads": 6,
        "kv_heads": 2,
        "head_size": 12,
        "experts": 7,
        "experts_used": 3,
        "expert_ffn": 40,
    },
    # All experts: 8-bit activations may tip the choice between two, and then the logits are others altogether.
    "qwen3moe, Q8_0": {"architecture": "qwen3moe", "type": "Q8_0", "experts": 5, "experts_used": 5},
    "qwen2moe": {"architecture": "qwen2moe", "type": "F32", "experts": 6, "experts_used": 2, "shared_ffn": 40},
    "mixtral": {"architecture": "mixtral", "type": "F32", "experts": 6, "experts_used": 2, "expert_ffn": 40},
    "smollm3": {"architecture": "smollm3", "type": "F32", "layers": 4, "width": 72, "heads": 6, "head_size": 12},
    "granite": {"architecture": "granite", "type": "Q4_0", "tied": True},
    "gpt-oss": {
        "architecture": "gpt-oss",
        "type": "F32",
        "width": 72,
        "heads": 6,
        "kv_heads": 2,
        "head_size": 20,
        "window": 70,
        "experts": 6,
        "experts_used": 2,
        "expert_ffn": 40,
    },
    "gpt-oss, MXFP4": {
        "architecture": "gpt-oss",
        "type": "MXFP4",
        "experts": 4,
        "experts_used": 4,
        "expert_ffn": 96,
        "window": 70,
    },
    "gemma": {"architecture": "gemma", "type": "F32", "width": 72, "ffn": 100, "tied": True},
    "gemma2": {
        "architecture": "gemma2",
        "type": "F32",
        "width": 72,
        "kv_heads": 1,
        "head_size": 20,
        "ffn": 100,
        "window": 70,
        "tied": True,
    },
    "gemma3": {
        "architecture": "gemma3",
        "type": "F16",
        "layers": 3,
        "width": 72,
        "heads": 6,
        "kv_heads": 2,
        "head_size": 20,
        "ffn": 100,
        "window": 70,
        "tied": True,
    },
    "qwen35": {
        "architecture": "qwen35",
        "type": "F32",
        "layers": 3,
        "width": 72,
        "heads": 6,
        "kv_heads": 2,
        "head_size": 12,
        "rope_size": 6,
        "ffn": 100,
        "key_heads": 3,
        "value_heads": 6,
        "key_size": 20,
        "value_size": 36,
    },
    "qwen35moe": {
        "architecture": "qwen35moe",
        "type": "F32",
        "layers": 4,
        "interval": 4,
        "value_heads": 4,
        "key_size": 32,
        "value_size": 64,
        "conv_kernel": 3,
    },
    "qwen3next": {"architecture": "qwen3next", "type": "Q4_0", "value_size": 24, "value_heads": 8, "tied": True},
    "float": {
        "type": "F32",
        "width": 72,
        "heads": 6,
        "kv_heads": 2,
        "head_size": 12,
        "ffn": 100,
        "vocab": 131,
        "tied": True,
    },
    "float, wide": {
        "type": "F32",
        "width": 544,
        "heads": 4,
        "kv_heads": 4,
        "head_size": 16,
        "ffn": 80,
        "rope_layout": "halves",
        "rope_size": 8,
    },
    "Q8_0": {"type": "Q8_0", "width": 64, "heads": 4, "kv_heads": 1, "head_size": 32, "ffn": 96, "tied": True},
    "Q4_1": {
        "type": "Q4_1",
        "width": 576,
        "heads": 6,
        "kv_heads": 2,
        "head_size": 32,
        "ffn": 544,
        "embedding_type": "Q8_0",
    },
}
# Root mean square error of the logits over their own: float weights lose to the f16 cache, others to 8-bit activations.
TOLERANCE = {
    "qwen2": 1e-3,
    "qwen3": 0.05,
    "qwen3moe": 1e-3,
    "qwen3moe, Q8_0": 0.05,
    "qwen2moe": 1e-3,
    "mixtral": 1e-3,
    "smollm3": 2e-3,  # four layers
    "granite": 0.05,
    "gpt-oss": 1e-3,
    "gpt-oss, MXFP4": 0.05,
    "gemma": 1e-3,
    "gemma2": 1e-3,
    "gemma3": 1e-3,
    "qwen35": 1e-3,
    "qwen35moe": 1e-3,
    "qwen3next": 0.05,
    "float": 1e-3,
    "float, wide": 1e-3,
    "Q8_0": 0.05,
    "Q4_1": 0.05,
}
# With float32 in place of F16, whose products a GPU rounds in its own way (test_cuda_float16.py).
ONE_ORDER = {name: sizes | ({"type": "F32"} if sizes["type"] == "F16" else {}) for name, sizes in MODELS.items()}
# Of their experts a step reads those that are chosen.
EXPERTS = ("mixtral", "gpt-oss", "qwen2moe", "qwen3moe", "qwen35moe", "qwen3next")


def ids_of(seed: int, count: int, vocab: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, vocab, count).tolist()
