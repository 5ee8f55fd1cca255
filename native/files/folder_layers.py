"""Which layers of a Hugging Face folder have full attention, in the form of GGUF's keys."""

from collections.abc import Sequence
from typing import Any

FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"


def recurrent_interval(kinds: Any, layers: int) -> int:
    """From layer_types [layers]: n where every n-th layer is full attention; layers + 1 where none is."""
    interval = _interval(_checked(kinds, layers, LINEAR))
    for layer, kind in enumerate(kinds):
        expected = LINEAR if (layer + 1) % interval else FULL
        if kind != expected:
            raise ValueError(
                f"the key 'layer_types' of config.json has {kind!r} as layer {layer}, expected {expected!r}: "
                f"every {interval} layers one of full attention"
            )
    return interval


def sliding_pattern(kinds: Any, layers: int) -> int | list[bool]:
    """From layer_types [layers]: n as above if they repeat so, else for each layer whether it has a window."""
    sliding = [kind == SLIDING for kind in _checked(kinds, layers, SLIDING)]
    interval = _interval(kinds)
    return interval if sliding == [(layer + 1) % interval != 0 for layer in range(layers)] else sliding


def check_alike(kinds: Any, layers: int, expected: str | None) -> None:
    """Raises ValueError unless all of layer_types, [layers] or None, are `expected`. expected None: any mix is fine, as
    the window hides nothing and both kinds compute the same."""
    if kinds is not None and any(kind != (expected or kind) for kind in _checked(kinds, layers, SLIDING)):
        raise ValueError(f"the key 'layer_types' of config.json has other layers than {expected!r}, expected none")


def _interval(kinds: Sequence[str]) -> int:
    return kinds.index(FULL) + 1 if FULL in kinds else len(kinds) + 1


def _checked(kinds: Any, layers: int, other: str) -> list[str]:
    if not isinstance(kinds, list) or len(kinds) != layers:
        found = f"a list of {len(kinds)}" if isinstance(kinds, list) else repr(kinds)
        raise ValueError(f"the key 'layer_types' of config.json is {found}, expected a list of {layers}")
    for kind in kinds:
        if kind not in (FULL, other):
            raise ValueError(f"the key 'layer_types' of config.json holds {kind!r}, supported: {FULL!r}, {other!r}")
    return kinds
