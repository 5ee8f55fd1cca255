"""START and RESTORE as keyword arguments, the way a caller in Python writes them."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypedDict

from ..protocol import Grammar, Ids, Options, Restore, Sampling, Start, format_command

SAMPLING = frozenset(field.name for field in fields(Sampling))
OTHERS = frozenset(field.name for field in fields(Options)) - {"sampling"}


class RequestOptions(TypedDict, total=False):
    """The options of START by their names in the contract, except `stop`; the slot; and an id, which must be free."""

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
    grammar: Grammar | None
    predict: Sequence[int]
    slot: int | None
    req_id: int | None


class GenerateOptions(RequestOptions, total=False):
    quantum: int | None


class StartOptions(RequestOptions, total=False):
    stop: Sequence[int]


def start_line(req_id: int, ids: Sequence[int], total: int, quantum: int | None, options: StartOptions) -> str:
    """One line. Raises TypeError for an option that does not exist, ValueError for what no line can express."""
    prompt, read = Ids(tuple(ids)), _read(options)
    return format_command(Start(prompt, total, quantum, read, options.get("slot"), req_id=req_id))


def restore_line(
    name: str, req_id: int, ids: Sequence[int], total: int, quantum: int | None, options: StartOptions
) -> str:
    """As `start_line`; the scheduler chooses the slot."""
    if options.get("slot") is not None:
        raise TypeError("slot: no option of RESTORE")
    return format_command(Restore(name, Ids(tuple(ids)), total, quantum, _read(options), req_id=req_id))


def _read(options: StartOptions) -> Options:
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in options.items()
        if name not in ("slot", "req_id")
    }
    if unknown := sorted(given.keys() - SAMPLING - OTHERS):
        raise TypeError(f"{unknown[0]}: no option of START, expected one of {', '.join(sorted(SAMPLING | OTHERS))}")
    bias = given.get("logit_bias", ())
    if not isinstance(bias, tuple) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in bias):
        raise TypeError(f"logit_bias: {bias!r} is no list of pairs of a token id and a bias, as in [(28, 5.0)]")
    sampling = Sampling(**{name: given.pop(name) for name in SAMPLING & given.keys()})
    return Options(sampling, **given)
