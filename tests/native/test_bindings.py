"""What the C++ core refuses by itself: sizes that no model has, missing tensors, bytes that do not lie together."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest
from paceline.native._cpu import Core, Shape
from paceline.native.arrange import arranged
from paceline.native.core import native_shape, open_core, tables
from paceline.native.model import read_shape
from paceline.native.rope_scaling import ROPE_TENSORS
from paceline.native.shape import ModelShape
from paceline.native.weights import open_model

from ..conftest import TinyModel
from .rows import Row, table

OPTIONS: dict[str, Any] = {"slots": 1, "pages": 2, "threads": 1, "isa": "plain"}
CONTEXT = 64


MORE: dict[str, dict[str, Any]] = {
    "gemma4": {"layers": 3, "borrowing": 1, "token_inputs": 32},
    "deepseek2": {"query_rank": 24},
    "mistral3": {"temperature": 8},
    "nemotron_h_moe": {"layers": 3},
    "laguna": {"local_heads": 6},
}


@pytest.fixture(
    params=[
        "llama",
        "mistral3",
        "lfm2",
        "minimax-m2",
        "olmo2",
        "olmoe",
        "afmoe",
        "exaone4",
        "cohere2",
        "apertus",
        "granite_swa",
        "laguna",
        "muse-glimmer",
        "gpt-oss",
        "glm4moe",
        "gemma3",
        "gemma4",
        "gemma4-moe",
        "deepseek2",
        "qwen35",
        "qwen35moe",
        "granitehybrid",
        "nemotron_h_moe",
    ]
)
def model(request: pytest.FixtureRequest, tiny_model: TinyModel) -> tuple[ModelShape, Any]:
    metadata, tensors = open_model(tiny_model(architecture=request.param, **MORE.get(request.param, {})))
    shape = read_shape(metadata, tensors)
    return shape, [tensor for tensor in arranged(shape, tensors) if tensor.name not in ROPE_TENSORS]


def core(shape: ModelShape, native: Shape | None = None) -> Core:
    return Core(native or native_shape(shape, CONTEXT), *tables(shape, CONTEXT), **OPTIONS)


@pytest.mark.parametrize("size", [-(2**31), -1, 2**31 - 1])
@pytest.mark.parametrize(
    "name",
    [
        *("layers", "width", "heads", "kv_heads", "head_size", "ffn", "vocab", "context", "rope_size", "experts"),
        *(
            "experts_used",
            "expert_ffn",
            "shared_ffn",
            "dense_layers",
            "conv_kernel",
            "key_heads",
            "value_heads",
            "key_size",
            "value_size",
        ),
        *("local_heads", "latent", "query_rank", "latent_keys", "latent_values"),
        *("local_kv_heads", "local_head_size", "local_rope_size", "borrowing_layers", "borrowing_ffn", "token_inputs"),
    ],
)
def test_sizes_that_no_model_has(model: tuple[ModelShape, Any], name: str, size: int) -> None:
    native = native_shape(model[0], CONTEXT)
    setattr(native, name, size)
    with pytest.raises(ValueError, match=r"expected|multiple|kinds|must be"):
        core(model[0], native)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"expert_norms": True}, "norms of the experts, expected norms after each branch too"),
        ({"post_norms": True, "kinds": ["recurrent", "attention"]}, "norms after each branch beside recurrent layers"),
        ({"layer_scale": True}, "scales of layers, expected norms after each branch too"),
        ({"borrowing_layers": 1, "kinds": ["recurrent", "recurrent"]}, "recurrent layers, expected none where"),
        ({"borrowing_layers": 1, "kinds": ["attention", "sliding"]}, "no keys and values for layer 1 to borrow"),
        ({"kinds": ["attention", "feed_forward"]}, "layers of one branch beside others, expected all of one branch"),
        ({"one_branch": True, "post_norms": True}, "layers of one branch beside another kind, expected them alone"),
        ({"layer_norm": True, "post_norms": True}, "norms that subtract the mean beside others"),
        ({"layer_norm": True, "pre_norms": False, "post_norms": True}, "norms that subtract the mean beside others"),
        ({"parallel": True, "post_norms": True}, "branches side by side beside another kind"),
        ({"parallel": True, "experts": 4, "experts_used": 1, "expert_ffn": 32}, "branches side by side beside another"),
        (
            {"layer_norm": True},
            "either norms that subtract the mean or branches side by side, expected both or neither",
        ),
        ({"parallel": True}, "either norms that subtract the mean or branches side by side, expected both or neither"),
        ({"embedding_norm": True, "token_inputs": 32}, "a norm of embeddings beside what reads them without"),
        ({"embedding_norm": True, "layer_norm": True, "parallel": True}, "a norm of embeddings beside"),
        ({"post_norm_epsilon": 1e-8}, "an epsilon of norms after each branch, expected such norms, of one kind"),
        ({"post_norm_epsilon": -1.0, "post_norms": True}, "an epsilon of norms after each branch"),
        ({"head_gates": True, "gated_attention": True}, "gates of heads beside another kind of attention"),
        ({"local_heads": 8, "gated_attention": True}, "another number of heads where layers slide, expected neither"),
        ({"local_heads": 3}, "heads 3, no multiple of kv_heads 2"),
        ({"activation": "xielu", "experts": 4, "experts_used": 1, "expert_ffn": 32}, "xIELU beside experts or layers"),
        ({"activation": "xielu", "expert_bias": True}, "feed-forward parts without a gate beside what needs one"),
        ({"rotates_first": True}, "norms after the rotation, expected norms of each head of queries and keys"),
        ({"state_space": True}, "state spaces without heads, expected some"),
        ({"state_space": True, "gated_convolution": True}, "state spaces that are convolutions, expected one of both"),
        ({"activation": "relu2", "expert_bias": True}, "feed-forward parts without a gate beside what needs one"),
        ({"activation": "relu2", "token_inputs": 32}, "feed-forward parts without a gate beside what needs one"),
    ],
)
def test_parts_that_do_not_go_together(tiny_model: TinyModel, changes: dict[str, Any], says: str) -> None:
    shape = read_shape(*open_model(tiny_model()))
    native = native_shape(shape, CONTEXT)
    for name, value in changes.items():
        setattr(native, name, value)
    with pytest.raises(ValueError, match=f"a shape with {says}"):
        core(shape, native)


@pytest.mark.parametrize("name", ["heads", "kv_heads", "rope_size", "head_size", "width", "vocab"])
def test_sizes_of_zero_or_that_do_not_fit_together(model: tuple[ModelShape, Any], name: str) -> None:
    for size in (0, 3):
        native = native_shape(model[0], CONTEXT)
        setattr(native, name, size)
        if size and name in ("width", "vocab"):
            continue  # any number will do
        if size and name == "heads" and model[0].kv_heads == 1:
            continue  # likewise
        if name == "rope_size" and not size:
            continue  # nothing turns; the tables are refused
        with pytest.raises(ValueError):
            core(model[0], native)


def test_a_step_needs_every_tensor(model: tuple[ModelShape, Any]) -> None:
    shape, tensors = model
    row = Row(0, [1, 2], 0, 1, table(0, CONTEXT), 2)
    for left_out in tensors:
        half = core(shape)
        for tensor in tensors:
            if tensor is not left_out:
                half.load(tensor.name, tensor.type, tensor.rows, tensor.columns, tensor.data, tensor.scales)
        with pytest.raises(ValueError, match="the weights are not all loaded: the "):
            half.step([row])
        half.load(left_out.name, left_out.type, left_out.rows, left_out.columns, left_out.data, left_out.scales)
        half.step([row])


def test_what_the_cores_have_no_formula_for_is_no_shape_of_theirs(model: tuple[ModelShape, Any]) -> None:
    @dataclass(frozen=True)
    class Newer(ModelShape):
        some_new_scale: float = 2.0

    newer = Newer(**{field.name: getattr(model[0], field.name) for field in fields(model[0])})
    with pytest.raises(AttributeError, match="some_new_scale"):
        native_shape(newer, CONTEXT)


def test_bytes_must_lie_together(tiny_model: TinyModel) -> None:
    metadata, tensors = open_model(tiny_model())
    shape = read_shape(metadata, tensors)
    wide = np.zeros((shape.vocab, 8 * shape.width), np.uint8)
    with pytest.raises(ValueError, match="one after the other"):
        core(shape).load("token_embd.weight", "F32", shape.vocab, shape.width, wide[:, ::2])


def test_a_bias_that_experts_cannot_be_compared_by(tiny_model: TinyModel) -> None:
    metadata, tensors = open_model(tiny_model(architecture="glm4moe"))
    bias = np.full((1, 8), np.nan, np.float32).view(np.uint8)
    with pytest.raises(ValueError, match=r"'blk.1.exp_probs_b.bias' holds a bias that is no finite number"):
        core(read_shape(metadata, tensors)).load("blk.1.exp_probs_b.bias", "F32", 1, 8, bias)


def test_weights_that_are_no_numbers_give_no_token(tiny_model: TinyModel) -> None:
    """Those of a damaged file may be anything."""
    metadata, tensors = open_model(tiny_model())
    shape = read_shape(metadata, tensors)
    for isa in ("plain", open_core(tiny_model(), slots=1).stepper.isa):  # type: ignore[attr-defined]
        broken = Core(native_shape(shape, CONTEXT), *tables(shape, CONTEXT), **(OPTIONS | {"isa": isa}))
        for tensor in tensors:
            data = np.full_like(tensor.data, 0xFF)
            broken.load(tensor.name, tensor.type, tensor.rows, tensor.columns, data, tensor.scales)
        results, _ = broken.step([Row(0, [1, 2, 3], 0, 1, table(0, CONTEXT), 3)])
        assert results[0][0] == (-1,)
