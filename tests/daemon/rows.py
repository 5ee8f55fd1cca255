"""One generation and what is known of it beforehand: the rows of the plain model (model.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import Any

from paceline.daemon.null_engine import VOCABULARY, mix, mix_all

EOS = frozenset(range(7, VOCABULARY, 60))
STATES = ("queued", "prefill", "decode", "parked")


@dataclass
class Course:
    """What a request is told if nobody stops it: the null engine's published rule, written out."""

    prompt: Sequence[int]
    total: int
    seed: int | None
    stops: frozenset[int] = frozenset()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        self.tokens: list[int] = []
        self.logits: list[bytes] = []
        self.reasons, self.last = {"length"}, -1
        state = mix_all(self.prompt)
        for position in range(len(self.prompt) - 1, len(self.prompt) + self.total - 1):
            token = (state if self.seed is None else mix(mix(state, self.seed), position)) % VOCABULARY
            self.logits.append(state.to_bytes(8, "little"))
            ends = {"stop": token in self.stops, "eos": token in EOS and not self.ignore_eos}
            if any(ends.values()):
                self.reasons, self.last = {reason for reason, met in ends.items() if met}, token
                break
            self.tokens.append(token)
            state = mix(state, token)

    def digest(self, predictions: int) -> str:
        return sha256(b"".join(islice(self.logits, predictions))).hexdigest()


@dataclass(eq=False)
class Row:
    prompt: tuple[int, ...]
    total: int
    quantum: int
    course: Course | None  # None: sampled with a seed that only its end tells
    options: dict[str, Any]
    key: str | None = None  # equal ones may share the row
    cached: int = 0  # so many tokens of a snapshot need no prefill
    surely: bool = True  # unless it had to wait, and let go of them
    slot: int | None = None
    epoch: int | None = None
    grant: int = 0
    tokens: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)  # of its frames
    seen: dict[int, int] = field(default_factory=dict)  # its listeners, the owner first -> how many they have been told
    passed: int = 0  # how often one that came later got a slot before it
    ahead: set[Row] = field(default_factory=set)  # those that are parked since its last SCHED_STEP

    @property
    def owner(self) -> int:
        return next(iter(self.seen))

    @property
    def state(self) -> str:
        began = 0 if self.slot is None else 1 if not self.tokens else 2 if self.grant else 3
        return STATES[began]

    @property
    def due(self) -> bool:
        return self.slot is not None and self.grant > 0

    @property
    def position(self) -> int:
        return len(self.prompt) + len(self.tokens) - 1

    @property
    def remaining(self) -> int:
        return self.total - len(self.tokens)

    @property
    def ids(self) -> tuple[int, ...]:
        return (*self.prompt, *self.tokens)[: self.position]

    @property
    def complete(self) -> bool:
        return self.course is not None and self.tokens == self.course.tokens
