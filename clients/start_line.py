"""START as keyword arguments, the way a caller in Python writes it."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypedDict

from ..protocol import Ids, Options, Sampling, Start, format_command

SAMPLING = frozenset(field.name for field in fields(Sampling))


class GenerateOptions(TypedDict, total=False):
    """The options of START, by their names in the contract, but for `stop`."""

    temp: float
    top_k: int
    top_p: float
    min_p: float
    rep_penalty: float
    freq_penalty: float
    pres_penalty: float
    seed: int | None
    logit_bias: Sequence[tuple[int, float]]
    logprobs: int
    ignore_eos: bool
    hash: bool
    priority: int
    snap: tuple[int, str] | None


class StartOptions(GenerateOptions, total=False):
    stop: Sequence[int]


def start_line(
    req_id: int, ids: Sequence[int], total: int, quantum: int | None, slot: int | None, options: StartOptions
) -> str:
    """One line. Raises TypeError for an option that does not exist, ValueError for what no line can say."""
    frozen: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in options.items()
    }
    sampling = Sampling(**{name: frozen.pop(name) for name in SAMPLING & frozen.keys()})
    return format_command(Start(Ids(tuple(ids)), total, quantum, Options(sampling, **frozen), slot, req_id=req_id))
