"""What a GPU gets in another type than the CPU."""

from dataclasses import replace

import gguf
import numpy as np
import pytest
from paceline.native.core import open_core
from paceline.native.weights import Tensor, open_model

from .core_models import MODELS
from .emulated import KIND, same_bits
from .rows import all_logits


def test_a_product_in_half_precision_has_the_cpus_bits_on_a_device(tiny_model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quantizers leave it so; a fingerprint is of the file, and so the same."""
    path = tiny_model(**MODELS["gemma4, Q8_0"])
    metadata, tensors = open_model(path)

    def halved(tensor: Tensor) -> Tensor:
        values = gguf.quants.dequantize(tensor.data, gguf.GGMLQuantizationType.Q8_0)
        data = gguf.quants.quantize(values, gguf.GGMLQuantizationType.BF16).view(np.uint8)
        return replace(tensor, type="BF16", source=data)

    mixed = [halved(tensor) if tensor.name == "per_layer_model_proj.weight" else tensor for tensor in tensors]
    monkeypatch.setattr("paceline.native.core.open_model", lambda path, drafting: (metadata, mixed))
    cores = [open_core(path, slots=1, context=64, kind=kind) for kind in ("cpu", KIND)]
    logits = [all_logits(core, 0, list(range(40))) for core in cores]
    assert same_bits(logits[0], logits[1])
    assert cores[0].fingerprint == cores[1].fingerprint
