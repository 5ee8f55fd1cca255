"""The numbers that bound one daemon."""

from __future__ import annotations

from dataclasses import dataclass

from .plan import PAGE


def pages_for(positions: int) -> int:
    return -(-positions // PAGE)


@dataclass(frozen=True, slots=True)
class Limits:
    """`pages` is the whole cache, `states` how many recurrent states are kept beside it; `context` bounds one request's
    prompt and total together. At most `queue` requests wait, with `queue_tokens` ids of prompts in all."""

    slots: int = 4
    max_batch: int = 4
    queue: int = 64
    queue_tokens: int = 1 << 20
    context: int = 4096
    pages: int = 256
    states: int = 0
    step_tokens: int = 64
    prefill_tokens: int = 512
    draft: int = 0
    """Most tokens of a row that are tried ahead of their turn."""
    auto: bool = False
    reuse: bool = True
    """Pages of earlier requests are shared with later ones that begin alike."""
    coalesce: bool = False
    """Equal deterministic requests that overlap in time share a row."""
    alone: bool = False
    """One live request at a time: what a stream without tags can carry."""

    @property
    def most_positions(self) -> int:
        """The most of one request, prompt and total together: what fits is never refused for its length."""
        return min(self.context, PAGE * self.pages)
