"""The layer that drafts of a Hugging Face folder: the tensors that a GGUF file has of it, or none."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paceline.native.core import open_core
from paceline.native.files.rearrange import floats
from paceline.native.model import read_shape
from paceline.native.weights import ModelUnreadable, open_model

from .folders import LLAMA, llama_tensors, write_folder
from .routed_folders import routed_folder, routed_tensors
from .test_folder_latent import CONFIG as LATENT
from .test_folder_latent import tensors as latent_tensors

LINEAR = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_conv_kernel_dim": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
FULL = {"full_attention_interval": 1, "layer_types": ["full_attention"] * 2, "head_dim": 16} | LINEAR
ROUTED = {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 8}
KINDS = {"qwen3_5_text": {}, "qwen3_5_moe_text": ROUTED, "qwen3_next": ROUTED | {"decoder_sparse_step": 1}}
OUTER = {"fc": (64, 128), "pre_fc_norm_embedding": (64,), "pre_fc_norm_hidden": (64,), "norm": (64,)}
BEHIND = {"eh_proj": (64, 128), "enorm": (64,), "hnorm": (64,), "shared_head.norm": (64,)}
REPEATED = {"embed_tokens": (131, 64), "shared_head.head": (131, 64)}


def tensors_of(kind: str) -> dict[str, Any]:
    """Of two layers; that which drafts is the second again."""
    random = np.random.RandomState(3)

    def matrix(*shape: int) -> Any:
        return (random.standard_normal(shape) * 0.2).astype(np.float32)

    found = llama_tensors()
    for layer in range(2):
        start = f"model.layers.{layer}."
        found[f"{start}self_attn.q_proj.weight"] = matrix(128, 64)
        found |= {f"{start}self_attn.{part}_norm.weight": matrix(16) for part in "qk"}
        if kind == "qwen3_5_text":
            continue
        for part in ("gate", "up", "down"):
            del found[f"{start}mlp.{part}_proj.weight"]
            shape = (64, 8) if part == "down" else (8, 64)
            found[f"{start}mlp.shared_expert.{part}_proj.weight"] = matrix(*shape)
            if kind == "qwen3_next":
                found |= {f"{start}mlp.experts.{number}.{part}_proj.weight": matrix(*shape) for number in range(3)}
        found |= {f"{start}mlp.gate.weight": matrix(3, 64), f"{start}mlp.shared_expert_gate.weight": matrix(1, 64)}
        if kind != "qwen3_next":
            found |= {f"{start}mlp.experts.gate_up_proj": matrix(3, 16, 64)}
            found |= {f"{start}mlp.experts.down_proj": matrix(3, 64, 8)}
    last = "model.layers.1."
    drafts = {f"mtp.layers.0.{name.removeprefix(last)}": each for name, each in found.items() if name.startswith(last)}
    return found | drafts | {f"mtp.{name}.weight": matrix(*shape) for name, shape in OUTER.items()}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def folder_of(path: Path, kind: str, tensors: dict[str, Any] | None = None) -> Path:
    return write_folder(path / "m", tensors or tensors_of(kind), LLAMA | {"model_type": kind} | FULL | KINDS[kind])


def with_its_twin(folder: Path) -> dict[str, Any]:
    """All tensors; the layer that drafts has those of the second, and four of its own."""
    metadata, tensors = open_model(folder, drafting=True)
    found = {tensor.name: floats(tensor) for tensor in tensors}
    shape = read_shape(metadata, tensors)
    assert (shape.layers, shape.drafting) == (2, 1)
    twins = {name: name.replace("blk.1.", "blk.2.") for name in found if name.startswith("blk.1.")}
    for name, twin in twins.items():
        assert np.array_equal(found[name], found[twin])
    own = {name for name in found if name.startswith("blk.2.")} - {*twins.values()}
    assert own == {f"blk.2.nextn.{name}.weight" for name in ("eh_proj", "enorm", "hnorm", "shared_head_norm")}
    return found


def test_it_is_a_layer_behind_the_others(tmp_path: Path, kind: str) -> None:
    given = tensors_of(kind)
    folder = folder_of(tmp_path, kind, given)
    found = with_its_twin(folder)
    assert np.array_equal(found["blk.2.nextn.eh_proj.weight"], given["mtp.fc.weight"])
    for name, part in (
        ("enorm", "pre_fc_norm_embedding"),
        ("hnorm", "pre_fc_norm_hidden"),
        ("shared_head_norm", "norm"),
    ):
        assert np.array_equal(found[f"blk.2.nextn.{name}.weight"][0], given[f"mtp.{part}.weight"] + np.float32(1))
    assert open_core(folder, slots=1, context=64, threads=1, drafting=True).draft_cost > 0


def test_where_no_drafts_are_wanted_it_is_left_out(tmp_path: Path, kind: str) -> None:
    plain = {name: each for name, each in tensors_of(kind).items() if not name.startswith("mtp.")}
    ours, theirs = open_model(folder_of(tmp_path, kind))[1], open_model(folder_of(tmp_path / "b", kind, plain), True)[1]
    assert [tensor.name for tensor in ours] == [tensor.name for tensor in theirs]


def test_two_of_them_are_left_out(tmp_path: Path) -> None:
    tensors = tensors_of("qwen3_5_text")
    more = {name.replace("mtp.layers.0.", "mtp.layers.1."): each for name, each in tensors.items()}
    found = open_model(folder_of(tmp_path, "qwen3_5_text", tensors | more), drafting=True)[1]
    assert not any(tensor.name.startswith("blk.2.") for tensor in found)


def test_what_is_missing_of_it_or_not_known_is_named(tmp_path: Path) -> None:
    tensors = tensors_of("qwen3_5_text")
    folder = folder_of(tmp_path, "qwen3_5_text", tensors | {"mtp.more.weight": tensors["mtp.norm.weight"]})
    with pytest.raises(ModelUnreadable, match=r"'mtp.more.weight' is not part of a supported layer that drafts"):
        open_model(folder, drafting=True)
    del tensors["mtp.pre_fc_norm_hidden.weight"]
    with pytest.raises(ModelUnreadable, match=r"the tensor 'blk.2.nextn.hnorm.weight' \[1, 64\] is missing"):
        read_shape(*open_model(folder_of(tmp_path / "b", "qwen3_5_text", tensors), drafting=True))


def drafting_layer(tensors: dict[str, Any]) -> dict[str, Any]:
    """Of two layers, the second again as GLM's folders have one that drafts, with the model's embedding and head."""
    last = "model.layers.1."
    again = {name.replace(last, "model.layers.2."): each for name, each in tensors.items() if name.startswith(last)}
    random = np.random.RandomState(4)
    own = {name: random.standard_normal(shape).astype(np.float32) for name, shape in (BEHIND | REPEATED).items()}
    return again | {f"model.layers.2.{name}.weight": each for name, each in own.items()}


@pytest.fixture(params=["glm4_moe", "glm4_moe_lite"])
def counted(request: pytest.FixtureRequest) -> Any:
    """Writes a folder whose layer that drafts is counted, with more tensors."""

    def folder(path: Path, more: dict[str, Any]) -> Path:
        if request.param == "glm4_moe":
            return routed_folder(path, "glm4_moe", more=drafting_layer(routed_tensors("glm4_moe")) | more)
        tensors = latent_tensors(2)
        return write_folder(path, tensors | drafting_layer(tensors) | more, LATENT)

    return folder


def test_one_that_is_counted_is_a_layer_behind_the_others(tmp_path: Path, counted: Any) -> None:
    folder = counted(tmp_path, {})
    found = with_its_twin(folder)
    given = drafting_layer({})
    assert np.array_equal(found["blk.2.nextn.eh_proj.weight"], given["model.layers.2.eh_proj.weight"])
    assert np.array_equal(found["blk.2.nextn.hnorm.weight"][0], given["model.layers.2.hnorm.weight"])
    assert np.array_equal(
        found["blk.2.nextn.shared_head_norm.weight"][0], given["model.layers.2.shared_head.norm.weight"]
    )
    assert not any(tensor.name.startswith("blk.2.") for tensor in open_model(folder)[1])


def test_an_unknown_part_of_one_that_is_counted_is_named(tmp_path: Path, counted: Any) -> None:
    folder = counted(tmp_path, {"model.layers.2.more.weight": np.ones(64, np.float32)})
    with pytest.raises(ModelUnreadable, match=r"the tensor 'model.layers.2.more.weight' is not part of a supported"):
        open_model(folder, drafting=True)
