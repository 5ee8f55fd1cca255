"""A Command to its line, the way the parser reads it."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from .commands import (
    Auto,
    BatchDrain,
    BatchPeek,
    BatchProbe,
    Cancel,
    Command,
    Continue,
    FreeSnapshot,
    Help,
    ListRequests,
    ListSnapshots,
    ListTargetCacheSlots,
    Load,
    Ping,
    Quit,
    Restore,
    RestoreChain,
    Save,
    SchedDrain,
    SchedStep,
    Snapshot,
    SnapshotThin,
    Start,
    Stats,
    TargetStep,
    TargetTail,
    Trace,
    Wait,
)
from .errors import Refusal
from .options import write_options
from .parser import parse
from .prompts import Ids, can_be_read, write_prompt


def format_command(command: Command) -> str:
    """One line without its newline. Raises ValueError for a command that no line can express (a path with a blank, a
    total of 0): what is sent must be read back as it was meant."""
    line = _line(command)
    short = command
    if isinstance(command, Start | Restore) and isinstance(command.prompt, Ids) and can_be_read(command.prompt.tokens):
        short = replace(command, prompt=Ids((0,)))  # reading 100,000 ids again takes as long as writing them
    try:
        same = parse(line if short is command else _line(short)) == short
    except Refusal as refusal:
        raise ValueError(refusal.error.partition("; expected: ")[0]) from None  # the usage is about lines
    if not same:
        raise ValueError(f"{type(command).__name__} cannot be written: {line[:80]!r} would be read as something else")
    return line


def _line(command: Command) -> str:
    words = _words(command)
    return " ".join(["REQ", str(command.req_id), *words] if command.req_id else words)


def _words(command: Command) -> list[str]:
    match command:
        case Start(prompt, total, quantum, options, slot):
            rest = [write_prompt(prompt), str(total), *_optional(quantum), *write_options(options)]
            return [*_slot(slot), "START", *rest]
        case Continue(count, slot, epoch):
            return [*_slot(slot), "CONTINUE", str(count), *_setting("epoch", epoch)]
        case Cancel(target, slot):
            return [*_slot(slot), "CANCEL", str(target)]
        case SchedStep():
            return ["SCHED_STEP"]
        case SchedDrain():
            return ["SCHED_DRAIN"]
        case BatchDrain(limit):
            return ["SCHED_BATCH_DRAIN", *_optional(limit)]
        case Auto(on):
            return ["SCHED_AUTO", "on" if on else "off"]
        case BatchPeek(limit):
            return ["SCHED_BATCH_PEEK", *_optional(limit)]
        case BatchProbe(limit):
            return ["SCHED_BATCH_PROBE", *_optional(limit)]
        case TargetStep(limit):
            return ["SCHED_BATCH_TARGET_STEP", *_optional(limit)]
        case TargetTail(limit):
            return ["SCHED_BATCH_TARGET_TAIL", *_optional(limit)]
        case Wait(step):
            return ["WAIT", *_setting("step", step)]
        case ListRequests():
            return ["LIST_REQUESTS"]
        case ListTargetCacheSlots():
            return ["LIST_TARGET_CACHE_SLOTS"]
        case Snapshot(name, slot):
            return [*_slot(slot), "SNAPSHOT", name]
        case SnapshotThin(name, start, end, slot):
            return [*_slot(slot), "SNAPSHOT_THIN", name, str(start), str(end)]
        case FreeSnapshot(name):
            return ["FREE_SNAPSHOT", name]
        case ListSnapshots():
            return ["LIST_SLOTS"]
        case Save(name, path):
            return ["SAVE", name, path]
        case Load(name, path):
            return ["LOAD", name, path]
        case Restore(name, prompt, total, quantum, options):
            rest = [write_prompt(prompt), str(total), *_optional(quantum), *write_options(options)]
            return ["RESTORE", name, *rest]
        case RestoreChain(thick, thin, prompt, total, quantum):
            chain = ["-1" if thick is None else thick, ",".join(thin) or "-"]
            return ["RESTORE_CHAIN", *chain, write_prompt(prompt), str(total), *_optional(quantum)]
        case Stats():
            return ["STATS"]
        case Trace(path):
            return ["TRACE", "off"] if path is None else ["TRACE", "on", path]
        case Help(topic):
            return ["HELP", *_optional(topic)]
        case Ping(word):
            return ["PING", *_optional(word)]
        case Quit():
            return ["QUIT"]
        case _:
            assert_never(command)


def _slot(slot: int | None) -> list[str]:
    return [] if slot is None else ["SLOT", str(slot)]


def _optional(word: int | str | None) -> list[str]:
    return [] if word is None else [str(word)]


def _setting(key: str, value: int | None) -> list[str]:
    return [] if value is None else [f"{key}={value}"]
