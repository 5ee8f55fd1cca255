"""Damaged model files by the thousand: each loads or is refused in one sentence (see scripts/fuzz.py).

Below them what the mutants found, one by one, and sizes that a file of gigabytes could have and a tiny one cannot.
"""

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from paceline.native.core import open_core
from paceline.native.files.gguf_file import MOST_ELEMENTS, MOST_TENSORS
from paceline.native.weights import ModelUnreadable, open_model, read_object

from ...conftest import ROOT, TinyModel

HEADER = b"GGUF" + struct.pack("<I", 3)
ARCHITECTURE = struct.pack("<Q", 20) + b"general.architecture" + struct.pack("<IQ", 8, 5) + b"llama"


def fuzz(target: str, count: int, seed: int) -> None:
    script = ROOT / "scripts" / "fuzz.py"
    command = [sys.executable, str(script), target, f"--count={count}", f"--seed={seed}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("target, count", [("gguf", 200), ("folder", 60)])
def test_damaged_models(target: str, count: int) -> None:
    fuzz(target, count, seed=7)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("target, count", [("gguf", 10_000), ("folder", 3_000)])
def test_many_damaged_models(target: str, count: int) -> None:
    fuzz(target, count, seed=1)


def refusal(path: Path) -> str:
    with pytest.raises(ModelUnreadable) as caught:
        open_core(path, slots=1, threads=1)
    return str(caught.value)


def written(path: Path, tensors: int, keys: list[bytes], rest: bytes = b"") -> Path:
    file = path / "damaged.gguf"
    file.write_bytes(HEADER + struct.pack("<QQ", tensors, len(keys)) + b"".join(keys) + rest)
    return file


def key(kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", 1) + b"k" + struct.pack("<I", kind) + value


def tensor(dims: list[int], offset: int = 0) -> bytes:
    return struct.pack(f"<Q1sI{len(dims)}QIQ", 1, b"t", len(dims), *dims, 0, offset)


@pytest.mark.parametrize("depth", [1, 2000])
def test_arrays_of_arrays_are_refused(tmp_path: Path, depth: int) -> None:
    nested = struct.pack("<IQ", 9, 1) * depth + struct.pack("<IQ", 4, 0)
    assert "an array of arrays" in refusal(written(tmp_path, 0, [key(9, nested)]))


def test_an_array_longer_than_any_is_not_followed(tmp_path: Path) -> None:
    path = written(tmp_path, 0, [key(9, struct.pack("<IQ", 0, MOST_ELEMENTS + 1))])
    with path.open("ab") as file:
        file.truncate(1 << 30)  # every element of it is there
    assert f"expected at most {MOST_ELEMENTS}" in refusal(path)


def test_more_tensors_than_any_model_has_are_not_listed(tmp_path: Path) -> None:
    path = written(tmp_path, MOST_TENSORS + 1, [])
    with path.open("ab") as file:
        file.truncate(1 << 30)
    assert f"expected at most {MOST_TENSORS}" in refusal(path)


@pytest.mark.parametrize("dims", [[], [0], [8, 0], [2**32, 2**32], [2**63, 2], [2**64 - 1], [4, 1, 1, 1, 1]])
def test_impossible_dimensions(tmp_path: Path, dims: list[int]) -> None:
    path = written(tmp_path, 1, [ARCHITECTURE], tensor(dims) + bytes(4096))
    assert f"the tensor 't' has the impossible dimensions {dims}" in refusal(path)


@pytest.mark.parametrize("offset", [2**64 - 32, 2**63, 10**6])
def test_a_tensor_that_begins_past_the_end(tmp_path: Path, offset: int) -> None:
    assert f"begins at {offset}" in refusal(written(tmp_path, 1, [ARCHITECTURE], tensor([8], offset) + bytes(4096)))


def test_a_file_of_the_other_byte_order(tmp_path: Path) -> None:
    path = tmp_path / "big.gguf"
    path.write_bytes(b"GGUF" + struct.pack(">IQQ", 3, 0, 0))
    assert "another kind of processor" in refusal(path)


def test_a_sentence_stays_short(tmp_path: Path) -> None:
    name = b"general.architecture"
    long = struct.pack("<Q", len(name)) + name + struct.pack("<IQ", 8, 10**6) + b"a" * 10**6
    sentence = refusal(written(tmp_path, 0, [long]))
    assert len(sentence) < 1000 and sentence.endswith("qwen3next") and " … " in sentence


def test_sizes_past_32_bits(tiny_model: TinyModel, tmp_path: Path) -> None:
    data = tiny_model().read_bytes()
    before = b"llama.context_length" + struct.pack("<II", 4, 4096)
    assert before in data
    path = tmp_path / "wide.gguf"
    path.write_bytes(data.replace(before, b"llama.context_length" + struct.pack("<II", 4, 2**31)))
    assert f"its context is {2**31}, expected at most {2**31 - 1}" in refusal(path)


def test_a_convolution_that_the_core_has_no_room_for(tiny_model: TinyModel) -> None:
    sentence = refusal(tiny_model(architecture="qwen35", conv_kernel=17))
    assert sentence.endswith("its convolution has 17 taps, expected at most 16")


def test_a_name_that_is_no_text(tiny_model: TinyModel, tmp_path: Path) -> None:
    data = tiny_model().read_bytes()
    before = b"general.name" + struct.pack("<IQ", 8, 6) + b"tiny 1"
    assert before in data
    path = tmp_path / "named.gguf"
    path.write_bytes(data.replace(before, b"general.name" + struct.pack("<IIQH", 9, 0, 2, 0)))
    assert open_model(path)[0].name == "named"


def test_nested_json(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"the file deep\.json is no JSON"):
        read_object(tmp_path / "deep.json")
    (tmp_path / "config.json").write_text('{"a":' * 100_000)
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", 2) + json.dumps({}).encode())
    assert "config.json is no JSON" in refusal(tmp_path)
