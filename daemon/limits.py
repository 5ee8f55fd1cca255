"""The numbers that bound one daemon."""

from __future__ import annotations

from dataclasses import dataclass

from .plan import PAGE


def pages_for(positions: int) -> int:
    return -(-positions // PAGE)


@dataclass(frozen=True, slots=True)
class Limits:
    """`pages` is the whole cache; `context` bounds one request's prompt and total together."""

    slots: int = 4
    max_batch: int = 4
    queue: int = 64
    context: int = 4096
    pages: int = 256
    step_tokens: int = 64
    prefill_tokens: int = 512
    auto: bool = False
