"""The pure room that turns steps and items into trace events, under a scripted daemon and a clock of ours."""

from __future__ import annotations

import json

from driver import tokens_of
from hypothesis import given
from hypothesis import strategies as st
from paceline.daemon.faults import read_faults
from paceline.daemon.faulty import Faulty
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.plan import CopyPage, Plan, PlanKind
from paceline.daemon.timeline import COMMANDS, FIRST_SLOT, Timeline
from traces import begun, check_nesting, check_rows, instants, rows, slices
from watched import Watched, watched


def test_lanes_have_names() -> None:
    events = watched(slots=2).events
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert names == {1: "commands", 2: "engine", 3: "slot 0", 4: "slot 1"}
    assert events[0]["args"] == {"name": "paceline null"}


def test_a_request_its_turns_and_its_rows() -> None:
    driver = watched("REQ 7 START ids:1,2,3,4,5 6 2", "REQ 7 CONTINUE 2", "SCHED_DRAIN", prefill_tokens=3)
    events = driver.closed()
    check_nesting(events)
    check_rows(events)
    assert [event["name"] for event in begun(events, "request")] == ["req 7"]
    assert [event["name"] for event in begun(events, "turn")] == ["turn 1", "turn 2", "turn 3"]
    assert [event["name"] for event in rows(events)] == [
        *("prefill [0,3)", "prefill [3,5)", "decode 5", "decode 6", "decode 7", "decode 8", "decode 9"),
    ]
    assert {event["tid"] for event in rows(events)} == {FIRST_SLOT}
    assert [event["args"]["req"] for event in instants(events, "yield")] == [7, 7]
    (end,) = instants(events, "end: length")
    assert end["args"] == {"req": 7, "reason": "length"}
    last = next(event for event in reversed(events) if event["ph"] == "E")
    assert last["args"]["tokens"] == 6


def test_steps_match_what_ran() -> None:
    driver = Watched(slots=3, step_tokens=4, prefill_tokens=4)
    driver.watch()
    for line in ("REQ 1 START ids:1,2,3 9 2", "REQ 2 START ids:1,2,3,4,5,6,7,8,9 4", "REQ 3 START ids:1 3 1"):
        driver.send(line)
    driver.send("SCHED_DRAIN")
    driver.run()
    events = driver.closed()
    check_nesting(events)
    check_rows(events)
    steps = slices(events, "step")
    assert [event["args"]["rows"] for event in steps] == [len(plan.batches[0]) for plan in driver.plans]
    assert [event["args"]["step"] for event in steps] == list(range(1, len(driver.plans) + 1))
    for req_id in (1, 2, 3):
        mine = [row for row in rows(events) if row["args"]["req"] == req_id]
        assert [row["args"]["from"] for row in mine[1:]] == [row["args"]["to"] for row in mine[:-1]]
        decoded = [row for row in mine if row["cat"] == "decode"]
        assert len(decoded) + 1 == len(tokens_of(driver.items, req_id))
    counted = [event["args"]["rows"] for event in events if event["ph"] == "C" and event["name"] == "rows"]
    assert [count for count in counted if count] == [event["args"]["rows"] for event in steps]
    assert counted[-1] == 0


def test_queueing_is_drawn_from_start_to_admission() -> None:
    driver = Watched(slots=1)
    driver.watch()
    for line in ("REQ 1 START ids:1 3", "REQ 2 START ids:1 3", "REQ 3 START ids:1 3", "REQ 4 START ids:1 3"):
        driver.send(line)
    driver.send("CANCEL 3")
    driver.run()
    events = driver.closed()
    check_nesting(events)
    waits = [(event["ph"], event["args"]["req"]) for event in events if event.get("cat") == "queue"]
    assert waits == [("b", 2), ("b", 3), ("b", 4), ("e", 3), ("e", 2), ("e", 4)]
    ids = [event["id"] for event in events if event["ph"] == "b"]
    assert len(set(ids)) == 3
    depths = [event["args"]["queue"] for event in events if event["ph"] == "C" and event["name"] == "queue"]
    assert depths == [1, 2, 3, 2, 1, 0]
    (cancelled,) = instants(events, "end: cancelled")
    assert cancelled["tid"] == COMMANDS
    assert [event["args"]["req"] for event in begun(events, "request")] == [1, 2, 4]


def test_a_cancel_ends_turn_and_request() -> None:
    driver = Watched()
    driver.watch()
    driver.send("REQ 1 START ids:1 50 9")
    for _ in range(3):
        driver.step()
    driver.send("CANCEL 1")
    events = list(driver.events)
    check_nesting(events)
    (cancelled,) = instants(events, "end: cancelled")
    assert cancelled["tid"] == FIRST_SLOT


def test_refusals_are_marked_without_what_was_in_the_line() -> None:
    events = watched("REQ 4 START ids:5,77777 5", "NONSENSE").events
    marks = [event for event in events if event["ph"] == "i"]
    assert [event["name"] for event in marks] == ["refused: prompt_bad_token", "refused: bad_command"]
    assert [event["args"] for event in marks] == [{"line": 1, "req": 4}, {"line": 2, "req": 0}]
    assert "77777" not in json.dumps(events)


def test_no_token_is_in_it() -> None:
    stop = tokens_of(watched("REQ 1 START ids:31999 5").items, 1)[3]
    driver = watched(f"REQ 1 START ids:31999 5 stop={stop}")
    (end,) = instants(driver.events, "end: stop")
    assert end["args"] == {"req": 1, "reason": "stop"}
    assert not any(str(token) in json.dumps(driver.events) for token in (31999, stop))


def test_what_was_live_before_is_drawn_from_then_on() -> None:
    driver = Watched(slots=2)
    for req_id in (1, 2, 3):
        driver.send(f"REQ {req_id} START ids:1,2 6 2")
    driver.step()
    driver.watch()
    driver.send("SCHED_DRAIN")
    driver.run()
    events = driver.closed()
    check_nesting(events)
    check_rows(events)
    assert [event["args"]["req"] for event in begun(events, "request")] == [1, 2, 3]
    assert [event["args"]["req"] for event in events if event["ph"] == "e"] == [3]
    assert slices(events, "step")[0]["args"]["step"] == 2


def test_closing_ends_what_is_open() -> None:
    driver = Watched(slots=1)
    driver.watch()
    driver.send("REQ 1 START ids:1 50")
    driver.send("REQ 2 START ids:1 50")
    driver.step()
    events = driver.closed()
    check_nesting(events)
    assert [event["ph"] for event in events if event["ph"] in "be"] == ["b", "e"]


def test_target_steps_and_probes() -> None:
    driver = watched("REQ 1 START ids:1 9 2", "REQ 2 START ids:2 9 2")
    driver.ask("SCHED_BATCH_PROBE")
    driver.ask("SCHED_BATCH_TARGET_STEP")
    events = driver.closed()
    check_nesting(events)
    check_rows(events)
    (probe,) = slices(events, "probe")
    assert probe["args"]["rows"] == 2 and driver.plans[-2].kind is PlanKind.PROBE
    assert slices(events, "step")[-1]["name"] == "target step"
    assert [event["name"] for event in begun(events, "turn")] == ["turn 1", "turn 1", "turn 2", "turn 2"]


def test_a_row_that_fails_is_marked() -> None:
    driver = watched("REQ 1 START ids:1 9", engine=Faulty(NullEngine(4, 256), read_faults("row:0@3")))
    events = driver.closed()
    check_nesting(events)
    assert [row["args"].get("failed") for row in rows(events)] == [None, None, True]
    assert instants(events, "end: failed")


def test_a_pause_shows_no_rows() -> None:
    driver = watched("REQ 1 START ids:1 2 1")
    for _ in range(20):
        driver.clock()
    driver.send("SCHED_DRAIN")
    driver.run()
    counted = [event["args"]["rows"] for event in driver.closed() if event["ph"] == "C"]
    assert counted == [1, 0, 1, 0]


def test_a_clock_that_jumps_back_gives_no_negative_times() -> None:
    driver = Watched()
    driver.timeline = Timeline("null", 4, 0, 1e6)
    driver.send("REQ 1 START ids:1 3")
    driver.run()
    assert all(event["ts"] >= 0 and event.get("dur", 0) >= 0 for event in driver.closed())


@given(st.data())
def test_whatever_happens_slices_nest_and_rows_belong_to_steps(data: st.DataObject) -> None:
    shared = data.draw(st.booleans())
    most = data.draw(st.sampled_from([1, 2]))
    driver = Watched(slots=2, step_tokens=3, prefill_tokens=4, max_batch=most, coalesce=shared, auto=shared)
    start = st.builds(
        lambda req_id, tokens, total, quantum: f"REQ {req_id} START ids:{','.join('7' * tokens)} {total} {quantum}",
        *(st.integers(1, 5), st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)),
    )
    other = st.sampled_from(
        [
            *("CANCEL 1", "CANCEL 2", "REQ 3 CONT 2", "SCHED_STEP", "SCHED_DRAIN", "SCHED_BATCH_TARGET_STEP", "X"),
            *("SLOT 0 SNAPSHOT a", "REQ 6 RESTORE a ids:7,7,7,7,7,7,7,7,7 3", "SCHED_BATCH_PROBE"),
        ]
    )
    for line in data.draw(st.lists(start, max_size=3)):
        driver.send(line)
        driver.step()
    driver.watch()
    for line in data.draw(st.lists(st.one_of(start, other), max_size=12)):
        driver.send(line)
        for _ in range(data.draw(st.integers(0, 3))):
            driver.step()
        while driver.session.holding:
            driver.step()
    driver.end()
    events = driver.closed()
    check_nesting(events)
    check_rows(events)
    began = sum(event["ph"] == "b" for event in events)
    assert began == sum(event["ph"] == "e" for event in events)


def test_a_row_whose_request_nobody_announced_is_drawn_all_the_same() -> None:
    """As when a request has ended, and its row lives on for another one that shares it."""
    driver = Watched(slots=1)
    driver.send("REQ 1 START ids:1 9")
    driver.timeline = Timeline("null", 1, 0, driver.clock())
    driver.step()
    driver.step()
    events = driver.closed()
    check_nesting(events)
    assert [event["name"] for event in begun(events, "request")] == ["req 1"]
    assert len(rows(events)) == 2


def test_moves_without_a_step_are_drawn() -> None:
    timeline = Timeline("null", 2, 5, 0.0)
    (event,) = timeline.step(Plan(PlanKind.MOVES, (), (), (CopyPage(0, 1),)), [], 1.0, 1.5)
    assert (event["name"], event["ts"], event["dur"], event["args"]) == ("moves", 1e6, 5e5, {"moves": 1})
