"""scripts/bench_arrivals.py: what it calls continuous and static, on a server that answers at once."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from threading import Timer
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
from bench_arrivals import Served, Traffic, play, summary
from bench_servers import Request, ServerFailed

SECONDS = 2.0  # that a group takes; everybody has arrived long before


class Instant:
    """Every request has its tokens at once and ends SECONDS later."""

    name = "instant"

    def __init__(self, answer: Exception | None = None) -> None:
        self.times: dict[int, list[float]] = {}
        self.ended: SimpleQueue[int | Exception] = SimpleQueue()
        self.groups: list[list[int]] = []
        self.answer = answer

    def start(self, requests: Sequence[Request], **options: Any) -> None:
        self.groups.append([one.req_id for one in requests])
        for one in requests:
            self.times[one.req_id] = [time.perf_counter()] * one.total
            Timer(SECONDS, self.ended.put, [self.answer or one.req_id]).start()

    def close(self) -> None: ...


def requests(*arrivals: float) -> list[Request]:
    return [Request(req_id, [1, 2], 3, arrival) for req_id, arrival in enumerate(arrivals, 1)]


def test_continuous_starts_a_request_when_it_arrives() -> None:
    server = Instant()
    play(server, requests(0.0, 0.5, 1.0, 0.0))
    assert server.groups == [[1, 4], [2], [3]]


def test_a_static_batch_is_those_who_wait_when_the_last_one_has_ended() -> None:
    server = Instant()
    served = play(server, requests(0.0, 0.2, 0.4, 0.6), batch=2)
    assert server.groups == [[1], [2, 3], [4]]
    assert [len(one.times) for one in served] == [3] * 4
    assert served[3].first > 2 * SECONDS - 0.6
    server = Instant()
    play(server, requests(0.0, 0.0, 0.0), batch=8)
    assert server.groups == [[1, 2, 3]]


def test_a_server_that_fails_ends_the_run() -> None:
    with pytest.raises(SystemExit, match="instant: it broke"):
        play(Instant(ServerFailed("it broke")), requests(0.0))


def test_every_round_of_traffic_is_seeded_and_new() -> None:
    one, other = (Traffic(1000, 5).poisson(6, 10.0) for _ in range(2))
    assert one == other
    traffic = Traffic(1000, 5)
    drawn = traffic.mixed(40)
    again = traffic.again(drawn)
    assert [request.prompt for request in drawn] == [request.prompt for request in again]
    assert len({request.req_id for request in drawn + again}) == 80
    assert all(16 <= request.total <= 256 and 15 <= len(request.prompt) <= 256 for request in drawn)


def test_a_summary_counts_from_the_arrival() -> None:
    first, second = requests(0.0, 1.0)
    got = summary([[Served(first, [0.5, 0.6, 0.8]), Served(second, [1.25, 1.5, 2.0])]])
    assert got["first_token_ms"] == {"mean": 375.0, "median": 375.0, "p95": 487.5, "max": 500.0}
    assert got["gap_ms"]["max"] == 500.0 and got["whole_ms"]["mean"] == 900.0
    assert got["tokens_per_second"] == 3.0
