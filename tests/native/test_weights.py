"""Model files: what is read from a good one, and the one sentence about a bad one."""

import os
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paceline.native.files.model_file import MATRIX_TYPES
from paceline.native.weights import ModelUnreadable, find_model, open_model, read_metadata


@pytest.fixture(scope="module")
def tiny(tiny_model) -> Path:
    return tiny_model(seed=1, vocab=300, type="Q4_1", embedding_type="Q8_0")


def test_the_metadata_of_a_tiny_model(tiny: Path) -> None:
    found = read_metadata(tiny)
    assert (found.path, found.architecture, found.name) == (tiny, "llama", "tiny 1")
    assert (found.vocab, found.eos) == (300, (2, 0))
    tokens = found.values["tokenizer.ggml.tokens"]
    assert len(tokens) == len(set(tokens)) == 300 and tokens[0] == "<|endoftext|>"
    assert found.values["tokenizer.ggml.add_bos_token"] is False


def test_every_value_and_tensor_is_what_the_gguf_package_reads(tiny_model) -> None:
    for options in (
        {"type": "Q4_1", "embedding_type": "Q8_0"},
        {"width": 72, "heads": 3, "kv_heads": 1, "head_size": 24},
    ):
        path = tiny_model(**options)
        oracle = gguf.GGUFReader(path)
        fields = {key: field.contents() for key, field in oracle.fields.items() if not key.startswith("GGUF.")}
        metadata, tensors = open_model(path)
        assert metadata.values == fields
        for tensor, expected in zip(tensors, oracle.tensors, strict=True):
            assert (tensor.name, tensor.type) == (expected.name, expected.tensor_type.name)
            assert [tensor.columns, tensor.rows] == [*expected.shape.tolist(), 1][:2]
            assert tensor.data.dtype == np.uint8 and tensor.data.shape[0] == tensor.rows
            assert tensor.data.tobytes() == expected.data.tobytes()


def test_the_demo_model_is_not_read_into_memory(demo_model: Path) -> None:
    metadata, tensors = open_model(demo_model)
    assert (metadata.vocab, metadata.eos) == (49152, (2, 0))
    assert len(metadata.values["tokenizer.ggml.merges"]) == 48900
    assert len(tensors) == 272 and {tensor.type for tensor in tensors} == {"F32", "Q8_0", "Q4_1"}
    base = tensors[0].data
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert isinstance(base, np.memmap) and not base.flags.writeable


def test_find_model_takes_a_path_and_names_what_is_missing(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_model(str(tiny)) == tiny
    other = tmp_path / os.fsdecode(b"m\xff.gguf")
    other.write_bytes(b"")
    with pytest.raises(ModelUnreadable, match="its path is not UTF-8"):
        find_model(str(other))
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    monkeypatch.chdir(folder)
    with pytest.raises(ModelUnreadable, match="its path is not UTF-8"):
        find_model("m.gguf")
    with pytest.raises(ModelUnreadable, match="there is no such file"):
        find_model(str(tmp_path / "none.gguf"))
    with pytest.raises(ModelUnreadable, match="it is a folder"):
        find_model(str(tmp_path))
    with pytest.raises(ModelUnreadable, match=f"^cannot read the model {tmp_path}/xxx"):
        find_model(str(tmp_path / ("x" * 300)))
    with pytest.raises(ModelUnreadable, match=r"model ~nobody-here/m\.gguf: there is no home folder ~nobody-here$"):
        find_model("~nobody-here/m.gguf")


def test_what_is_no_file_is_refused_before_it_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.gguf")
    for path in (tmp_path / "model.gguf", Path("/dev/zero")):
        with pytest.raises(ModelUnreadable, match=f"^cannot read the model {path}: it is no regular file$"):
            open_model(find_model(str(path)))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"GG", "it is no GGUF file"),
        (b"once upon a time there was a file", "it is no GGUF file"),
        (b"GGUF", "it is truncated: it ends at byte 4"),
        (b"GGUF\x01\0\0\0" + bytes(16), "version 1"),
        (b"GGUF\x03\0\0\0" + b"\xff" * 16, "it is truncated"),
        (b"GGUF\x03\0\0\0" + bytes(16), "'general.architecture' is missing"),
    ],
)
def test_no_gguf_whatever_its_name_is_one_sentence(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelUnreadable, match=reason) as caught:
        read_metadata(path)
    assert str(caught.value).startswith(f"cannot read the model {path}: ")
    assert "\n" not in str(caught.value)


def test_a_file_that_may_not_be_opened_is_one_sentence(tmp_path: Path) -> None:
    for opened in (read_metadata, open_model):
        with pytest.raises(ModelUnreadable, match="No such file"):
            opened(tmp_path / "none.gguf")
        with pytest.raises(ModelUnreadable, match=str(tmp_path)):
            opened(tmp_path)


def test_a_truncated_file_is_refused_at_every_length(tiny: Path, tmp_path: Path) -> None:
    whole, path = tiny.read_bytes(), tmp_path / "model.gguf"
    for length in [*range(0, len(whole), 331), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelUnreadable) as caught:
            open_model(path)
        assert "\n" not in str(caught.value)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.integers(4, 9000), st.integers(0, 255)), min_size=1, max_size=4))
def test_any_damage_is_read_or_refused_and_never_hangs(
    tiny: Path, tmp_path: Path, changes: list[tuple[int, int]]
) -> None:
    damaged = bytearray(tiny.read_bytes())
    for offset, value in changes:
        damaged[offset] = value
    path = tmp_path / "model.gguf"
    path.write_bytes(damaged)
    try:
        _, tensors = open_model(path)
    except ModelUnreadable as problem:
        assert "\n" not in str(problem)
    else:
        assert sum(tensor.data.nbytes for tensor in tensors) <= len(damaged) * len(tensors)


def text(value: str) -> bytes:
    raw = value.encode()
    return len(raw).to_bytes(8, "little") + raw


def number(value: int, size: int = 4) -> bytes:
    return value.to_bytes(size, "little")


def file(values: list[bytes], tensors: list[bytes]) -> bytes:
    start = b"GGUF" + number(3) + number(len(tensors), 8) + number(len(values), 8)
    return start + b"".join(values) + b"".join(tensors) + bytes(64)


ARCHITECTURE = text("general.architecture") + number(8) + text("llama")
F32, Q8_0 = 0, 8


def tensor(dimensions: list[int], kind: int = F32, offset: int = 0) -> bytes:
    sizes = b"".join(number(size, 8) for size in dimensions)
    return text("t") + number(len(dimensions)) + sizes + number(kind) + number(offset, 8)


@pytest.mark.parametrize(
    ("values", "tensors"),
    [
        ([ARCHITECTURE, ARCHITECTURE], []),
        ([text("k") + number(99)], []),
        ([text("k") + number(9) + number(4) + number(2**60, 8)], []),
        ([text("k") + number(9) + number(8) + number(2**60, 8)], []),
        ([text("k") + number(8) + number(2, 8) + b"\xff\xfe"], []),
        ([text("general.alignment") + number(4) + number(3)], []),
        ([ARCHITECTURE], [tensor([2]), tensor([2])]),
        ([ARCHITECTURE], [tensor([])]),
        ([ARCHITECTURE], [tensor([4, 0])]),
        ([ARCHITECTURE], [tensor([33], Q8_0)]),
        ([ARCHITECTURE], [tensor([2**40, 2**40])]),
        ([ARCHITECTURE], [tensor([2**20])]),
    ],
)
def test_a_header_that_is_wrong_is_one_sentence(tmp_path: Path, values: list[bytes], tensors: list[bytes]) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(file(values, tensors))
    with pytest.raises(ModelUnreadable, match=r"^cannot read the model \S+: it is (damaged|truncated)[^\n]*$"):
        open_model(path)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (tensor([2], 999), f"the tensor 't' has the type number 999, supported: {', '.join(MATRIX_TYPES)}"),
        (tensor([33], Q8_0), "it is damaged (the tensor 't' has 33 columns, expected a multiple of 32 for Q8_0)"),
    ],
)
def test_a_tensor_of_a_wrong_type_is_named(tmp_path: Path, wrong: bytes, reason: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(file([ARCHITECTURE], [wrong]))
    with pytest.raises(ModelUnreadable) as caught:
        open_model(path)
    assert str(caught.value) == f"cannot read the model {path}: {reason}"


def test_tokens_that_end_a_text(tmp_path: Path) -> None:
    def eos_of(**ids: int) -> tuple[int, ...]:
        keys = [text(f"tokenizer.ggml.{name}_token_id") + number(4) + number(value) for name, value in ids.items()]
        size = text("llama.vocab_size") + number(4) + number(10)
        path = tmp_path / "model.gguf"
        path.write_bytes(file([ARCHITECTURE, size, *keys], []))
        return read_metadata(path).eos

    assert eos_of(eos=2) == (2,)
    assert eos_of(eos=2, eot=7, eom=2) == (2, 7)
    assert eos_of(eot=4) == (4,)
    assert eos_of(eos=10) == ()
    assert eos_of(eos=1, fim_pad=3, fim_rep=4, fim_sep=5) == (1, 3, 4, 5)


def test_a_count_that_is_no_number_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(file([ARCHITECTURE, text("llama.vocab_size") + number(8) + text("many")], []))
    with pytest.raises(ModelUnreadable, match=r"the key 'llama\.vocab_size' is 'many', expected a whole number"):
        read_metadata(path)


@pytest.mark.parametrize(("size", "fits"), [(2, True), (3, True), (4, False), (2**20, False)])
def test_an_id_without_a_text_is_refused(tmp_path: Path, size: int, fits: bool) -> None:
    words = b"".join(map(text, ("a", "b", "c")))
    tokens = text("tokenizer.ggml.tokens") + number(9) + number(8) + number(3, 8) + words
    path = tmp_path / "model.gguf"
    path.write_bytes(file([ARCHITECTURE, text("llama.vocab_size") + number(4) + number(size), tokens], []))
    if fits:
        assert read_metadata(path).vocab == size
        return
    with pytest.raises(ModelUnreadable, match=rf"'llama\.vocab_size' is {size}, expected 3, its number of tokens"):
        read_metadata(path)
