"""A line for each request that ends, for people and for programs; no prompt and no token in it."""

from __future__ import annotations

import json

import pytest
from driver import Driver
from paceline.daemon.request_log import COPIED, RequestLog

TIME = 1_800_000_000.25
STAMP = "2027-01-15T08:00:00.250Z"


def lines_of(form: str, *commands: str) -> list[str]:
    """Each command comes at 1 s, and the steps after it end at 3 s."""
    driver = Driver(slots=1)
    log = RequestLog(form, lambda: TIME)
    lines = []
    for command in commands:
        lines += log.saw(driver.send(command), 1.0)
        lines += log.saw(driver.run(), 3.0)
    return lines


def test_a_line_of_json() -> None:
    (line,) = lines_of("json", "PING", "REQ 4 START ids:77,78,79 5")
    found = json.loads(line)
    assert "\n" not in line
    assert list(found) == ["event", "time", "req_id", "reason", *COPIED, "latency_ms"]
    assert (found["event"], found["time"]) == ("request", STAMP)
    assert (found["req_id"], found["reason"], found["prompt_tokens"], found["tokens"]) == (4, "length", 3, 5)
    assert (found["latency_ms"], found["mean_rows"], found["cached_tokens"]) == (2000.0, 1.0, 0)
    assert found["ttft_ms"] > 0 and found["queue_ms"] == 0


def test_a_line_of_text() -> None:
    (line,) = lines_of("text", "REQ 4 START ids:77,78,79 5")
    names = [word.partition("=")[0] for word in line.split()]
    assert names == [
        *("req_id", "prompt_tps", "generation_tps", "total_tps", "tokens", "ttft_ms", "queue_ms", "latency_ms"),
        "finish_reason",
    ]
    assert "req_id=4 " in line and " total_tps=4.0 tokens=5 " in line
    assert line.endswith(" queue_ms=0.0 latency_ms=2000.0 finish_reason=length")


@pytest.mark.parametrize("form", ["text", "json"])
def test_every_request_that_ends_has_one_line(form: str) -> None:
    lines = lines_of(form, "REQ 1 START ids:77 9 2", "REQ 2 START ids:78 9", "CANCEL 2", "CANCEL 1", "CANCEL 1")
    assert len(lines) == 2
    assert all("cancelled" in line for line in lines)
    assert not any("77" in line or "78" in line for line in lines)


def test_a_failure_has_its_code_and_times_that_never_came_to_be() -> None:
    log = RequestLog("json", lambda: TIME)
    driver = Driver()
    log.saw(driver.send("REQ 1 START ids:1 9"), 0.0)
    (line,) = log.saw(driver.session.fail_all("the device is lost", 1.0, "device_lost"), 1.0)
    found = json.loads(line)
    assert (found["reason"], found["code"], found["ttft_ms"], found["tps"]) == ("failed", "device_lost", None, None)


def test_a_request_that_was_cancelled_in_text() -> None:
    log = RequestLog("text", lambda: TIME)
    driver = Driver()
    (line,) = log.saw(driver.send("REQ 1 START ids:1 9") + driver.send("CANCEL 1"), 1.0)
    assert line.startswith("req_id=1 prompt_tps=- generation_tps=- total_tps=- tokens=0 ttft_ms=- queue_ms=0.0")


def test_start_and_stop() -> None:
    log = RequestLog("json", lambda: TIME)
    (start,) = log.started("1.2", "a", "cpu", 4)
    facts = {"version": "1.2", "model": "a", "device": "cpu", "slots": 4}
    assert json.loads(start) == {"event": "start", "time": STAMP, **facts}
    assert [json.loads(line) for line in log.stopped(70)] == [{"event": "stop", "time": STAMP, "code": 70}]
    text = RequestLog("text", lambda: TIME)
    assert text.started("1.2", "a", "cpu", 4) == text.stopped(0) == []
