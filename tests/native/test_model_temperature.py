"""Queries that grow with their positions, as Mistral's models have them: what is read, and what is refused by name."""

from math import log
from typing import Any

import numpy as np
import pytest
from paceline.native._cpu import Core
from paceline.native.core import native_shape, tables
from paceline.native.model import read_shape
from paceline.native.rope import temperatures
from paceline.native.weights import ModelUnreadable

from .opened_models import Opened, changed, opened

YARN = {
    "rope__scaling__type": "yarn",
    "rope__scaling__factor": 16.0,
    "rope__scaling__original_context_length": 256,
}


@pytest.fixture(params=["mistral3", "deepseek2"])
def model(request: pytest.FixtureRequest, tiny_model) -> Opened:
    return opened(tiny_model(architecture=request.param, kv_heads=1, rope_size=16, context=2048))


def test_the_factors_of_queries_grow_by_whole_lengths(model: Opened) -> None:
    keys = {"attention__temperature_scale": 0.25, "attention__temperature_length": 100}
    shape = read_shape(*changed(model, **keys))
    factors = temperatures(shape, 1000)
    assert factors.dtype == np.float32 and factors.shape == (1000,)
    for position in (0, 99, 100, 199, 200, 999):
        assert factors[position] == np.float32(1 + 0.25 * log(1 + position // 100))
    assert np.array_equal(tables(shape, 150).temperatures, factors[:150])
    assert temperatures(shape).shape == (2048,)


def test_without_a_scale_there_are_none(model: Opened) -> None:
    for keys in ({}, {"attention__temperature_scale": 0.0, "attention__temperature_length": 100}):
        shape = read_shape(*changed(model, **keys))
        assert (shape.temperature_scale, shape.temperature_length, len(temperatures(shape))) == (0, 0, 0)


def test_the_length_is_the_context_of_training_where_a_file_has_none(model: Opened) -> None:
    asked = {"attention__temperature_scale": 0.1}
    assert read_shape(*changed(model, **asked)).temperature_length == 2048
    assert read_shape(*changed(model, **asked, **YARN)).temperature_length == 256
    assert read_shape(*changed(model, **asked, attention__temperature_length=0)).temperature_length == 2048


@pytest.mark.parametrize(
    ("weight", "amplitude"), [(1.0, 1.0), (0.5, (1 + 0.1 * log(16)) / (1 + 0.05 * log(16))), (0.0, 1 + 0.1 * log(16))]
)
def test_a_weight_takes_from_what_turns(tiny_model, weight: float, amplitude: float) -> None:
    model = opened(tiny_model(architecture="mistral3"))
    shape = read_shape(*changed(model, **YARN, rope__scaling__yarn_log_multiplier=weight))
    assert shape.rope_amplitude == pytest.approx(amplitude)
    assert shape.query_scale == pytest.approx(shape.head_size**-0.5)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"attention__temperature_scale": -0.1}, "temperature_scale' is -0.1, expected a number above 0"),
        ({"attention__temperature_scale": 1e30}, "temperature_scale' is 1e.30, expected at most 1.0"),
        (
            {"attention__temperature_scale": 0.1, "attention__temperature_length": 0.5},
            "temperature_length' is 0.5, expected a whole number above 0",
        ),
    ],
)
def test_what_does_not_fit_is_refused(model: Opened, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelUnreadable, match=says):
        read_shape(*changed(model, **changes))


def test_factors_for_another_context_are_refused(model: Opened) -> None:
    shape = read_shape(*changed(model, attention__temperature_scale=0.1))
    shorter = tables(shape, 128)._replace(temperatures=temperatures(shape, 64))
    with pytest.raises(ValueError, match=r"temperatures that are not \[context\]"):
        Core(native_shape(shape, 128), *shorter, slots=1, pages=2, threads=1, isa="plain")
