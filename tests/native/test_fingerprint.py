"""A fingerprint tells apart the models whose pages differ, and nothing else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paceline.native.core import open_core
from paceline.native.weights import open_model

MODEL = {"type": "F16", "width": 64, "heads": 4, "kv_heads": 2, "head_size": 32, "ffn": 96}


def fingerprint(path: Path, **options: Any) -> str:
    return open_core(path, **{"slots": 1, "context": 64, **options}).fingerprint


def test_the_same_in_another_process(tiny_model: Any) -> None:
    path = tiny_model(**MODEL)
    words = "import sys, pathlib; from paceline.native.core import open_core as o; "
    words += "print(o(pathlib.Path(sys.argv[1]), slots=2, context=128, threads=1, isa='plain').fingerprint)"
    done = subprocess.run(
        [sys.executable, "-c", words, str(path)],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == fingerprint(path)
    assert len(bytes.fromhex(fingerprint(path))) == 16


def test_the_same_wherever_the_file_lies_and_whatever_runs_beside_it(tiny_model: Any, tmp_path: Path) -> None:
    path = tiny_model(**MODEL)
    copy = tmp_path / "copy.gguf"
    shutil.copy(path, copy)
    assert fingerprint(copy, slots=3, context=200, threads=1, states=5, cache_bytes=1 << 20) == fingerprint(path)
    assert fingerprint(path, kind="reference") == fingerprint(path)


@pytest.mark.parametrize(
    "options",
    [
        {"seed": 2},
        {"type": "F32"},
        {"tied": True},
        {"heads": 2},
        {"rope_size": 16},
    ],
)
def test_another_model_has_another(tiny_model: Any, options: dict[str, Any]) -> None:
    assert fingerprint(tiny_model(**{**MODEL, **options})) != fingerprint(tiny_model(**MODEL))


@pytest.mark.parametrize("options", [{"cache_type_k": "q8_0"}, {"cache_type_v": "bf16"}, {"quantize": "q8_0"}])
def test_another_cache_or_conversion_has_another(tiny_model: Any, options: dict[str, Any]) -> None:
    path = tiny_model(**MODEL)
    assert fingerprint(path, **options) != fingerprint(path)


def test_key_and_value_types_are_told_apart(tiny_model: Any) -> None:
    path = tiny_model(**MODEL)
    assert fingerprint(path, cache_type_k="q8_0") != fingerprint(path, cache_type_v="q8_0")


def test_the_ends_of_every_tensor_count(tiny_model: Any, tmp_path: Path) -> None:
    path = tiny_model(**MODEL)
    contents = np.fromfile(path, np.uint8)
    found = {fingerprint(path)}
    _, tensors = open_model(path)
    for tensor in tensors[:4]:
        for end in (0, tensor.nbytes - 1):
            changed = contents.copy()
            begin = path.read_bytes().find(tensor.data.tobytes())
            changed[begin + end] ^= 1
            copy = tmp_path / "changed.gguf"
            changed.tofile(copy)
            found.add(fingerprint(copy))
    assert len(found) == 9
