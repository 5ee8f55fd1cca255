"""A line's text to a Command. Whatever does not fit the grammar is refused: never ignored, never read as something
else. Even then the REQ tag is read first, so that the refusal reaches whoever sent the line."""

from __future__ import annotations

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
from .grammar import USAGES, Usage, find_usage
from .options import Options, read_options
from .prefixes import read_prefixes
from .prompts import read_prompt
from .words import LARGEST_LONG, LARGEST_REQUEST, integer, keyword, name, quoted, split, text, wrong


def parse(line: str) -> Command:
    """One line without its newline. Raises Refusal."""
    words = split(line)
    prefixes = read_prefixes(words)
    req_id = prefixes.req_id or 0
    if prefixes.mistake:
        raise Refusal("bad_argument", prefixes.mistake, req_id)
    if prefixes.length == len(words):
        raise Refusal("bad_command", f"{quoted(line)} holds no command; expected: one, as HELP lists them", req_id)
    verb, arguments = words[prefixes.length], words[prefixes.length + 1 :]
    usage = find_usage(verb)
    if usage is None:
        raise Refusal("bad_command", f"{quoted(verb)} is no command; expected: one of {' '.join(USAGES)}", req_id)
    try:
        _check(usage, verb, arguments, prefixes.req_id, prefixes.slot)
        return _build(usage.name, arguments, req_id, prefixes.slot)
    except Refusal as refusal:
        raise Refusal(refusal.code, f"{refusal.error}; expected: {usage.form}", req_id) from None


def _check(usage: Usage, verb: str, arguments: list[str], req_id: int | None, slot: int | None) -> None:
    """What the usage's form says of any command: which prefixes, how many words."""
    if usage.needs_req and req_id is None:
        wrong(f"{quoted(verb)} lacks its REQ prefix")
    if usage.needs_slot and slot is None:
        wrong(f"{quoted(verb)} lacks its SLOT prefix")
    if slot is not None and not usage.takes_slot:
        wrong(f"{quoted(verb)} takes no SLOT prefix, but SLOT {slot} is there")
    if len(arguments) < usage.least:
        wrong(f"{quoted(arguments[-1] if arguments else verb)} ends the line too early")
    if usage.most is not None and len(arguments) > usage.most:
        wrong(f"{quoted(arguments[usage.most])} is a word too many")


def _build(verb: str, words: list[str], req_id: int, slot: int | None) -> Command:
    match verb, words:
        case "START", [prompt, total, *rest]:
            quantum, options = _read_rest(rest)
            return Start(read_prompt(prompt), _total(total), quantum, options, slot, req_id=req_id)
        case "CONTINUE", [count, *rest]:
            return Continue(integer("n", count, 1), slot, _setting("epoch", rest), req_id=req_id)
        case "CANCEL", [target]:
            return Cancel(integer("id", target, 1, LARGEST_REQUEST), slot, req_id=req_id)
        case "CANCEL", _:
            return Cancel(req_id or wrong("'CANCEL' names no request"), slot, req_id=req_id)
        case "SCHED_STEP", _:
            return SchedStep(req_id=req_id)
        case "SCHED_DRAIN", _:
            return SchedDrain(req_id=req_id)
        case "SCHED_BATCH_DRAIN", _:
            return BatchDrain(_limit(words), req_id=req_id)
        case "SCHED_AUTO", [word]:
            return Auto(_on(word), req_id=req_id)
        case "SCHED_BATCH_PEEK", _:
            return BatchPeek(_limit(words), req_id=req_id)
        case "SCHED_BATCH_PROBE", _:
            return BatchProbe(_limit(words), req_id=req_id)
        case "SCHED_BATCH_TARGET_STEP", _:
            return TargetStep(_limit(words), req_id=req_id)
        case "SCHED_BATCH_TARGET_TAIL", _:
            return TargetTail(_limit(words), req_id=req_id)
        case "WAIT", _:
            return Wait(_setting("step", words), req_id=req_id)
        case "LIST_REQUESTS", _:
            return ListRequests(req_id=req_id)
        case "LIST_TARGET_CACHE_SLOTS", _:
            return ListTargetCacheSlots(req_id=req_id)
        case "SNAPSHOT", [snapshot] if slot is not None:
            return Snapshot(name("name", snapshot), slot, req_id=req_id)
        case "SNAPSHOT_THIN", [snapshot, start, end] if slot is not None:
            first = integer("from", start, 0)
            return SnapshotThin(name("name", snapshot), first, integer("to", end, first + 1), slot, req_id=req_id)
        case "FREE_SNAPSHOT", [snapshot]:
            return FreeSnapshot(name("name", snapshot), req_id=req_id)
        case "LIST_SLOTS", _:
            return ListSnapshots(req_id=req_id)
        case "SAVE", [snapshot, path]:
            return Save(name("name", snapshot), text("path", path), req_id=req_id)
        case "LOAD", [snapshot, path]:
            return Load(name("name", snapshot), text("path", path), req_id=req_id)
        case "RESTORE", [snapshot, prompt, total, *rest]:
            quantum, options = _read_rest(rest)
            return Restore(name("name", snapshot), read_prompt(prompt), _total(total), quantum, options, req_id=req_id)
        case "RESTORE_CHAIN", [thick, thin, prompt, total, *rest]:
            thicks, thins = _chain(thick, thin)
            quantum = _quantum(rest[0]) if rest else None
            return RestoreChain(thicks, thins, read_prompt(prompt), _total(total), quantum, req_id=req_id)
        case "STATS", _:
            return Stats(req_id=req_id)
        case "TRACE", [word, *rest]:
            return Trace(_trace_path(word, rest), req_id=req_id)
        case "HELP", _:
            return Help(_topic(words[0]) if words else None, req_id=req_id)
        case "PING", _:
            return Ping(text("word", words[0]) if words else None, req_id=req_id)
        case "QUIT", _:
            return Quit(req_id=req_id)
        case _:
            raise AssertionError(f"{verb} has a form in the grammar, but nothing builds it")


def _total(word: str) -> int:
    return integer("total", word, 1)


def _quantum(word: str) -> int:
    return integer("quantum", word, 1)


def _read_rest(words: list[str]) -> tuple[int | None, Options]:
    """What may follow a total: a quantum, then options."""
    if words and "=" not in words[0]:
        return _quantum(words[0]), read_options(words[1:])
    return None, read_options(words)


def _limit(words: list[str]) -> int | None:
    return integer("max", words[0], 1) if words else None


def _on(word: str) -> bool:
    if keyword(word) not in ("ON", "OFF"):
        wrong(f"{quoted(word)} is neither on nor off")
    return keyword(word) == "ON"


def _setting(key: str, words: list[str]) -> int | None:
    """A last word of the form key=<n>, if there is one."""
    if not words:
        return None
    written, equals, value = words[0].partition("=")
    if not equals or keyword(written).lower() != key:
        wrong(f"{quoted(words[0])} is not {key}=<n>")
    return integer(key, value, 0, LARGEST_LONG)


def _chain(thick: str, thin: str) -> tuple[str | None, tuple[str, ...]]:
    return (
        None if thick == "-1" else name("thick", thick),
        () if thin == "-" else tuple(name("thin", word) for word in thin.split(",")),
    )


def _trace_path(word: str, rest: list[str]) -> str | None:
    if _on(word) != bool(rest):
        wrong(f"{quoted(rest[0])} follows off" if rest else f"{quoted(word)} lacks the path that follows it")
    return text("path", rest[0]) if rest else None


def _topic(word: str) -> str:
    usage = find_usage(word)
    return usage.name if usage else wrong(f"{quoted(word)} is no command")
