"""Folders whose matrices are 8-bit floats with a scale for each block, computed as transformers computes them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paceline.native.reference import open_reference

from ..configurations import FAMILY_CONFIGS
from ..families import VOCAB, expected_logits, random_family_model
from ..plain_families import random_model
from ..sequences import relative_error, run

pytestmark = pytest.mark.slow

LENGTH = 64
PLAIN = {"width": 64, "heads": 4, "kv_heads": 2, "ffn": 96, "tied": False}


def quantized(weights: Any, block: int) -> tuple[Any, Any]:
    import torch

    rows, columns = weights.shape
    parts = weights.float().reshape(rows // block, block, columns // block, block)
    scales = parts.abs().amax(dim=(1, 3)) / torch.finfo(torch.float8_e4m3fn).max
    codes = (parts / scales[:, None, :, None]).to(torch.float8_e4m3fn)
    return codes.reshape(rows, columns), scales


def write(folder: Path, model: Any, block: int) -> int:
    """How many matrices of it are 8-bit floats then."""
    from safetensors.torch import load_file, save_file

    model.bfloat16().save_pretrained(folder)
    found: dict[str, Any] = {}
    for name, weights in load_file(folder / "model.safetensors").items():
        fits = weights.ndim == 2 and not any(size % block for size in weights.shape)
        if fits and name.endswith("_proj.weight"):
            found[name], found[f"{name}_scale_inv"] = quantized(weights, block)
        else:
            found[name] = weights
    save_file(found, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    method = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [block, block]}
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": method}))
    return sum(name.endswith("_scale_inv") for name in found)


@pytest.mark.parametrize("family", ["llama", "qwen3moe", "deepseek_v3"])
def test_blocks_of_8_bit_floats(tmp_path: Path, family: str) -> None:
    import torch
    import transformers

    sizes: Any = next((options for name, options in FAMILY_CONFIGS.items() if name.split("-")[0] == family), PLAIN)
    block = 8 if family != "llama" else 32
    model = random_model(PLAIN) if family == "llama" else random_family_model(family, sizes)
    assert write(tmp_path, model, block) > 10
    asked = transformers.FineGrainedFP8Config(dequantize=True, weight_block_size=(block, block))
    peer = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16, quantization_config=asked)
    ids = np.random.RandomState(3).randint(0, VOCAB, LENGTH).tolist()
    assert (
        relative_error(run(open_reference(tmp_path), ids, cuts=[1, 17]), expected_logits(peer.float().eval(), ids))
        < 1e-4
    )
