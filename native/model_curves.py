"""What a file says of xIELU, the activation of Apertus (https://arxiv.org/abs/2411.13010)."""

from collections.abc import Sequence
from math import exp, isfinite, log1p
from typing import Any

from .metadata_keys import Keys
from .shape import Curve

MOST = 80.0  # of a constant whose softplus counts
LEAST_BOUND = -1e-4  # what is below 0 but above the bound counts as the bound, which no sum of a step can tell


def read_curves(keys: Keys, layers: int) -> tuple[Curve, ...]:
    """[layers]. The keys have no architecture before them, and a number or a list of one for each layer."""
    positive, negative, linear, bound = (
        _numbers(keys, f"xielu.{name}", layers) for name in ("alpha_p", "alpha_n", "beta", "eps")
    )
    if wrong := [value for value in bound if not LEAST_BOUND <= value <= 0]:
        raise ValueError(f"the key 'xielu.eps' is {wrong[0]!r}, expected {LEAST_BOUND} to 0")
    return tuple(
        (log1p(exp(p)), line + log1p(exp(n)), line) for p, n, line in zip(positive, negative, linear, strict=True)
    )


def _numbers(keys: Keys, name: str, layers: int) -> Sequence[float]:
    value: Any = keys.values.get(name)
    numbers = value if isinstance(value, list) else [value] * layers
    if len(numbers) != layers or not all(
        type(number) in (int, float) and isfinite(number) and abs(number) <= MOST for number in numbers
    ):
        raise ValueError(f"the key {name!r} is {value!r}, expected a number, or one for each of {layers} layers")
    return numbers
