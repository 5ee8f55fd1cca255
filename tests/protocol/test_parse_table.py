"""One table of lines and commands, read in both directions, then every other spelling."""

from __future__ import annotations

import pytest
from paceline.protocol import (
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
    ListRequests,
    ListSnapshots,
    ListTargetCacheSlots,
    Load,
    Options,
    Ping,
    PromptFile,
    Quit,
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

PROMPT = Ids((1, 2, 3))

# As format_command writes them: parse(line) == command and format_command(command) == line.
CANONICAL: list[tuple[str, Command]] = [
    ("REQ 4 START ids:1,2,3 6", Start(PROMPT, 6, req_id=4)),
    ("REQ 4 SLOT 0 START ids:1,2,3 6 2", Start(PROMPT, 6, 2, slot=0, req_id=4)),
    ("REQ 1073741823 START /tmp/p.bin 2147483647", Start(PromptFile("/tmp/p.bin"), 2**31 - 1, req_id=2**30 - 1)),
    ("REQ 4 START 10 2", Start(PromptFile("10"), 2, req_id=4)),
    ("REQ 4 START a=b 2", Start(PromptFile("a=b"), 2, req_id=4)),
    ("REQ 4 START ids:1,2,3 6 temp=0.5", Start(PROMPT, 6, None, Options(Sampling(temp=0.5)), req_id=4)),
    (
        "REQ 4 START ids:2147483647 6 2 temp=0.7 top_k=40 top_p=0.9 min_p=0.05 rep_penalty=1.1 freq_penalty=-0.5"
        " pres_penalty=0.25 seed=9223372036854775807",
        Start(
            Ids((2**31 - 1,)),
            6,
            2,
            Options(Sampling(0.7, 40, 0.9, 0.05, 1.1, -0.5, 0.25, 2**63 - 1)),
            req_id=4,
        ),
    ),
    (
        "REQ 4 START ids:0 6 2 stop=2,7 ignore_eos=1 hash=1 logit_bias=5:-1.5,6:100.0 logprobs=3 priority=1"
        " snap=64:a.b-c",
        Start(
            Ids((0,)),
            6,
            2,
            Options(Sampling(logit_bias=((5, -1.5), (6, 100.0)), logprobs=3), (2, 7), True, True, 1, (64, "a.b-c")),
            req_id=4,
        ),
    ),
    ("REQ 4 START ids:0 6 predict=5,0,5", Start(Ids((0,)), 6, None, Options(predict=(5, 0, 5)), req_id=4)),
    (
        r'REQ 4 START ids:0 6 grammar={"json":{"title":"a\u0020b\u00e9","maximum":1.5,"enum":[null,true]}}',
        Start(
            Ids((0,)),
            6,
            options=Options(grammar=Grammar("json", '{"title":"a bé","maximum":1.5,"enum":[null,true]}')),
            req_id=4,
        ),
    ),
    (
        r'REQ 4 START ids:0 6 grammar={"regex":"[0-9]+\u0020\\d"}',
        Start(Ids((0,)), 6, options=Options(grammar=Grammar("regex", r"[0-9]+ \d")), req_id=4),
    ),
    ("REQ 4 CONTINUE 2", Continue(2, req_id=4)),
    ("REQ 4 SLOT 3 CONTINUE 2 epoch=7", Continue(2, 3, 7, req_id=4)),
    ("CANCEL 5", Cancel(5)),
    ("REQ 4 SLOT 0 CANCEL 5", Cancel(5, 0, req_id=4)),
    ("SCHED_STEP", SchedStep()),
    ("SCHED_DRAIN", SchedDrain()),
    ("SCHED_BATCH_DRAIN", BatchDrain()),
    ("SCHED_BATCH_DRAIN 8", BatchDrain(8)),
    ("SCHED_AUTO on", Auto(True)),
    ("SCHED_AUTO off", Auto(False)),
    ("SCHED_BATCH_PEEK", BatchPeek()),
    ("REQ 9 SCHED_BATCH_PEEK 1", BatchPeek(1, req_id=9)),
    ("SCHED_BATCH_PROBE 2", BatchProbe(2)),
    ("SCHED_BATCH_TARGET_STEP", TargetStep()),
    ("SCHED_BATCH_TARGET_STEP 16", TargetStep(16)),
    ("SCHED_BATCH_TARGET_TAIL 3", TargetTail(3)),
    ("WAIT", Wait()),
    ("WAIT step=0", Wait(0)),
    ("WAIT step=9223372036854775807", Wait(2**63 - 1)),
    ("LIST_REQUESTS", ListRequests()),
    ("LIST_TARGET_CACHE_SLOTS", ListTargetCacheSlots()),
    ("SLOT 1 SNAPSHOT system", Snapshot("system", 1)),
    ("SLOT 1 SNAPSHOT_THIN 7 0 64", SnapshotThin("7", 0, 64, 1)),
    ("FREE_SNAPSHOT 7", FreeSnapshot("7")),
    ("LIST_SLOTS", ListSnapshots()),
    ("SAVE 7 /tmp/ü", Save("7", "/tmp/ü")),
    ("LOAD _x rel/path", Load("_x", "rel/path")),
    ("REQ 4 RESTORE 7 ids:1,2,3 6", Restore("7", PROMPT, 6, req_id=4)),
    ("REQ 4 RESTORE 7 p 6 2 seed=1", Restore("7", PromptFile("p"), 6, 2, Options(Sampling(seed=1)), req_id=4)),
    ("REQ 4 RESTORE_CHAIN -1 - ids:1,2,3 6", RestoreChain(None, (), PROMPT, 6, req_id=4)),
    ("REQ 4 RESTORE_CHAIN 0 1,2 ids:1,2,3 6 3", RestoreChain("0", ("1", "2"), PROMPT, 6, 3, req_id=4)),
    ("STATS", Stats()),
    ("TRACE on /tmp/t.json", Trace("/tmp/t.json")),
    ("TRACE off", Trace(None)),
    ("HELP", Help()),
    ("HELP START", Help("START")),
    ("PING", Ping()),
    ("REQ 8 PING a=b,c", Ping("a=b,c", req_id=8)),
    ("QUIT", Quit()),
]

# Other ways to write the same: parsed, never written.
SPELLINGS: list[tuple[str, Command]] = [
    ("REQ=4 CONTINUE 2", Continue(2, req_id=4)),
    ("REQUEST 4 CONTINUE 2", Continue(2, req_id=4)),
    ("REQUEST=4 CONTINUE 2", Continue(2, req_id=4)),
    ("REQ 004 CONTINUE 02", Continue(2, req_id=4)),
    ("SLOT=0 REQ=4 CONTINUE 2", Continue(2, 0, req_id=4)),
    ("SLOT 0 REQ 4 CONTINUE 2", Continue(2, 0, req_id=4)),
    ("REQUEST 4 SLOT=0 CONTINUE 2", Continue(2, 0, req_id=4)),
    ("REQ 4 CONT 2", Continue(2, req_id=4)),
    ("req 4 slot 0 cont 2 epoch=1", Continue(2, 0, 1, req_id=4)),
    ("request=4 slot=0 continue 2 EPOCH=1", Continue(2, 0, 1, req_id=4)),
    ("\t REQ \t 4\tCONTINUE  2 \t", Continue(2, req_id=4)),
    ("REQ 4 CANCEL", Cancel(4, req_id=4)),
    ("req 4 cancel 4", Cancel(4, req_id=4)),
    ("slot 0 req 4 start ids:1,2,3 6 2", Start(PROMPT, 6, 2, slot=0, req_id=4)),
    ("REQ 4 START IDS:1,2,3 6", Start(PROMPT, 6, req_id=4)),
    ("REQ 4 START ids:00000000001,2,3 6", Start(PROMPT, 6, req_id=4)),
    ("REQ 4 START ids:1,2,3 6 SEED=1", Start(PROMPT, 6, None, Options(Sampling(seed=1)), req_id=4)),
    (
        "REQ 4 START ids:1,2,3 6 2 samp=0.7,0.9,40,1.1,5",
        Start(PROMPT, 6, 2, Options(Sampling(0.7, 40, 0.9, rep_penalty=1.1, seed=5)), req_id=4),
    ),
    (
        "REQ 4 START ids:1,2,3 6 min_p=.5 samp=1,1.,0,1,0,+1,-1e0 stop=2",
        Start(PROMPT, 6, None, Options(Sampling(1, 0, 1, 0.5, 1, 1, -1, 0), stop=(2,)), req_id=4),
    ),
    ("REQ 4 START ids:1,2,3 6 temp=0 hash=0 priority=0", Start(PROMPT, 6, req_id=4)),
    ("sched_auto ON", Auto(True)),
    ("Sched_Auto Off", Auto(False)),
    ("trace OFF", Trace(None)),
    ("wait STEP=3", Wait(3)),
    ("help cont", Help("CONTINUE")),
    ("sched_batch_target_step 2", TargetStep(2)),
]


@pytest.mark.parametrize(("line", "command"), CANONICAL)
def test_both_ways(line: str, command: Command) -> None:
    assert parse(line) == command
    assert format_command(command) == line


@pytest.mark.parametrize(("line", "command"), SPELLINGS)
def test_spellings(line: str, command: Command) -> None:
    assert parse(line) == command
    assert parse(format_command(command)) == command


@pytest.mark.parametrize("line", [line for line, command in CANONICAL if isinstance(command, Continue | Auto | Stats)])
def test_lower_case(line: str) -> None:
    assert parse(line.lower()) == parse(line)
