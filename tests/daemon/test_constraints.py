"""Outputs that are held to a grammar: what may come, where they end, what becomes of one that cannot go on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from constrained import ANY_THIRD, AnyThird
from driver import Driver, alone, events_of, signals_of, tokens_of
from paceline.daemon.constraints import NoGrammars
from paceline.daemon.null_engine import VOCABULARY, NullEngine
from paceline.protocol import CANCELLED, DONE, FAILED, YIELD, Grammar, Refusal

FIVE = 'START ids:1,2,3 9 4 stop=5 grammar={"lark":"10,11;12,13,14;15"}'


def test_an_output_is_what_its_grammar_allows_and_ends_where_it_ends() -> None:
    driver = Driver()
    driver.send(f"REQ 1 {FIVE}")
    driver.run()
    first, second, third = tokens_of(driver.items, 1)
    assert first in (10, 11) and second in (12, 13, 14) and third == 15
    (end,) = events_of(driver.items, "end")
    assert (end["reason"], end["stop_token"], end["tokens"]) == ("stop", 5, 3)
    assert signals_of(driver.items, 1) == [DONE]


def test_the_total_ends_it_earlier() -> None:
    driver = Driver()
    driver.send('REQ 1 START ids:1,2,3 2 stop=5 grammar={"lark":"10;11;12"}')
    driver.run()
    assert tokens_of(driver.items, 1) == [10, 11]
    assert events_of(driver.items, "end")[0]["reason"] == "length"


@pytest.mark.parametrize("options", ["", "temp=1.0 seed=7"])
@pytest.mark.parametrize("quantum", [1, 2, 5])
def test_any_company_any_split_the_same_tokens(options: str, quantum: int) -> None:
    start = f"START ids:1,2,3,4 12 stop=5 {ANY_THIRD} {options}"
    expected = alone(f"REQ 1 {start}")
    driver = Driver(slots=4, step_tokens=2)
    for req_id in (1, 2, 3):
        own = f"START ids:1,2,3,4 12 {quantum} stop=5 {ANY_THIRD} {options}"
        driver.send(f"REQ {req_id} " + (own if req_id < 3 else "START ids:1,2,3,4,6 12 3"))
        driver.step()
    driver.send("SCHED_DRAIN")
    driver.run()
    assert tokens_of(driver.items, 1) == tokens_of(driver.items, 2) == expected
    check = AnyThird(VOCABULARY, {5})
    for token in expected:
        assert check.allowed()[token // 8] >> token % 8 & 1
        check.follow(token)


def test_a_probe_and_a_target_step_mind_the_grammar_and_a_probe_changes_nothing() -> None:
    driver = Driver()
    driver.send('REQ 1 START ids:1,2,3 9 1 stop=5 grammar={"lark":"10;11;12;13"}')
    driver.run()
    for _ in range(2):
        (row,) = driver.ask("SCHED_BATCH_PROBE")["rows"]
        assert (row["batched"], row["single"], row["equal"]) == (11, 11, True)
    assert driver.ask("SCHED_BATCH_TARGET_STEP")["rows"][0]["token"] == 11
    driver.send("REQ 1 CONTINUE 9")
    driver.run()
    assert tokens_of(driver.items, 1) == [10, 11, 12, 13]
    assert signals_of(driver.items, 1) == [YIELD, YIELD, DONE]


def test_an_output_that_nothing_follows_fails_by_name_and_the_others_go_on() -> None:
    driver = Driver()
    driver.send('REQ 1 START ids:1,2,3 9 stop=5 grammar={"lark":"10;;12"}')
    driver.send("REQ 2 START ids:1,2,3 9")
    driver.run()
    assert tokens_of(driver.items, 1) == [10] and signals_of(driver.items, 1) == [FAILED]
    end = next(end for end in events_of(driver.items, "end") if end["req"] == 1)
    assert (end["code"], end["error"]) == ("grammar_failed", "nothing follows [10]")
    assert tokens_of(driver.items, 2) == alone("REQ 2 START ids:1,2,3 9")
    assert driver.reply("REQ 1 START ids:1,2,3 9")["ok"]


@pytest.mark.parametrize(
    ("line", "code", "error"),
    [
        (f"START ids:1 9 {ANY_THIRD}", "bad_argument", "grammar: no token ends this request, expected ignore_eos=0 or"),
        ('START ids:1 9 stop=5 grammar={"lark":";1"}', "bad_argument", "grammar: nothing follows []"),
        ('START ids:1 9 stop=5 grammar={"json":true}', "bad_argument", "grammar: json is not of these tests"),
    ],
)
def test_a_refused_grammar_changes_nothing(line: str, code: str, error: str) -> None:
    driver = Driver(slots=1)
    reply = driver.reply(f"REQ 1 {line}")
    assert (reply["ok"], reply["code"]) == (False, code) and reply["error"].startswith(error)
    assert driver.reply("LIST_TARGET_CACHE_SLOTS")["slots"][0]["epoch"] == 0
    assert driver.reply("REQ 1 START ids:1 9")["ok"]


def test_a_target_step_tells_the_token_that_nothing_follows() -> None:
    driver = Driver()
    driver.send('REQ 1 START ids:1,2,3 9 1 stop=5 grammar={"lark":"10;11;;12"}')
    driver.run()
    row = driver.ask("SCHED_BATCH_TARGET_STEP")["rows"][0]
    assert (row["token"], row["remaining"], row["ended"]) == (11, 0, "failed")
    assert tokens_of(driver.items, 1) == [10, 11] and signals_of(driver.items, 1) == [YIELD, YIELD, FAILED]


def test_a_grammar_is_not_looked_at_where_there_is_no_place() -> None:
    driver = Driver(slots=1, queue=0)
    driver.send("REQ 1 START ids:1,2 9")
    for line, code in (("REQ 2 START", "queue_full"), ("REQ 2 SLOT 0 START", "slot_busy")):
        assert driver.reply(f'{line} ids:1 9 stop=5 grammar={{"json":true}}')["code"] == code


def test_an_engine_without_texts_or_sampling_refuses_grammars() -> None:
    with pytest.raises(Refusal, match="this engine has no texts") as caught:
        NoGrammars().begin(Grammar("json", "true"), ())
    assert caught.value.code == "unsupported" and NoGrammars().follow([]) == []

    class Greedy(NullEngine):
        def __init__(self) -> None:
            super().__init__()
            self.info = replace(self.info, greedy_only=True)

    driver = Driver(engine=Greedy(), slots=4)
    reply = driver.reply(f"REQ 1 START ids:1 9 stop=5 {ANY_THIRD}")
    assert reply["code"] == "unsupported" and reply["error"].startswith("grammar: this engine decodes greedily")


def test_a_queued_request_and_a_restored_one_are_held_to_theirs() -> None:
    driver = Driver(slots=1)
    driver.send("REQ 1 START ids:1,2,3 3 snap=2:a")
    driver.send(f"REQ 2 {FIVE}")
    assert driver.reply("LIST_REQUESTS")["requests"][1]["state"] == "queued"
    driver.run()
    driver.send("REQ 3 RESTORE a ids:1,2,3 9 4 stop=5 " + FIVE.split()[-1])
    driver.run()
    assert tokens_of(driver.items, 2) == tokens_of(driver.items, 3) == alone(f"REQ 2 {FIVE}")


def test_equal_requests_share_a_row_and_others_do_not() -> None:
    driver = Driver(slots=2, coalesce=True, auto=True)
    driver.send(f"REQ 1 {FIVE}")
    assert driver.reply(f"REQ 2 {FIVE}")["with"] == 1
    assert "with" not in driver.reply(f"REQ 3 {FIVE.replace('15', '16')}")
    driver.run()
    assert tokens_of(driver.items, 1) == tokens_of(driver.items, 2) != tokens_of(driver.items, 3)


def test_a_cancelled_one_ends_like_others() -> None:
    driver = Driver()
    driver.send(f"REQ 1 {FIVE}")
    driver.step()
    driver.send("CANCEL 1")
    driver.run()
    assert signals_of(driver.items, 1) == [CANCELLED]
