"""ModelShape: what is read, and what is refused by name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paceline.native.files.model_file import MATRIX_TYPES
from paceline.native.fingerprint import Fingerprint
from paceline.native.model import read_shape
from paceline.native.shape import ModelShape
from paceline.native.weights import Metadata, ModelUnreadable, Tensor, open_model
from paceline.native.yarn import Yarn, amplitude

Opened = tuple[Metadata, list[Tensor]]


def opened(path: Path) -> Opened:
    return open_model(path)


@pytest.fixture(scope="module")
def tiny(tiny_model) -> Opened:
    return opened(tiny_model(seed=1, layers=2, heads=4, kv_heads=2))


def changed(tiny: Opened, **changes: Any) -> Opened:
    """The tiny model with some keys changed; None removes a key, __ stands for a dot."""
    metadata, found = tiny
    keys = {f"llama.{name.replace('__', '.')}": value for name, value in changes.items()}
    values = {key: value for key, value in {**metadata.values, **keys}.items() if value is not None}
    return replace(metadata, values=values), found


def refusal(tiny: Opened, tensors: list[Tensor] | None = None, **changes: Any) -> str:
    metadata, found = changed(tiny, **changes)
    with pytest.raises(ModelUnreadable) as caught:
        read_shape(metadata, found if tensors is None else tensors)
    assert str(caught.value).startswith(f"cannot use the model {metadata.path}: ")
    return str(caught.value)


def test_the_shape_of_the_demo_model(demo_model: Path) -> None:
    shape = read_shape(*opened(demo_model))
    assert shape == ModelShape(
        architecture="llama",
        layers=30,
        width=576,
        heads=9,
        kv_heads=3,
        head_size=64,
        ffn=1536,
        vocab=49152,
        context=8192,
        rope_base=100000.0,
        rope_size=64,
        rope_layout="pairs",
        norm_epsilon=pytest.approx(1e-5),
        tied=True,
        qkv_bias=False,
        qk_norm=False,
        kinds=("attention",) * 30,
        query_scale=0.125,
    )


def test_the_options_of_a_tiny_model_arrive(tiny_model) -> None:
    path = tiny_model(
        seed=2, width=72, heads=6, kv_heads=3, head_size=24, ffn=100, vocab=131, context=99, rope_size=8, rope_base=5e5
    )
    shape = read_shape(*opened(path))
    sizes = (shape.width, shape.heads, shape.kv_heads, shape.head_size, shape.ffn, shape.vocab, shape.context)
    assert sizes == (72, 6, 3, 24, 100, 131, 99)
    assert (shape.rope_size, shape.rope_base, shape.tied) == (8, 5e5, False)


def test_a_file_can_ask_for_the_other_rope_layout(tiny_model, tiny: Opened) -> None:
    assert read_shape(*opened(tiny_model(rope_layout="halves"))).rope_layout == "halves"
    metadata, tensors = tiny
    wrong = replace(metadata, values={**metadata.values, "paceline.rope_layout": "thirds"})
    with pytest.raises(ModelUnreadable, match="'thirds', expected 'pairs' or 'halves'"):
        read_shape(wrong, tensors)


def test_optional_keys_have_their_defaults(tiny: Opened) -> None:
    metadata, tensors = tiny
    dropped = {"llama.rope.freq_base", "llama.rope.dimension_count", "llama.attention.key_length"}
    values = {key: value for key, value in metadata.values.items() if key not in dropped}
    shape = read_shape(replace(metadata, values=values), tensors)
    assert (shape.rope_base, shape.rope_size, shape.head_size) == (10000.0, 16, 16)


def test_another_architecture_is_named_with_what_is_supported(tiny: Opened) -> None:
    metadata, tensors = tiny
    with pytest.raises(ModelUnreadable, match="its architecture is 'mamba', supported: llama"):
        read_shape(replace(metadata, architecture="mamba"), tensors)


YARN = {"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"block_count": None}, "the key 'llama.block_count' is missing"),
        ({"block_count": 0}, "the key 'llama.block_count' is 0, expected a whole number above 0"),
        ({"block_count": 3}, "the tensor 'blk.2.attn_norm.weight' [1, 64] is missing"),
        ({"block_count": 2**31}, "the tensor 'blk.2.attn_norm.weight' [1, 64] is missing"),
        ({"embedding_length": 1.5}, "the key 'llama.embedding_length' is 1.5"),
        ({"embedding_length": [64, 64]}, "the key 'llama.embedding_length' is [64, 64]"),
        ({"embedding_length": 128}, "'token_embd.weight' is [128, 64], expected [128, 128]"),
        ({"attention__head_count": True}, "'llama.attention.head_count' is True"),
        ({"attention__head_count_kv": 3}, "its 4 heads are no multiple of its 3 key/value heads"),
        ({"attention__head_count_kv": 0}, "'llama.attention.head_count_kv' is 0"),
        ({"attention__head_count_kv": None}, "'blk.0.attn_k.weight' is [32, 64], expected [64, 64]"),
        ({"attention__key_length": 32}, "'blk.0.attn_q.weight' is [64, 64], expected [128, 64]"),
        ({"attention__value_length": 8}, "'llama.attention.value_length' is 8, expected the key length, 16"),
        ({"attention__layer_norm_rms_epsilon": None}, "'llama.attention.layer_norm_rms_epsilon' is missing"),
        ({"attention__layer_norm_rms_epsilon": 0.0}, "is 0.0, expected a number above 0"),
        ({"rope__freq_base": float("nan")}, "is nan, expected a number above 0"),
        ({"rope__freq_base": 0}, "is 0, expected a number above 0"),
        ({"rope__freq_base": True}, "is True, expected a number above 0"),
        ({"rope__dimension_count": 15}, "its rope size 15 is odd or above its head size 16"),
        ({"rope__dimension_count": 18}, "its rope size 18 is odd or above its head size 16"),
        (
            {"rope__scaling__type": "dynamic"},
            "'llama.rope.scaling.type' is 'dynamic', supported: 'none', 'linear', 'yarn', 'longrope'",
        ),
        ({"rope__scaling__type": "yarn"}, "'llama.rope.scaling.factor' is missing"),
        ({"attention__temperature_scale": 0.1}, "'llama.attention.temperature_scale' is 0.1, supported: 0.0"),
        ({"rope__scaling__yarn_beta_fast": 8.0}, "'llama.rope.scaling.yarn_beta_fast' is not known: its RoPE may be"),
        (YARN | {"rope__scaling__yarn_ext_factor": 0.5}, "'llama.rope.scaling.yarn_ext_factor' is 0.5, supported: 1.0"),
        (YARN | {"rope__scaling__yarn_log_multiplier": 0.1}, "'llama.rope.scaling.yarn_log_multiplier' is not known:"),
        ({"rope__freq_base_swa": 1e4}, "'llama.rope.freq_base_swa' is 10000.0, supported: 0.0"),
        (YARN | {"rope__scaling__yarn_beta_fast": 0.5}, "YaRN with a RoPE base of 10000.0 and frequencies from 1.0 to"),
        (YARN | {"rope__freq_base": 1.0}, "YaRN with a RoPE base of 1.0 and frequencies from 1.0 to 32.0 turns"),
        ({"rope__scaling__factor": -4.0}, "'llama.rope.scaling.factor' is -4.0, expected a number above 0"),
        ({"expert_count": 8}, "'llama.expert_used_count' is missing"),
        ({"expert_count": -1}, "'llama.expert_count' is -1, expected a whole number above 0"),
        ({"attention__sliding_window": -1}, "'llama.attention.sliding_window' is -1, expected a whole number above 0"),
        ({"attention__sliding_window": 2**31 - 1}, "its window is 2147483647, expected at most 2147483583"),
        ({"rope__global__freq_base": 1e6}, "'llama.rope.global.freq_base' is not known: its RoPE may be another"),
        ({"rope__scaling__attn_factor": 2.0}, "'llama.rope.scaling.attn_factor' is 2.0, supported: 1.0"),
    ],
)
def test_a_wrong_key_is_named(tiny: Opened, change: dict[str, Any], reason: str) -> None:
    assert reason in refusal(tiny, **change)


def test_a_window_of_a_llama_is_every_layers(tiny: Opened) -> None:
    shape = read_shape(*changed(tiny, attention__sliding_window=9))
    assert (set(shape.kinds), shape.window, shape.local_rope_base) == ({"sliding"}, 9, 0.0)
    assert set(read_shape(*changed(tiny, attention__sliding_window=0)).kinds) == {"attention"}


def test_whole_numbers_are_numbers_and_a_factor_of_0_is_none(tiny: Opened) -> None:
    shape = read_shape(*changed(tiny, rope__freq_base=20000, rope__scaling__factor=0.0))
    assert (shape.rope_base, shape.rope_divisors) == (20000.0, ())


def test_a_model_without_vocabulary_is_refused(tiny: Opened) -> None:
    with pytest.raises(ModelUnreadable, match="no vocabulary"):
        read_shape(replace(tiny[0], vocab=0), tiny[1])


def test_every_tensor_is_expected_by_name(tiny: Opened) -> None:
    tensors = tiny[1]
    assert read_shape(*tiny).tied is False
    for left_out in tensors:
        rest = [tensor for tensor in tensors if tensor is not left_out]
        if left_out.name == "output.weight":
            assert read_shape(tiny[0], rest).tied is True
        else:
            assert f"the tensor {left_out.name!r} [" in refusal(tiny, rest)


def test_a_tensor_that_is_there_twice_is_refused(tiny: Opened) -> None:
    assert "the tensor 'blk.1.ffn_norm.weight' is there more than once" in refusal(
        tiny, [*tiny[1], next(tensor for tensor in tiny[1] if tensor.name == "blk.1.ffn_norm.weight")]
    )


@pytest.mark.parametrize("name", ["blk.0.attn_q.bias", "blk.1.ffn_gate_inp.weight"])
def test_a_tensor_that_no_formula_uses_is_refused(tiny: Opened, name: str) -> None:
    extra = replace(tiny[1][1], name=name)
    assert f"the tensor {name!r} is not part of a supported llama model" in refusal(tiny, [*tiny[1], extra])


def test_scaled_rope_divides_the_frequencies(tiny: Opened) -> None:
    def divisors(factors: list[float] | None, **keys: Any) -> tuple[float, ...]:
        values = {f"llama.{name.replace('__', '.')}": value for name, value in keys.items()}
        metadata = replace(tiny[0], values={**tiny[0].values, **values})
        extra = []
        if factors is not None:
            data = np.array([factors], np.float32).view(np.uint8)
            extra = [
                replace(tiny[1][1], name="rope_freqs.weight", type="F32", rows=1, columns=len(factors), source=data)
            ]
        return read_shape(metadata, [*tiny[1], *extra]).rope_divisors

    assert divisors(None) == divisors([1.0] * 8) == divisors(None, rope__scaling__type="none") == ()
    assert divisors(None, rope__scaling__factor=4.0) == (4.0,) * 8
    assert divisors(None, rope__scaling__type="none", rope__scaling__factor=4.0) == ()
    assert divisors([1.0] * 4 + [8.0] * 4, rope__scaling__factor=2.0) == (2.0,) * 4 + (16.0,) * 4
    for wrong, reason in (([0.0] * 8, "no number above 0"), ([1.0] * 7, "expected \\[1, 8\\]")):
        with pytest.raises(ModelUnreadable, match=reason):
            divisors(wrong)


def test_yarn_divides_what_turns_seldom(tiny: Opened) -> None:
    shape = read_shape(*changed(tiny, **YARN, rope__scaling__original_context_length=2048))
    assert shape.rope_divisors[0] == 1.0 and shape.rope_divisors[-1] == 4.0
    assert list(shape.rope_divisors) == sorted(shape.rope_divisors)
    assert shape.rope_amplitude == pytest.approx(1.1386294)
    assert shape.context == 4 * 2048
    with pytest.raises(ModelUnreadable, match="from 1000"):
        read_shape(*changed(tiny, **YARN, rope__scaling__yarn_beta_slow=1e3))
    more = {"rope__scaling__yarn_attn_factor": 0.5, "rope__scaling__yarn_ext_factor": 1.0}
    other = read_shape(*changed(tiny, **YARN, **more, rope__scaling__original_context_length=2048))
    assert other == shape
    metadata, tensors = changed(tiny, **YARN)
    for given, loud in ((0.5, 0.5), (1, 1.0)):
        said = replace(metadata, values={**metadata.values, "paceline.rope_amplitude": given})
        assert read_shape(said, tensors).rope_amplitude == loud


def of_factors(tiny: Opened, factors: dict[str, list[float]], **keys: Any) -> ModelShape:
    """The tiny model with tensors of RoPE factors, each [8]."""
    extra = [
        replace(tiny[1][1], name=f"{name}.weight", type="F32", rows=1, columns=8, source=row.view(np.uint8))
        for name, row in ((name, np.array([values], np.float32)) for name, values in factors.items())
    ]
    metadata, tensors = changed(tiny, **keys)
    return read_shape(metadata, [*tensors, *extra])


LONG, SHORT = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0], [1.0] * 7 + [2.0]
BOTH = {"rope_factors_long": LONG, "rope_factors_short": SHORT}


@pytest.mark.parametrize("kind", [{}, {"rope__scaling__type": "longrope"}])
def test_longrope_divides_by_what_the_context_of_a_slot_asks_for(tiny: Opened, kind: dict[str, str]) -> None:
    keys = {"rope__scaling__original_context_length": 128, "rope__scaling__attn_factor": 1.25}
    shape = of_factors(tiny, BOTH, **keys, **kind)
    assert shape.rope_amplitude == 1.25 and shape.context == tiny[0].values["llama.context_length"]
    for context, divisors in ((1, SHORT), (128, SHORT), (129, LONG), (shape.context, LONG)):
        chosen = shape.within(context)
        assert chosen.rope_divisors == tuple(divisors) and chosen.within(1) == chosen.within(10**6) == chosen
    short, long = (Fingerprint(shape.within(context), "f16", "f16").hexdigest() for context in (128, 129))
    assert short != long


@pytest.mark.parametrize(
    ("factors", "keys", "reason"),
    [
        ({"rope_factors_long": LONG}, {}, "the tensor 'rope_factors_short.weight' is missing, expected one factor for"),
        ({"rope_factors_short": SHORT}, {}, "the tensor 'rope_factors_long.weight' is missing, expected one factor"),
        ({}, {"rope__scaling__type": "longrope"}, "the tensor 'rope_factors_long.weight' is missing, expected one"),
        (BOTH | {"rope_factors_short": [0.0] * 8}, {}, "'rope_factors_short.weight' holds a factor that is no number"),
        (BOTH | {"rope_freqs": LONG}, {}, "beside rope_freqs.weight, expected one kind of scaling"),
        (BOTH, YARN, "beside the scaling 'yarn', expected one kind of scaling"),
        (BOTH, {"rope__scaling__factor": 4.0}, "'llama.rope.scaling.factor' is 4.0, supported: 1.0"),
        (BOTH, {"rope__scaling__attn_factor": 0.0}, "'llama.rope.scaling.attn_factor' is 0.0, expected a number above"),
    ],
)
def test_longrope_that_is_not_whole(
    tiny: Opened, factors: dict[str, list[float]], keys: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ModelUnreadable) as caught:
        of_factors(tiny, factors, **keys)
    assert reason in str(caught.value)


def test_the_frequencies_that_yarn_leaves_to_a_qwen() -> None:
    """Of Qwen 2.5's heads: indexes of 23.6 and 39.6 turn 32 times and once in 32,768 positions."""
    divisors = Yarn(4.0, 32768).divisors(1e6, 128)
    assert divisors[:24] == [1.0] * 24 and divisors[40:] == [4.0] * 24
    assert divisors[32] == pytest.approx(1 / (1 - 9 / 17 + 9 / 17 / 4))
    assert (amplitude(4.0), amplitude(1.0), amplitude(0.5)) == (pytest.approx(1.1386294), 1.0, 1.0)
    assert Yarn(4.0, 8, 1.0, 1.0).divisors(1e6, 8) == [1.0, 4.0, 4.0, 4.0]


def test_an_unsupported_tensor_type_is_named(tiny: Opened) -> None:
    def retyped(name: str, kind: str) -> list[Tensor]:
        return [replace(tensor, type=kind) if tensor.name == name else tensor for tensor in tiny[1]]

    reason = refusal(tiny, retyped("blk.1.ffn_up.weight", "TQ1_0"))
    assert reason.endswith(f"the tensor 'blk.1.ffn_up.weight' is TQ1_0, supported: {', '.join(MATRIX_TYPES)}")
    reason = refusal(tiny, retyped("blk.1.ffn_norm.weight", "Q8_0"))
    assert reason.endswith("the tensor 'blk.1.ffn_norm.weight' is Q8_0, supported: F32")
