"""What the contract has, the grammar reads, and this daemon does not do yet: the one place that says so."""

from __future__ import annotations

from typing import Final

from ..protocol import (
    Command,
    FreeSnapshot,
    ListSnapshots,
    Load,
    Options,
    Refusal,
    Restore,
    RestoreChain,
    Save,
    Snapshot,
    SnapshotThin,
    Trace,
    Wait,
)

_COMMANDS: Final[dict[type, str]] = {
    Wait: "WAIT step=",
    Snapshot: "SNAPSHOT",
    SnapshotThin: "SNAPSHOT_THIN",
    FreeSnapshot: "FREE_SNAPSHOT",
    ListSnapshots: "LIST_SLOTS",
    Save: "SAVE",
    Load: "LOAD",
    Restore: "RESTORE",
    RestoreChain: "RESTORE_CHAIN",
    Trace: "TRACE",
}
_OPTIONS: Final = {"priority": 0, "snap": None, "logprobs": 0, "logit_bias": ()}
"""And what each option is when it is left out."""


def refusal_of(command: Command) -> Refusal:
    return Refusal("unsupported", f"{_COMMANDS[type(command)]} is not supported yet")


def check_options(options: Options) -> None:
    for name, left_out in _OPTIONS.items():
        if getattr(options, name) != left_out:
            raise Refusal("unsupported", f"the option {name} is not supported yet: leave it out")
