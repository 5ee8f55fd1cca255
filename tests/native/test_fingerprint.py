"""A fingerprint tells apart the models whose pages differ, and nothing else."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paceline.native.core import open_core
from paceline.native.device_memory import EmulatedMemory
from paceline.native.files.model_file import Bytes, Tensor
from paceline.native.fingerprint import BLOCK, Fingerprint, mapping_of
from paceline.native.shape import ModelShape
from paceline.native.weights import open_model

MODEL = {"type": "F16", "width": 64, "heads": 4, "kv_heads": 2, "head_size": 32, "ffn": 96}


@dataclass(frozen=True)
class Nothing:
    """In the place of a shape that does not matter."""


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


def test_who_writes_no_files_reads_no_weights_for_one(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fingerprint, "add", None)
    assert fingerprint(tiny_model(**MODEL), kind="reference") == ""


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


@pytest.mark.parametrize("kind", ["F16", "BF16", "F32", "Q8_0"])
def test_on_a_gpu_it_is_the_gpus_where_that_rounds_in_its_own_way(
    tiny_model: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("paceline.native._emulator", reason="the emulated device is not built")
    path = tiny_model(**MODEL | {"type": kind})
    found = {fingerprint(path), fingerprint(path, kind="emulator")}
    monkeypatch.setattr(EmulatedMemory, "name", "another")
    found.add(fingerprint(path, kind="emulator"))
    assert len(found) == (3 if kind in ("F16", "BF16") else 1)


def test_key_and_value_types_are_told_apart(tiny_model: Any) -> None:
    path = tiny_model(**MODEL)
    assert fingerprint(path, cache_type_k="q8_0") != fingerprint(path, cache_type_v="q8_0")


def test_every_byte_of_every_tensor_counts(tiny_model: Any, tmp_path: Path) -> None:
    path = tiny_model(**{**MODEL, "vocab": 3000})  # the embeddings take more than one block of checksums
    contents = np.fromfile(path, np.uint8)
    found = {fingerprint(path)}
    _, tensors = open_model(path)
    assert tensors[0].nbytes > BLOCK
    for tensor in tensors[:4]:
        begin = path.read_bytes().find(tensor.data.tobytes())
        for place in (0, tensor.nbytes // 2, tensor.nbytes - 1):
            changed = contents.copy()
            changed[begin + place] ^= 1
            copy = tmp_path / "changed.gguf"
            changed.tofile(copy)
            found.add(fingerprint(copy))
    assert len(found) == 13


@given(st.integers(1, 3 * BLOCK), st.data())
@settings(max_examples=20, deadline=None)
def test_one_bit_anywhere_counts(size: int, data: st.DataObject) -> None:
    place, bit = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, 7))
    before = np.random.default_rng(size).integers(0, 256, (1, size), np.uint8)
    after = before.copy()
    after[0, place] ^= 1 << bit
    assert digest(before) == digest(before.copy())
    assert digest(before) != digest(after)


def digest(data: Bytes) -> str:
    found = Fingerprint(cast(ModelShape, Nothing()), "f16", "f16")
    found.add(Tensor("a", "F32", 1, data.size, data), data)
    return found.hexdigest()


def test_a_mapped_file_is_let_go_of_block_by_block(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    np.arange(64 * BLOCK // 8).tofile(path)
    data = np.memmap(path, np.uint8, "r")[5:].view(np.ndarray).reshape(1, -1)
    mapping = f"{mmap_begin(data):x}-"
    found = Fingerprint(cast(ModelShape, Nothing()), "f16", "f16")
    found.add(Tensor("a", "F32", 1, data.size, data), data)
    lines = Path("/proc/self/smaps").read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith(mapping))
    resident = next(line for line in lines[at:] if line.startswith("Rss:"))
    assert int(resident.split()[1]) * 1024 <= BLOCK


def mmap_begin(data: Bytes) -> int:
    address: int = np.frombuffer(cast(Any, mapping_of(data)), np.uint8).ctypes.data
    return address
