"""Everything that is refused, with the word that was wrong; and commands that no line can say."""

from __future__ import annotations

import pytest
from paceline.protocol import (
    Cancel,
    Command,
    Help,
    Ids,
    Options,
    Ping,
    PromptFile,
    Refusal,
    Restore,
    RestoreChain,
    Sampling,
    Start,
    Stats,
    format_command,
    parse,
)

PROMPT = Ids((1, 2, 3))

# line, code, REQ tag, and words that the error must hold: what was wrong and what was expected
REFUSED: list[tuple[str, str, int, list[str]]] = [
    ("", "bad_command", 0, ["holds no command", "HELP"]),
    ("REQ 4", "bad_command", 4, ["'REQ 4'", "HELP"]),
    ("# no comment here", "bad_command", 0, ["'#'", "expected: one of START CONTINUE"]),
    ("REQUESTING 4 START ids:1 2", "bad_command", 0, ["'REQUESTING'"]),
    ("REQ4 PING", "bad_command", 0, ["'REQ4'"]),
    ("SLOTS 0 PING", "bad_command", 0, ["'SLOTS'"]),
    ("STARTS", "bad_command", 0, ["'STARTS'"]),
    ("REQ 4 CONTINUES 2", "bad_command", 4, ["'CONTINUES'"]),
    ("CONT=2", "bad_command", 0, ["'CONT=2'"]),
    ("/tmp/prompt.bin 8", "bad_command", 0, ["'/tmp/prompt.bin'"]),
    ("\u017fTATS", "bad_command", 0, ["'\u017fTATS'"]),
    ("QUIT\xa0", "bad_command", 0, ["'QUIT\\xa0'"]),
    ("PI\rNG", "bad_command", 0, [r"'PI\rNG'"]),
    ("x" * 1000, "bad_command", 0, ["'" + "x" * 40 + "'… is no command"]),
    # prefixes
    ("REQ", "bad_argument", 0, ["REQ ''", "1 to 1073741823", "REQUEST=<id>"]),
    ("REQ= PING", "bad_argument", 0, ["REQ ''"]),
    ("REQ 0 PING", "bad_argument", 0, ["REQ '0'"]),
    ("REQ -1 CANCEL", "bad_argument", 0, ["REQ '-1'"]),
    ("REQ 1073741824 PING", "bad_argument", 0, ["REQ '1073741824'"]),
    ("REQ \u0664 PING", "bad_argument", 0, ["REQ '\u0664'"]),
    ("REQ 1_0 PING", "bad_argument", 0, ["REQ '1_0'"]),
    ("REQ " + "0" * 5000 + "1 PING", "bad_argument", 0, ["REQ '0000"]),
    ("REQ 4 REQ 5 PING", "bad_argument", 4, ["REQ is given twice"]),
    ("REQ 4 REQUEST=4 PING", "bad_argument", 4, ["REQ is given twice"]),
    ("SLOT 0 SLOT 0 REQ 4 CONTINUE 1", "bad_argument", 4, ["SLOT is given twice"]),
    ("SLOT x REQ 4 PING", "bad_argument", 4, ["SLOT 'x'", "SLOT=<slot>"]),
    ("SLOT REQ=4 PING", "bad_argument", 4, ["SLOT 'REQ=4'"]),
    ("REQ x SLOT y REQ 3 PING", "bad_argument", 3, ["REQ 'x'"]),
    ("SLOT 0 PING", "bad_argument", 0, ["'PING' takes no SLOT", "expected: PING [<word>]"]),
    ("REQ 4 SLOT 0 RESTORE a ids:1 2", "bad_argument", 4, ["'RESTORE' takes no SLOT"]),
    ("START ids:1 2", "bad_argument", 0, ["'START' lacks its REQ", "expected: REQ <id> [SLOT <slot>] START"]),
    ("CONT 2", "bad_argument", 0, ["'CONT' lacks its REQ"]),
    ("RESTORE a ids:1 2", "bad_argument", 0, ["'RESTORE' lacks its REQ"]),
    ("RESTORE_CHAIN -1 - ids:1 2", "bad_argument", 0, ["'RESTORE_CHAIN' lacks its REQ"]),
    ("REQ 4 SNAPSHOT a", "bad_argument", 4, ["'SNAPSHOT' lacks its SLOT"]),
    ("SNAPSHOT_THIN a 0 1", "bad_argument", 0, ["'SNAPSHOT_THIN' lacks its SLOT"]),
    # words too few, too many
    ("REQ 4 START", "bad_argument", 4, ["'START' ends the line too early"]),
    ("REQ 4 START ids:1", "bad_argument", 4, ["'ids:1' ends the line too early", "<total>"]),
    ("REQ 4 CONTINUE", "bad_argument", 4, ["'CONTINUE' ends the line too early", "<n>"]),
    ("REQ 4 CONTINUE 2 extra", "bad_argument", 4, ["'extra' is not epoch=<n>"]),
    ("REQ 4 CONTINUE 2 epoch=1 extra", "bad_argument", 4, ["'extra' is a word too many"]),
    ("CANCEL", "bad_argument", 0, ["'CANCEL' names no request"]),
    ("CANCEL 4 5", "bad_argument", 0, ["'5' is a word too many"]),
    ("STATS now", "bad_argument", 0, ["'now' is a word too many"]),
    ("PING a b", "bad_argument", 0, ["'b' is a word too many"]),
    ("REQ 4 RESTORE_CHAIN -1 - ids:1 2 2 seed=1", "bad_argument", 4, ["'seed=1' is a word too many"]),
    ("SCHED_AUTO", "bad_argument", 0, ["on|off"]),
    # numbers
    ("REQ 4 START ids:1 0", "bad_argument", 4, ["total '0'", "1 to 2147483647"]),
    ("REQ 4 START ids:1 2147483648", "bad_argument", 4, ["total '2147483648'"]),
    ("REQ 4 START ids:1 temp=1 5", "bad_argument", 4, ["total 'temp=1'"]),
    ("REQ 4 START ids:1 5 0", "bad_argument", 4, ["quantum '0'"]),
    ("REQ 4 START ids:1 5 +2", "bad_argument", 4, ["quantum '+2'"]),
    ("REQ 4 START ids:1, 5 2", "prompt_bad_token", 4, ["prompt token 1 ''"]),
    ("REQ 4 CONTINUE 0", "bad_argument", 4, ["n '0'"]),
    ("REQ 4 CONTINUE 1 epoch=", "bad_argument", 4, ["epoch ''"]),
    ("REQ 4 CONTINUE 1 epoch", "bad_argument", 4, ["'epoch' is not epoch=<n>"]),
    ("REQ 4 CONTINUE 1 step=1", "bad_argument", 4, ["'step=1' is not epoch=<n>"]),
    ("CANCEL 0", "bad_argument", 0, ["id '0'"]),
    ("CANCEL x", "bad_argument", 0, ["id 'x'"]),
    ("SCHED_BATCH_DRAIN 0", "bad_argument", 0, ["max '0'"]),
    ("SCHED_BATCH_TARGET_STEP two", "bad_argument", 0, ["max 'two'"]),
    ("WAIT 5", "bad_argument", 0, ["'5' is not step=<n>"]),
    ("WAIT step=-1", "bad_argument", 0, ["step '-1'"]),
    ("SLOT 0 SNAPSHOT_THIN a 5 5", "bad_argument", 0, ["to '5'", "from 6"]),
    # prompts
    ("REQ 4 START ids: 5", "prompt_empty", 4, ["'ids:'"]),
    ("REQ 4 START ids:1,x 5", "prompt_bad_token", 4, ["prompt token 1 'x'"]),
    ("REQ 4 START ids:-1 5", "prompt_bad_token", 4, ["prompt token 0 '-1'"]),
    ("REQ 4 START ids:7,2147483648 5", "prompt_bad_token", 4, ["prompt token 1 '2147483648'"]),
    ("REQ 4 START ids:\u0661 5", "prompt_bad_token", 4, ["prompt token 0 '\u0661'"]),
    ("REQ 4 START a\0b 5", "bad_argument", 4, [r"prompt 'a\x00b' holds a control character"]),
    # options
    ("REQ 4 START ids:1 5 2 3", "bad_argument", 4, ["'3' is no option: those are temp top_k"]),
    ("REQ 4 START ids:1 5 temp=1 2", "bad_argument", 4, ["'2' is no option"]),
    ("REQ 4 START ids:1 5 heat=1", "bad_argument", 4, ["'heat=1' is no option"]),
    ("REQ 4 START ids:1 5 temp=1 temp=1", "bad_argument", 4, ["'temp=1' sets temp a second time"]),
    ("REQ 4 START ids:1 5 seed=1 samp=1,1,0,1,1", "bad_argument", 4, ["'samp=1,1,0,1,1' sets seed a second time"]),
    ("REQ 4 START ids:1 5 samp=1,1,0,1,1 temp=1", "bad_argument", 4, ["'temp=1' sets temp a second time"]),
    ("REQ 4 START ids:1 5 samp=1,1,0,1", "bad_argument", 4, ["samp '1,1,0,1' has 4 values"]),
    ("REQ 4 START ids:1 5 samp=1,1,0,1,1,0", "bad_argument", 4, ["has 6 values"]),
    ("REQ 4 START ids:1 5 samp=1,1,x,1,1", "bad_argument", 4, ["samp: top_k 'x'"]),
    ("REQ 4 START ids:1 5 temp=", "bad_argument", 4, ["temp ''"]),
    ("REQ 4 START ids:1 5 temp=nan", "bad_argument", 4, ["temp 'nan' is no number from 0 up"]),
    ("REQ 4 START ids:1 5 temp=1e999", "bad_argument", 4, ["temp '1e999'"]),
    ("REQ 4 START ids:1 5 temp=-0.1", "bad_argument", 4, ["temp '-0.1'"]),
    (
        "REQ 4 START ids:1 5 temp=" + "1" * 41,
        "bad_argument",
        4,
        ["temp '111", "has 41 characters; a number has at most 40"],
    ),
    ("REQ 4 START ids:1 5 top_p=0", "bad_argument", 4, ["top_p '0' is not above 0"]),
    ("REQ 4 START ids:1 5 top_p=1.1", "bad_argument", 4, ["top_p '1.1' is no number from 0 to 1"]),
    ("REQ 4 START ids:1 5 min_p=2", "bad_argument", 4, ["min_p '2' is no number from 0 to 1"]),
    ("REQ 4 START ids:1 5 rep_penalty=0", "bad_argument", 4, ["rep_penalty '0' is not above 0"]),
    ("REQ 4 START ids:1 5 freq_penalty=inf", "bad_argument", 4, ["freq_penalty 'inf' is no number;"]),
    ("REQ 4 START ids:1 5 top_k=1.5", "bad_argument", 4, ["top_k '1.5'"]),
    ("REQ 4 START ids:1 5 seed=9223372036854775808", "bad_argument", 4, ["seed '9223372036854775808'"]),
    ("REQ 4 START ids:1 5 stop=", "bad_argument", 4, ["stop: token ''"]),
    ("REQ 4 START ids:1 5 predict=1,-2", "bad_argument", 4, ["predict: token '-2'"]),
    ("REQ 4 START ids:1 5 ignore_eos=yes", "bad_argument", 4, ["ignore_eos 'yes' is neither 0 nor 1"]),
    ("REQ 4 START ids:1 5 logit_bias=5", "bad_argument", 4, ["logit_bias: bias ''"]),
    ("REQ 4 START ids:1 5 logit_bias=5:1,5:2", "bad_argument", 4, ["token 5 is given twice"]),
    ("REQ 4 START ids:1 5 snap=0:a", "bad_argument", 4, ["snap: position '0'"]),
    ("REQ 4 START ids:1 5 grammar=json", "bad_argument", 4, ["grammar 'json' is no JSON with one key", r"\u0020"]),
    ("REQ 4 START ids:1 5 grammar=[1]", "bad_argument", 4, ["grammar '[1]' is no JSON with one key"]),
    ("REQ 4 START ids:1 5 grammar={}", "bad_argument", 4, ["grammar '{}' is no JSON with one key"]),
    ("REQ 4 START ids:1 5 grammar=" + "[" * 100_000, "bad_argument", 4, ["is no JSON with one key"]),
    ('REQ 4 START ids:1 5 grammar={"json":{"a":1e999}}', "bad_argument", 4, ["is no JSON with one key"]),
    ('REQ 4 START ids:1 5 grammar={"json":{"a":"\\ud800"}}', "bad_argument", 4, ["is no JSON with one key"]),
    ('REQ 4 START ids:1 5 grammar={"regex":"\\ud800"}', "bad_argument", 4, ["is no JSON with one key"]),
    (
        'REQ 4 START ids:1 5 grammar={"json":1}',
        "bad_argument",
        4,
        ["grammar: its schema is neither an object nor"],
    ),
    ('REQ 4 START ids:1 5 grammar={"regex":1}', "bad_argument", 4, ["grammar: its regex is no text"]),
    ('REQ 4 START ids:1 5 grammar={"lark":""}', "bad_argument", 4, ["grammar: its lark is no text"]),
    ('REQ 4 START ids:1 5 grammar={"gbnf":"a"}', "bad_argument", 4, ["grammar: 'gbnf' is no kind of grammar"]),
    ("REQ 4 START ids:1 5 snap=1:a/b", "bad_argument", 4, ["snap: name 'a/b'"]),
    # names, switches, topics
    ("SLOT 0 SNAPSHOT -1", "bad_argument", 0, ["name '-1' is no name"]),
    ("FREE_SNAPSHOT " + "a" * 65, "bad_argument", 0, ["is no name"]),
    ("REQ 4 RESTORE_CHAIN -2 - ids:1 2", "bad_argument", 4, ["thick '-2'"]),
    ("REQ 4 RESTORE_CHAIN -1 a, ids:1 2", "bad_argument", 4, ["thin ''"]),
    ("SCHED_AUTO yes", "bad_argument", 0, ["'yes' is neither on nor off"]),
    ("TRACE on", "bad_argument", 0, ["'on' lacks the path"]),
    ("TRACE off x", "bad_argument", 0, ["'x' follows off"]),
    ("TRACE x y", "bad_argument", 0, ["'x' is neither on nor off"]),
    ("HELP ME", "bad_argument", 0, ["'ME' is no command", "expected: HELP [<command>]"]),
    ("PING a\x9b", "bad_argument", 0, [r"word 'a\x9b' holds a control character"]),
    ("PING a\x7f", "bad_argument", 0, [r"word 'a\x7f' holds a control character"]),
]

# Values that no line can say.
UNSAYABLE: list[Command] = [
    Start(PROMPT, 6),
    Start(PROMPT, 0, req_id=4),
    Start(Ids(()), 6, req_id=4),
    Start(PromptFile(""), 6, req_id=4),
    Start(PromptFile("a b"), 6, req_id=4),
    Start(PromptFile("a\nQUIT"), 6, req_id=4),
    Start(PromptFile("\udc80"), 6, req_id=4),
    Start(PromptFile("ids:1"), 6, req_id=4),
    Start(PROMPT, 6, options=Options(Sampling(temp=float("nan"))), req_id=4),
    Cancel(-1),
    Ping(""),
    Ping("a\r"),
    Help("cont"),
    Restore("a b", PROMPT, 6, req_id=4),
    RestoreChain("-1", (), PROMPT, 6, req_id=4),
    Stats(req_id=2**30),
]


@pytest.mark.parametrize(("line", "code", "req_id", "said"), REFUSED, ids=[case[0][:40] for case in REFUSED])
def test_refused(line: str, code: str, req_id: int, said: list[str]) -> None:
    with pytest.raises(Refusal) as caught:
        parse(line)
    assert (caught.value.code, caught.value.req_id) == (code, req_id)
    assert [words for words in said if words not in caught.value.error] == []
    assert caught.value.error.count("expected: ") == 1
    assert len(caught.value.error) < 600


@pytest.mark.parametrize("command", UNSAYABLE)
def test_what_no_line_can_say(command: Command) -> None:
    with pytest.raises(ValueError, match=r"cannot|is no|lacks|holds|too early"):
        format_command(command)


def test_only_commands_are_written() -> None:
    with pytest.raises(AssertionError):
        format_command("QUIT")  # type: ignore[arg-type]
