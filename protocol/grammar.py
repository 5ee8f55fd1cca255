"""The one table of the grammar. A form says how a command is written; the parser derives from it the allowed prefixes
and the number of words, HELP prints it, and parse errors quote it as what was expected.

In a form `[…]` is optional, `<…>` stands for a word, `…` at the end of a word means any number of them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from .options import OPTIONS
from .words import LARGEST_REQUEST, keyword, quoted, wrong


class Usage(NamedTuple):
    name: str
    form: str
    does: str
    needs_req: bool
    takes_slot: bool
    needs_slot: bool
    least: int
    most: int | None


def _usage(form: str, does: str) -> Usage:
    words = form.split()
    at = next(index for index, word in enumerate(words) if word.isupper() and word.strip("[") not in ("REQ", "SLOT"))
    prefixes, arguments = words[:at], words[at + 1 :]
    return Usage(
        name=words[at],
        form=form,
        does=does,
        needs_req="REQ" in prefixes,
        takes_slot="SLOT" in prefixes or "[SLOT" in prefixes,
        needs_slot="SLOT" in prefixes,
        least=sum(not word.startswith("[") for word in arguments),
        most=None if form.endswith("…]") else len(arguments),
    )


_BUDGET: Final = "<prompt> <total> [<quantum>]"
_OPTIONS: Final = "[<option>=<value>…]"

USAGES: Final[dict[str, Usage]] = {
    usage.name: usage
    for usage in (
        _usage(f"REQ <id> [SLOT <slot>] START {_BUDGET} {_OPTIONS}", "admits a request and decodes its first quantum"),
        _usage(
            "REQ <id> [SLOT <slot>] CONTINUE <n> [epoch=<epoch>]",
            "grants n more of its total; CONT for short",
        ),
        _usage("[REQ <id>] [SLOT <slot>] CANCEL [<id>]", "ends a request in whatever state; one of the ids is needed"),
        _usage("SCHED_STEP", "grants one quantum to the next parked request in turn"),
        _usage("SCHED_DRAIN", "regrants whenever a grant is spent, until nothing is live"),
        _usage("SCHED_BATCH_DRAIN [<max>]", "the same, with at most max rows in a step"),
        _usage("SCHED_AUTO on|off", "regrants always, or no longer"),
        _usage("SCHED_BATCH_PEEK [<max>]", "shows the rows that a target step would take"),
        _usage("SCHED_BATCH_PROBE [<max>]", "computes that step and its rows one by one, on the side, and compares"),
        _usage("SCHED_BATCH_TARGET_STEP [<max>]", "one fused step: one token for every row"),
        _usage("SCHED_BATCH_TARGET_TAIL [<max>]", "the same for just the rows with one token left"),
        _usage("WAIT [step=<n>]", "holds every later line until nothing is due, or until step n"),
        _usage("LIST_REQUESTS", "the live requests"),
        _usage("LIST_TARGET_CACHE_SLOTS", "the slots"),
        _usage("SLOT <slot> SNAPSHOT <name>", "keeps a slot's state under a name"),
        _usage("SLOT <slot> SNAPSHOT_THIN <name> <from> <to>", "keeps the positions from <from> to <to> - 1 only"),
        _usage("FREE_SNAPSHOT <name>", "drops a snapshot"),
        _usage("LIST_SLOTS", "the snapshots"),
        _usage("SAVE <name> <path>", "writes a snapshot to a file"),
        _usage("LOAD <name> <path>", "reads a snapshot from a file"),
        _usage(f"REQ <id> RESTORE <name> {_BUDGET} {_OPTIONS}", "START from a snapshot"),
        _usage(f"REQ <id> RESTORE_CHAIN <thick|-1> <thin,…|-> {_BUDGET}", "START from a snapshot and thin ranges"),
        _usage("STATS", "counters and gauges"),
        _usage("TRACE on|off [<path>]", "a timeline of steps to the path that follows on; off ends it"),
        _usage("HELP [<command>]", "this grammar, or one command of it"),
        _usage("PING [<word>]", "an echo, answered in its turn"),
        _usage("QUIT", "finishes as at end of input"),
    )
}

ALIASES: Final = {"CONT": "CONTINUE"}

PREFIXES: Final = {
    "REQ": f"REQ <id>, REQ=<id>, REQUEST <id> or REQUEST=<id>, an id from 1 to {LARGEST_REQUEST}",
    "SLOT": "SLOT <slot> or SLOT=<slot>",
}


def find_usage(word: str) -> Usage | None:
    name = keyword(word)
    return USAGES.get(ALIASES.get(name, name))


def help_text(topic: str | None) -> str:
    """The whole grammar, or one command of it, ready to print."""
    if topic is None:
        lines = _rows([(usage.form, usage.does) for usage in USAGES.values()])
        return "\n".join([*lines, "prefixes, in any order, each at most once:", *PREFIXES.values()])
    usage = find_usage(topic)
    if usage is None:
        wrong(f"{quoted(topic)} is no command; expected: one of {' '.join(USAGES)}")
    lines = _rows([(usage.form, usage.does)])
    if _OPTIONS in usage.form:
        lines += ["options:", *_rows([(option.form, option.does) for option in OPTIONS.values()])]
    return "\n".join(lines)


def _rows(pairs: list[tuple[str, str]]) -> list[str]:
    return [f"{form}: {does}" for form, does in pairs]
