"""What travels between the session and the engine: the rows to run now, and what came of them."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ..protocol import Sampling

PAGE = 64
"""Positions in one page of cache."""


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What an engine says of itself. `context` is the most positions that one slot can hold."""

    model: str
    path: str | None
    architecture: str
    device: str
    vocab: int
    context: int
    eos: tuple[int, ...]
    page_bytes: int
    state_bytes: int = 0
    """Size of one kept recurrent state; 0: the model has none, only pages."""
    fingerprint: str = ""
    """Identifies the model and its cache format: a snapshot's file can be loaded only where this is equal. Empty: no
    files."""
    greedy_only: bool = False
    """It cannot run rows with sampling."""
    seats_feed: bool = False
    """A Seat computes the ids again, so that nothing is gained by sharing what others have computed."""
    column_cost: float = 0.16
    """About what one more token makes a step take, as a share of what a step of one token takes. Always the same for
    one engine, so that the same commands make the same steps."""
    wait_cost: float = 0.0
    """About what waiting for the host between two steps takes, as such a share, and as constant, of an engine that need
    not wait: it begins the step behind one whose rows continue. 0: it waits."""
    draft_cost: float = 0.0
    """About what drafting one token behind every row of a step takes, as such a share, and as constant; 0: it drafts
    nothing."""


class Row(NamedTuple):
    """One slot's share of a step: `tokens` are fed from `position` on; the last `outputs` give a prediction each.

    `sampling` None is greedy without penalties; otherwise its seed is set. The first `prompt_tokens` positions are the
    prompt's (penalties need to know). `table` holds the slot's page ids. `logits` asks for the output logits as bytes.
    `allowed` has, for each output, a bit for each token that it may be, in little-endian words of 32; None: all.
    `ahead` tokens are to be drafted behind the last right output; 0 unless the engine drafts and the row has outputs.
    `following` is the prompt's token behind those of a row without outputs.
    `continues`: as a rule the next step will feed it its one prediction, unless that ends the request, and have nobody
    else. The engine may begin that step at once, behind which a recurrent state is lost: if the row fails, its slot can
    only be seated anew.
    """

    req_id: int
    slot: int
    epoch: int
    tokens: Sequence[int]
    position: int
    outputs: int
    sampling: Sampling | None
    prompt_tokens: int
    table: array[int]
    logits: bool
    allowed: bytes | None = None
    ahead: int = 0
    following: int | None = None
    continues: bool = False

    def without_draft(self) -> Row:
        """It up to its first prediction, behind which nothing is drafted."""
        first = None if self.allowed is None else self.allowed[: len(self.allowed) // self.outputs]
        tokens = self.tokens[: len(self.tokens) - self.outputs + 1]
        return self._replace(tokens=tokens, outputs=1, allowed=first, ahead=0)


class CopyPage(NamedTuple):
    source: int
    target: int


class Seat(NamedTuple):
    """Puts the slot at position len(ids), as if it had been fed these; `state` is the kept recurrent state there."""

    slot: int
    ids: Sequence[int]
    state: int | None


class Commit(NamedTuple):
    slot: int
    position: int


class Keep(NamedTuple):
    """The slot's committed recurrent state is copied to a kept one."""

    slot: int
    state: int


class WritePage(NamedTuple):
    page: int
    data: bytes


class WriteState(NamedTuple):
    state: int
    data: bytes


Move = CopyPage | Seat | Commit | Keep | WritePage | WriteState
"""What is done to slots, pages and kept states between steps."""


class PlanKind(Enum):
    STEP = "step"
    TARGET = "target"
    PROBE = "probe"
    MOVES = "moves"


@dataclass(frozen=True, slots=True)
class Plan:
    """The moves are made first, in order, then the commits, each (slot, position); then the batches run, in order.

    STEP and TARGET have one batch, MOVES none. PROBE has the whole batch and then each of its rows alone.
    """

    kind: PlanKind
    commits: tuple[tuple[int, int], ...]
    batches: tuple[tuple[Row, ...], ...]
    moves: tuple[Move, ...] = ()


class Pieces(NamedTuple):
    """The bytes that each token stands for, [vocab], and the tokens that are signs rather than text."""

    texts: Sequence[bytes]
    signs: Collection[int]


Logprobs = tuple[float, tuple[tuple[int, float], ...]]
"""The token's log-probability, and the likeliest (id, log-probability), by the model's own logits."""


class RowResult(NamedTuple):
    """`tokens` has one prediction for every output of the row: up to the first whose logits are no numbers, or only the
    first, if the rest could not be computed. `logits` are theirs, and `logprobs`, where sampling asks for them.
    `drafted` is how the engine believes that the text goes on behind the right ones: at most the row's `ahead` tokens.
    """

    tokens: tuple[int, ...]
    logits: bytes | None
    logprobs: tuple[Logprobs, ...] | None = None
    drafted: tuple[int, ...] = ()

    def right(self, row: Row) -> tuple[int, ...]:
        """The predictions that count: the first, and each one behind drafted tokens that were all right."""
        drafted, count = row.tokens[len(row.tokens) - row.outputs + 1 :], 1
        while count < len(self.tokens) and drafted[count - 1] == self.tokens[count - 1]:
            count += 1
        return self.tokens[:count]

    def logits_of(self, output: int) -> bytes:
        assert self.logits is not None
        size = len(self.logits) // len(self.tokens)
        return self.logits[output * size : (output + 1) * size]


class RowFailure(NamedTuple):
    error: str


class StepResult(NamedTuple):
    """What one batch gave, row by row in its order."""

    rows: list[RowResult | RowFailure]
    weight_bytes: int
    seconds: float
    retried: str | None = None  # why it had to be computed row by row
