"""Every command survives being written, cut into bytes anyhow, and read again; no text at all breaks the parser."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st
from paceline.protocol import (
    CODES,
    Auto,
    BatchDrain,
    BatchPeek,
    BatchProbe,
    Cancel,
    Command,
    Continue,
    FreeSnapshot,
    Grammar,
    Help,
    Ids,
    Line,
    LineReader,
    ListRequests,
    ListSnapshots,
    ListTargetCacheSlots,
    Load,
    Options,
    Ping,
    PromptFile,
    Quit,
    Refusal,
    Restore,
    RestoreChain,
    Sampling,
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
    format_command,
    parse,
)
from paceline.protocol.grammar import USAGES
from paceline.protocol.options import OPTIONS

LARGEST = 2**31 - 1

req_ids = st.integers(1, 2**30 - 1)
tags = st.just(0) | req_ids
naturals = st.integers(0, LARGEST)
counts = st.integers(1, LARGEST)
slots = st.none() | naturals
limits = st.none() | counts
names = st.from_regex(r"[A-Za-z0-9_.][A-Za-z0-9_.-]{0,63}", fullmatch=True)
words = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters=" "), min_size=1, max_size=20)
paths = words.filter(lambda path: not path.lower().startswith("ids:"))
prompts = st.builds(Ids, st.lists(naturals, min_size=1, max_size=20).map(tuple)) | st.builds(PromptFile, paths)
finite = st.floats(allow_nan=False, allow_infinity=False)
samplings = st.builds(
    Sampling,
    st.floats(0, 1e9),
    naturals,
    st.floats(0, 1, exclude_min=True),
    st.floats(0, 1),
    st.floats(0, 1e9, exclude_min=True),
    finite,
    finite,
    st.none() | st.integers(0, 2**63 - 1),
    st.dictionaries(naturals, finite, max_size=4).map(lambda biases: tuple(biases.items())),
    naturals,
)
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
some_text = any_text.filter(bool)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | finite | any_text,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(some_text, children, max_size=3),
    max_leaves=8,
)
grammars = st.builds(Grammar, st.sampled_from(["regex", "lark"]), some_text) | st.builds(
    Grammar.json, st.booleans() | st.dictionaries(some_text, values, max_size=3)
)
options = st.builds(
    Options,
    samplings,
    st.lists(naturals, max_size=4).map(tuple),
    st.booleans(),
    st.booleans(),
    naturals,
    st.none() | st.tuples(counts, names),
    st.none() | grammars,
)
ranges = st.tuples(naturals, naturals).filter(lambda pair: pair[0] < pair[1])

commands: dict[type, st.SearchStrategy[Any]] = {
    Start: st.builds(Start, prompts, counts, limits, options, slots, req_id=req_ids),
    Continue: st.builds(Continue, counts, slots, slots, req_id=req_ids),
    Cancel: st.builds(Cancel, req_ids, slots, req_id=tags),
    SchedStep: st.builds(SchedStep, req_id=tags),
    SchedDrain: st.builds(SchedDrain, req_id=tags),
    BatchDrain: st.builds(BatchDrain, limits, req_id=tags),
    Auto: st.builds(Auto, st.booleans(), req_id=tags),
    BatchPeek: st.builds(BatchPeek, limits, req_id=tags),
    BatchProbe: st.builds(BatchProbe, limits, req_id=tags),
    TargetStep: st.builds(TargetStep, limits, req_id=tags),
    TargetTail: st.builds(TargetTail, limits, req_id=tags),
    Wait: st.builds(Wait, slots, req_id=tags),
    ListRequests: st.builds(ListRequests, req_id=tags),
    ListTargetCacheSlots: st.builds(ListTargetCacheSlots, req_id=tags),
    Snapshot: st.builds(Snapshot, names, naturals, req_id=tags),
    SnapshotThin: st.builds(lambda k, r, s, q: SnapshotThin(k, r[0], r[1], s, req_id=q), names, ranges, naturals, tags),
    FreeSnapshot: st.builds(FreeSnapshot, names, req_id=tags),
    ListSnapshots: st.builds(ListSnapshots, req_id=tags),
    Save: st.builds(Save, names, words, req_id=tags),
    Load: st.builds(Load, names, words, req_id=tags),
    Restore: st.builds(Restore, names, prompts, counts, limits, options, req_id=req_ids),
    RestoreChain: st.builds(
        RestoreChain, st.none() | names, st.lists(names, max_size=4).map(tuple), prompts, counts, limits, req_id=req_ids
    ),
    Stats: st.builds(Stats, req_id=tags),
    Trace: st.builds(Trace, st.none() | words, req_id=tags),
    Help: st.builds(Help, st.none() | st.sampled_from(sorted(USAGES)), req_id=tags),
    Ping: st.builds(Ping, st.none() | words, req_id=tags),
    Quit: st.builds(Quit, req_id=tags),
}

fragments = st.sampled_from(
    [
        *USAGES,
        *(f"{key}=" for key in OPTIONS),
        "REQ 4",
        "SLOT=0",
        "ids:1,2",
        "ids:",
        "1",
        "0",
        "-1",
        "x=",
        "=",
        ",",
        "\t",
    ]
)


def test_every_command_is_here() -> None:
    assert set(commands) == set(get_args(Command))
    assert len(USAGES) == len(commands)
    assert all(field.name != "req_id" or field.kw_only for kind in commands for field in fields(kind))


@given(st.one_of(*commands.values()))
def test_written_and_read(command: Command) -> None:
    assert parse(format_command(command)) == command


@given(st.lists(st.one_of(*commands.values()), max_size=4), st.lists(st.integers(0, 300), max_size=8))
def test_through_bytes(sent: list[Command], cuts: list[int]) -> None:
    data = "".join(format_command(command) + "\n" for command in sent).encode()
    reader, edges = LineReader(), sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    lines = [line for start, end in pairwise(edges) for line in reader.feed(data[start:end])]
    assert [line.number for line in lines] == list(range(1, len(sent) + 1))
    assert [parse(line.text) for line in lines if isinstance(line, Line)] == sent
    assert reader.close() == []


@given(st.text() | st.lists(fragments | st.text(max_size=5), max_size=8).map(" ".join))
def test_any_text_is_a_command_or_a_refusal(text: str) -> None:
    try:
        command = parse(text)
    except Refusal as refusal:
        assert refusal.code in CODES
        assert "expected: " in refusal.error
    else:
        assert parse(format_command(command)) == command
