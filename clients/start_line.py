"""START as keyword arguments, the way a caller in Python writes it."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from ..protocol import Ids, Options, Sampling, Start, format_command

SAMPLING = frozenset(field.name for field in fields(Sampling))


def start_line(
    req_id: int, ids: Sequence[int], total: int, quantum: int | None, slot: int | None, options: dict[str, Any]
) -> str:
    """One line. Raises TypeError for an option that does not exist, ValueError for what no line can say."""
    frozen: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in options.items()
    }
    sampling = Sampling(**{name: frozen.pop(name) for name in SAMPLING & frozen.keys()})
    return format_command(Start(Ids(tuple(ids)), total, quantum, Options(sampling, **frozen), slot, req_id=req_id))
