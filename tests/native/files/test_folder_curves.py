"""The constants of xIELU in folders of Apertus."""

import re

import numpy as np
import pytest
from paceline.native.files.folder_curves import split_curves
from paceline.native.files.model_file import Tensor

ALL = {
    "model.layers.0.mlp.act_fn.alpha_p": 0.25,
    "model.layers.0.mlp.act_fn.alpha_n": 0.5,
    "model.layers.1.mlp.act_fn.alpha_p": 0.75,
    "model.layers.1.mlp.act_fn.alpha_n": -0.5,
}


def numbers(values: dict[str, float]) -> dict[str, Tensor]:
    return {
        name: Tensor(name, "F32", 1, 1, np.array([[value]], np.float32).view(np.uint8))
        for name, value in values.items()
    }


def test_they_are_apart_from_the_other_tensors() -> None:
    other = {"model.norm.weight": Tensor("model.norm.weight", "F32", 1, 4, np.ones((1, 4), np.float32).view(np.uint8))}
    rest, curves = split_curves(numbers(ALL | {"model.layers.1.mlp.act_fn.beta": 0.625}) | other, 2)
    assert rest == other
    assert curves == {
        "xielu.alpha_p": [0.25, 0.75],
        "xielu.alpha_n": [0.5, -0.5],
        "xielu.beta": [0.5, 0.625],  # where a folder does not store it
        "xielu.eps": [-1e-6, -1e-6],
    }


def test_one_that_is_missing_or_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match=re.escape("the tensor 'model.layers.2.mlp.act_fn.alpha_p' is missing")):
        split_curves(numbers(ALL), 3)
    two = {name: Tensor(name, "F32", 1, 2, np.ones((1, 2), np.float32).view(np.uint8)) for name in list(ALL)[:1]}
    with pytest.raises(ValueError, match=re.escape("act_fn.alpha_p' is [1, 2], expected one number")):
        split_curves(numbers(ALL) | two, 2)
