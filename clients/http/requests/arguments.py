"""The arguments of a call as JSON: in a request, of earlier calls, and in what a model writes."""

from json import JSONDecoder
from math import isfinite
from typing import Any, Final, NoReturn

MOST_NESTED: Final = 64  # objects and lists in each other; more could be read, but not always be sent


def read_arguments(text: str) -> dict[str, Any]:
    """The object that this is the JSON of. Raises ValueError."""
    found = read_value(text)
    if not isinstance(found, dict):
        raise ValueError("is not an object")
    check_depth(found)
    return found


def read_value(text: str) -> Any:
    """Raises ValueError."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("is nested too deep") from None


def read_next(text: str, start: int) -> tuple[Any, int]:
    """The value that begins here, and where it ends. Raises ValueError."""
    try:
        return _DECODER.raw_decode(text, start)
    except RecursionError:
        raise ValueError("is nested too deep") from None


def check_depth(value: Any, left: int = MOST_NESTED) -> None:
    """Raises ValueError."""
    if isinstance(value, dict | list):
        if not left:
            raise ValueError("is nested too deep")
        for one in value.values() if isinstance(value, dict) else value:
            check_depth(one, left - 1)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if isfinite(number) else _no_number(text)


# Models also write line ends into strings as they are.
_DECODER: Final = JSONDecoder(parse_constant=_no_number, parse_float=_finite, strict=False)
