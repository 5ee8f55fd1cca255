"""One live request: what was asked for, and how far it has come.

Between steps its state is (position, pending): `position` tokens are in the cache, `pending` is the last token
emitted, not yet in the cache. While the prompt is being fed there is no pending token.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum

from ..protocol import Options, Sampling, Start
from .constraints import Ahead, Constraint
from .guesses import Guesser
from .limits import pages_for
from .lookup import SHORTEST
from .plan import Row
from .prefixes import Node
from .snapshots import Origin


class State(Enum):
    QUEUED = "queued"
    PREFILL = "prefill"
    DECODE = "decode"
    PARKED = "parked"


Key = tuple[tuple[int, ...], int, int, Options]
"""Prompt, total, quantum and options: equal requests have equal tokens."""


@dataclass(frozen=True, slots=True)
class Follower:
    """A request that is equal to a live one, and gets the same tokens."""

    req_id: int
    arrived: float
    priority: int


@dataclass(slots=True, eq=False)
class Request:
    req_id: int
    prompt: tuple[int, ...]
    total: int
    quantum: int
    sampling: Sampling | None
    seed: int | None
    ends: Mapping[int, str]  # token -> reason: the ids that end this request
    digest: hashlib._Hash | None
    arrived: float
    priority: int = 0
    snap: tuple[int, str] | None = None  # a snapshot is taken when the prefill reaches this position
    predicted: tuple[int, ...] = ()  # what its output may be like
    origin: Origin | None = None  # what it starts from, if that was asked for

    state: State = State.QUEUED
    slot: int | None = None
    epoch: int | None = None
    table: array[int] = field(default_factory=lambda: array("i"))
    position: int = 0
    pending: int | None = None
    output: list[int] = field(default_factory=list)
    cached: int = 0  # positions that it did not have to compute
    stops: list[int] = field(default_factory=list)  # positions in its prompt where a chunk must end, the next one last
    node: Node | None = None  # in the prefix tree, that of its first `filed` positions, whoever computed them
    filed: int = 0
    passed: int = 0  # how often a later one was admitted before it
    followers: dict[int, Follower] = field(default_factory=dict)  # by request id, in the order of coming
    key: Key | None = None  # under which equal requests find it
    grant: int = 0  # tokens that it may emit before it parks
    constraint: Constraint = None
    ahead: Ahead | None = None  # what its next tokens may be, by that
    guesser: Guesser | None = None  # once a step might try drafted tokens
    guessed: int = 0  # tokens of the output that it knows
    overtaken: bool = False  # the engine may have begun the step behind one that failed: its recurrent state is lost
    ended: str | None = None  # the reason, once it is no longer live

    rank: int = 0  # the scheduler's: place in the line
    turn: int = 0  # the scheduler's: tokens left of this turn

    admitted: float | None = None
    started: float | None = None  # when its first step was planned
    first_token: float | None = None
    last_token: float | None = None
    drafted: int = 0  # tokens that were tried ahead of their turn
    drafted_right: int = 0
    steps: int = 0
    step_rows: int = 0  # rows of all those steps together

    @property
    def urgency(self) -> int:
        """The highest priority of all that wait for it."""
        if not self.followers:  # as nearly always, and each admission asks all that wait
            return self.priority
        return max(self.priority, *(follower.priority for follower in self.followers.values()))

    @property
    def emitted(self) -> int:
        return len(self.output)

    @property
    def remaining(self) -> int:
        return self.total - len(self.output)

    @property
    def chunk_end(self) -> int:
        """The position in its prompt that its next chunk may reach."""
        return self.stops[-1] if self.stops else len(self.prompt)

    @property
    def stretch(self) -> int:
        """Tokens of the prompt that its next chunk may hold."""
        return self.chunk_end - self.position

    @property
    def waiting_tokens(self) -> int:
        """Ids that it keeps in memory while it waits."""
        return len(self.prompt) + len(self.predicted)

    @property
    def before(self) -> tuple[int, ...]:
        """Where guesses look besides its text: what is predicted, behind what the output stands behind."""
        return (*self.prompt[-SHORTEST:], *self.predicted) if self.predicted else ()

    def ids(self, position: int) -> tuple[int, ...]:
        """The first `position` ids of its text."""
        rest = position - len(self.prompt)
        return self.prompt[:position] if rest <= 0 else (*self.prompt, *self.output[:rest])

    @property
    def pages(self) -> int:
        """Pages for its whole lifetime: the last token is emitted, never fed."""
        return pages_for(len(self.prompt) + self.total - 1)

    def row(
        self,
        count: int,
        draft: Sequence[int] = (),
        ahead: int = 0,
        logits: bool = False,
        continues: bool = False,
    ) -> Row:
        """Its row in a step that feeds it `count` tokens, and behind a pending one what is drafted. The engine is to
        draft `ahead` tokens for the step after it. continues: see continuing.py."""
        assert self.slot is not None and self.epoch is not None
        position = self.position
        if self.pending is None:
            end = position + count
            tokens, outputs = self.prompt[position:end], int(end == len(self.prompt))
            following = None if outputs else self.prompt[end]
        else:
            tokens, outputs, following = (self.pending, *draft), 1 + len(draft), None
        return Row(
            self.req_id,
            self.slot,
            self.epoch,
            tokens,
            position,
            outputs,
            self.sampling,
            len(self.prompt),
            self.table,
            outputs > 0 and (logits or self.digest is not None),
            b"".join(self.ahead.allowed[:outputs]) if outputs and self.ahead is not None else None,
            ahead,
            following,
            continues,
        )


def new_request(
    start: Start, prompt: tuple[int, ...], eos: tuple[int, ...], now: float, origin: Origin | None = None
) -> Request:
    """The request that a START asks for, without the seed that may be drawn for it later."""
    options, sampling = start.options, start.options.sampling
    quantum = min(start.quantum or start.total, start.total)
    return Request(
        req_id=start.req_id,
        prompt=prompt,
        total=start.total,
        quantum=quantum,
        grant=quantum,
        sampling=None if not beyond_greedy(sampling) else replace(sampling, seed=sampling.seed or 0),
        seed=sampling.seed,
        ends=_ends(options, eos),
        digest=hashlib.sha256() if options.hash else None,
        arrived=now,
        priority=options.priority,
        snap=options.snap,
        predicted=options.predict,
        origin=origin,
    )


def draw_seed(request: Request, draw: Callable[[], int]) -> None:
    """Draws a seed, if its sampling needs one and none was given."""
    if request.seed is None and request.sampling is not None and request.sampling.temp > 0:
        request.seed = draw()
        request.sampling = replace(request.sampling, seed=request.seed)


def beyond_greedy(sampling: Sampling) -> list[str]:
    """The options that ask for more than the token of the largest logit."""
    moot = () if sampling.temp else _MOOT
    return [name for name, plain in _PLAIN.items() if name not in moot and getattr(sampling, name) != plain]


_PLAIN = asdict(Sampling())
_MOOT = ("temp", "top_k", "top_p", "min_p", "seed")  # without effect at temperature 0


def _ends(options: Options, eos: tuple[int, ...]) -> dict[int, str]:
    ends = dict.fromkeys(options.stop, "stop")
    return ends if options.ignore_eos else ends | dict.fromkeys(eos, "eos")
