"""Hugging Face folders: what is read from a good one, and the one sentence about a bad one."""

import json
import os
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from paceline.native.core import open_core
from paceline.native.reference import open_reference
from paceline.native.reference_weights import to_float32
from paceline.native.weights import ModelUnreadable, find_model, open_model, read_metadata

from ..family_files import paired
from ..rows import all_logits
from ..sequences import run
from .folders import LLAMA, llama_tensors, refusal, write_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "tiny", llama_tensors(), LLAMA)


def test_the_metadata_of_a_folder(folder: Path) -> None:
    (folder / "generation_config.json").write_text('{"eos_token_id": [7, 2, 900]}')
    metadata = read_metadata(folder)
    assert metadata == open_model(folder)[0]
    assert (metadata.path, metadata.architecture, metadata.name) == (folder, "llama", "tiny")
    assert (metadata.vocab, metadata.eos) == (131, (7, 2))
    assert metadata.values["llama.attention.key_length"] == metadata.values["llama.rope.dimension_count"] == 16
    assert metadata.values["llama.rope.freq_base"] == 10000.0
    assert find_model(str(folder)) == folder


def test_a_config_that_is_no_file_is_refused_before_it_is_waited_for(folder: Path) -> None:
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    assert refusal(folder) == "the file config.json cannot be read (it is no regular file)"


@pytest.mark.parametrize("own_file", [False, True])
def test_special_tokens_that_end_a_text(folder: Path, own_file: bool) -> None:
    """As the settings list them, or else the tokenizer."""

    def entry(text: str, special: bool) -> dict[str, Any]:
        return {"content": text, "special": special}

    added = {0: entry("<|endoftext|>", True), 5: entry("</s>", False), 6: entry("</turn>", True), 9: entry("x", True)}
    settings: dict[str, Any] = {"eos_token": {"content": "</turn>"}}
    if own_file:
        listed = [{"id": token, **values} for token, values in added.items()]
        (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": listed}))
    else:
        settings["added_tokens_decoder"] = added
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    assert read_metadata(folder).eos == open_model(folder)[0].eos == (2, 0, 6)


@pytest.mark.parametrize("added", [None, 3, [3], [{"content": "</s>", "special": True}], {"x": {"special": True}}])
def test_special_tokens_that_are_none(folder: Path, added: Any) -> None:
    (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": added}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
    assert read_metadata(folder).eos == (2,)


def test_tensors_have_ggufs_names_and_order_of_rows(folder: Path) -> None:
    stored, found = llama_tensors(), {tensor.name: tensor for tensor in open_model(folder)[1]}
    assert len(found) == len(stored) and all(tensor.type == "F32" for tensor in found.values())
    for name, heads in (("q", 4), ("k", 2)):
        expected = paired(stored[f"model.layers.1.self_attn.{name}_proj.weight"], heads)
        assert (to_float32(found[f"blk.1.attn_{name}.weight"]) == expected).all()
    assert (to_float32(found["blk.0.ffn_down.weight"]) == stored["model.layers.0.mlp.down_proj.weight"]).all()
    assert all(tensor.data.nbytes == tensor.nbytes for tensor in found.values())


def test_what_needs_no_change_stays_in_the_file(folder: Path) -> None:
    found = {tensor.name: tensor for tensor in open_model(folder)[1]}
    base = found["blk.0.attn_v.weight"].data
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert isinstance(base, np.memmap) and not base.flags.writeable


def test_shards_are_one_model(tmp_path: Path, folder: Path) -> None:
    shards = write_folder(tmp_path / "shards", llama_tensors(), LLAMA, shards=3)
    assert not (shards / "model.safetensors").exists()
    ids = list(range(40))
    assert (run(open_reference(shards), ids) == run(open_reference(folder), ids)).all()


def test_an_index_that_an_earlier_save_left_is_not_read(tmp_path: Path, folder: Path) -> None:
    shards = write_folder(tmp_path / "twice", {**llama_tensors(), "model.norm.weight": np.zeros(64)}, LLAMA, shards=3)
    write_folder(shards, llama_tensors(), LLAMA)
    ids = list(range(40))
    for number in range(3):
        assert (run(open_reference(shards), ids) == run(open_reference(folder), ids)).all()
        (shards / f"model-{number}.safetensors").unlink()


def test_half_floats_stay_half_but_for_vectors(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "half", llama_tensors(np.float16), LLAMA)
    for tensor in open_model(folder)[1]:
        assert tensor.type == ("F32" if tensor.name.endswith("norm.weight") else "F16")
        assert tensor.data.shape == (tensor.rows, tensor.columns * (4 if tensor.type == "F32" else 2))


def test_a_head_of_its_own(tmp_path: Path) -> None:
    tensors = {**llama_tensors(), "lm_head.weight": np.ones((131, 64), np.float32)}
    same = tensors["model.embed_tokens.weight"]
    for tied, head, count in ((True, None, 1), (True, same, 0), (False, same, 1), (False, None, 1), (None, None, 1)):
        stored = tensors if head is None else {**tensors, "lm_head.weight": head}
        folder = write_folder(tmp_path / f"{tied}{count}", stored, {**LLAMA, "tie_word_embeddings": tied})
        found = [tensor for tensor in open_model(folder)[1] if tensor.name == "output.weight"]
        assert len(found) == count
    folder = write_folder(tmp_path / "lost", llama_tensors(), {**LLAMA, "tie_word_embeddings": False})
    assert refusal(folder) == "the tensor 'lm_head.weight' is missing, and tie_word_embeddings is false"


def test_a_tied_matrix_by_the_name_of_the_head(tmp_path: Path, folder: Path) -> None:
    tensors = llama_tensors()
    tensors["lm_head.weight"] = tensors.pop("model.embed_tokens.weight")
    ids = list(range(40))
    other = write_folder(tmp_path / "head", tensors, LLAMA)
    assert (run(open_reference(other), ids) == run(open_reference(folder), ids)).all()
    write_folder(other, tensors, {**LLAMA, "tie_word_embeddings": False})
    with pytest.raises(ModelUnreadable, match=r"the tensor 'token_embd\.weight' \[131, 64\] is missing"):
        open_reference(other)


def test_files_that_are_missing_or_broken(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    for length in (0, 7, 8, 500, len(whole) // 2, len(whole) - 1):
        (folder / "model.safetensors").write_bytes(whole[:length])
        assert refusal(folder).startswith("the file model.safetensors is damaged (")
    (folder / "model.safetensors").unlink()
    assert refusal(folder) == "the file model.safetensors is missing"
    (folder / "config.json").write_text("{")
    assert refusal(folder).startswith("the file config.json is no JSON (")
    (folder / "config.json").write_text("[]")
    assert refusal(folder) == "the file config.json holds no JSON object"
    (folder / "config.json").unlink()
    assert refusal(folder) == "the file config.json is missing"
    with pytest.raises(ModelUnreadable, match=r"it is a folder without a config\.json, expected a GGUF file or"):
        find_model(str(folder))


def test_a_folder_and_a_file_of_the_same_weights_give_the_same_bits(tmp_path: Path, folder: Path) -> None:
    metadata, tensors = open_model(folder)
    writer = gguf.GGUFWriter(tmp_path / "same.gguf", "llama")
    for key, value in metadata.values.items():
        if type(value) is int:
            writer.add_uint32(key, value)
        elif type(value) is float:
            writer.add_float32(key, value)
    for tensor in tensors:
        weights = to_float32(tensor)
        writer.add_tensor(tensor.name, weights[0] if tensor.rows == 1 else weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    logits = []
    for path in (folder, tmp_path / "same.gguf"):
        logits.append(all_logits(open_core(path, slots=1, threads=1), 0, list(range(70))))
    assert logits[0].tobytes() == logits[1].tobytes()


def test_shards_that_do_not_fit_their_index(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "shards", llama_tensors(), LLAMA, shards=3)
    index = folder / "model.safetensors.index.json"
    places = json.loads(index.read_text())["weight_map"]
    index.write_text(json.dumps({"weight_map": {**places, "model.more.weight": "model-1.safetensors"}}))
    assert (
        refusal(folder)
        == f"the tensor 'model.more.weight' is missing in model-1.safetensors, where {index.name} has it"
    )
    index.write_text(json.dumps({"weight_map": {**places, "model.more.weight": "../model-1.safetensors"}}))
    assert "'../model-1.safetensors', expected a name without a folder" in refusal(folder)
    index.write_text(json.dumps({"weight_map": [1]}))
    assert refusal(folder) == f"the key 'weight_map' of {index.name} is missing or no object of texts"
    index.write_text(json.dumps({"weight_map": places}))
    (folder / "model-2.safetensors").unlink()
    assert refusal(folder) == "the file model-2.safetensors is missing"


@pytest.mark.parametrize(
    ("name", "weights", "reason"),
    [
        (
            "model.norm.weight",
            np.ones(64, np.float64),
            "the tensor 'model.norm.weight' is F64, supported: F32, F16, BF16",
        ),
        (
            "model.norm.bias",
            np.ones(64, np.float32),
            "the tensor 'model.norm.bias' is not part of a supported llama model",
        ),
        (
            "model.norm.weight",
            np.ones((0, 64), np.float32),
            "the tensor 'model.norm.weight' has the impossible dimensions",
        ),
        (
            "model.layers.0.self_attn.q_proj.weight",
            np.ones((32, 64), np.float32),
            "the tensor 'model.layers.0.self_attn.",
        ),
    ],
)
def test_tensors_that_are_refused(tmp_path: Path, name: str, weights: Any, reason: str) -> None:
    assert refusal(write_folder(tmp_path / "bad", {**llama_tensors(), name: weights}, LLAMA)).startswith(reason)


def test_a_type_that_the_format_does_not_have(folder: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole.replace(b'"F32"', b'"F99"'))
    assert refusal(folder).startswith("the file model.safetensors is damaged (")
