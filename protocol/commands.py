"""What a line can ask for, as values. `req_id` is the line's REQ tag, 0 if it has none."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field

from .options import Options
from .prompts import Prompt


@dataclass(frozen=True, slots=True)
class Start:
    """Admit a request: prefill, then decode its first quantum (None: all of total)."""

    prompt: Prompt
    total: int
    quantum: int | None = None
    options: Options = field(default_factory=Options)
    slot: int | None = None
    _: KW_ONLY
    req_id: int = 0


@dataclass(frozen=True, slots=True)
class Continue:
    """Grant request `req_id` count more of its total; slot and epoch, if given, must be the ones it holds."""

    count: int
    slot: int | None = None
    epoch: int | None = None
    _: KW_ONLY
    req_id: int = 0


@dataclass(frozen=True, slots=True)
class Cancel:
    target: int
    slot: int | None = None
    _: KW_ONLY
    req_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedStep:
    req_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedDrain:
    req_id: int = 0


@dataclass(frozen=True, slots=True)
class BatchDrain:
    limit: int | None = None
    _: KW_ONLY
    req_id: int = 0


@dataclass(frozen=True, slots=True)
class Auto:
    on: bool
    _: KW_ONLY
    req_id: int = 0


@dataclass(frozen=True, slots=True)
class BatchPeek:
    limit: int | None = None
    _: KW_ONLY
    req_id: int = 0


@dataclass(frozen=True, slots=True)
class BatchProbe:
    limit: int | None = None
    _: KW_ONLY
    req_id: int = 0


@dataclass(frozen=True, slots=True)
class TargetStep:
    limit: int | None = None
    _: KW_ONLY
    req_id: int = 0


@dataclass(frozen=True, slots=True)
class TargetTail:
    limit: int | None = None
    _: KW_ONLY
    req_id: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    step: int | None = None
    _: KW_ONLY
    req_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequests:
    req_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTargetCacheSlots:
    req_id: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    name: str
    slot: int
    _: KW_ONLY
    req_id: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotThin:
    """Keep just the positions from start up to, not including, end."""

    name: str
    start: int
    end: int
    slot: int
    _: KW_ONLY
    req_id: int = 0


@dataclass(frozen=True, slots=True)
class FreeSnapshot:
    name: str
    _: KW_ONLY
    req_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSnapshots:
    """LIST_SLOTS: its name is the original's, where a snapshot lived in a slot of its own."""

    req_id: int = 0


@dataclass(frozen=True, slots=True)
class Save:
    name: str
    path: str
    _: KW_ONLY
    req_id: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    name: str
    path: str
    _: KW_ONLY
    req_id: int = 0


@dataclass(frozen=True, slots=True)
class Restore:
    name: str
    prompt: Prompt
    total: int
    quantum: int | None = None
    options: Options = field(default_factory=Options)
    _: KW_ONLY
    req_id: int = 0


@dataclass(frozen=True, slots=True)
class RestoreChain:
    thick: str | None
    thin: tuple[str, ...]
    prompt: Prompt
    total: int
    quantum: int | None = None
    _: KW_ONLY
    req_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    req_id: int = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """A timeline to a file; None ends it."""

    path: str | None
    _: KW_ONLY
    req_id: int = 0


@dataclass(frozen=True, slots=True)
class Help:
    topic: str | None = None
    _: KW_ONLY
    req_id: int = 0


@dataclass(frozen=True, slots=True)
class Ping:
    word: str | None = None
    _: KW_ONLY
    req_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quit:
    req_id: int = 0


Command = (
    Start
    | Continue
    | Cancel
    | SchedStep
    | SchedDrain
    | BatchDrain
    | Auto
    | BatchPeek
    | BatchProbe
    | TargetStep
    | TargetTail
    | Wait
    | ListRequests
    | ListTargetCacheSlots
    | Snapshot
    | SnapshotThin
    | FreeSnapshot
    | ListSnapshots
    | Save
    | Load
    | Restore
    | RestoreChain
    | Stats
    | Trace
    | Help
    | Ping
    | Quit
)
