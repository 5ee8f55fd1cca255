"""How requests arrive at a server in bench_serving.py, how they are batched, and the times that each of them saw.

Continuous: a request is started when it arrives. Static: requests that arrive while a batch runs wait; when its last
member has ended, the first `batch` of them, in the order of arrival, are started together. Both run on the same server
and both stream: a token's time is when it is read, not when its batch ends. Members of a static batch that have ended
take no part in its later steps.
"""

import statistics
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from queue import Empty
from typing import Any

import numpy as np
from bench_servers import Request, Server

TOTALS = (16, 256)  # the least and the most tokens that a request of mixed traffic generates, evenly spread
PROMPTS = (16, 256)  # and of its prompt, spread evenly on a logarithmic scale
FIRST_ID = 10  # lower ids are special tokens


class Traffic:
    """Seeded requests; no two of them have an id or a prompt in common."""

    def __init__(self, vocab: int, seed: int) -> None:
        self._draw = np.random.default_rng(seed)
        self._vocab = vocab
        self._last_id = 0

    def ids(self, count: int) -> list[int]:
        return self._draw.integers(FIRST_ID, self._vocab, count).tolist()

    def request(self, prompt: list[int], total: int) -> Request:
        self._last_id += 1
        return Request(self._last_id, prompt, total)

    def mixed(self, count: int) -> list[Request]:
        least, most = np.log(PROMPTS)
        sizes = np.exp(self._draw.uniform(least, most, count)).astype(int)
        totals = self._draw.integers(TOTALS[0], TOTALS[1] + 1, count).tolist()
        return [self.request(self.ids(size), total) for size, total in zip(sizes.tolist(), totals, strict=True)]

    def poisson(self, count: int, rate: float) -> list[Request]:
        """Poisson arrivals of `rate` requests a second; the first comes at once."""
        gaps = [0.0, *self._draw.exponential(1 / rate, count - 1)]
        times = np.cumsum(gaps).tolist()
        return [replace(one, arrival=at) for one, at in zip(self.mixed(count), times, strict=True)]

    def again(self, requests: Sequence[Request]) -> list[Request]:
        """The same with new ids."""
        return [replace(self.request(one.prompt, one.total), arrival=one.arrival) for one in requests]


@dataclass(frozen=True)
class Served:
    """When each token of a request came, in seconds after the start of the run. One token or more."""

    request: Request
    times: list[float]

    @property
    def first(self) -> float:
        """From its arrival to its first token."""
        return self.times[0] - self.request.arrival

    @property
    def whole(self) -> float:
        return self.times[-1] - self.request.arrival

    @property
    def gaps(self) -> list[float]:
        return [after - before for before, after in pairwise(self.times)]


def play(server: Server, requests: Sequence[Request], batch: int | None = None, **options: Any) -> list[Served]:
    """Sends the requests as they arrive, in static batches of up to `batch` if it is given, and waits for all of them.
    `options` are the server's own."""
    coming = deque(sorted(requests, key=lambda one: one.arrival))
    waiting: deque[Request] = deque()
    live: set[int] = set()
    begun = time.perf_counter()
    while coming or waiting or live:
        while coming and coming[0].arrival <= time.perf_counter() - begun:
            waiting.append(coming.popleft())
        if waiting and (batch is None or not live):
            chosen = [waiting.popleft() for _ in range(min(len(waiting), batch or len(waiting)))]
            live.update(one.req_id for one in chosen)
            server.start(chosen, **options)
        live -= ended(server, coming[0].arrival - (time.perf_counter() - begun) if coming else None)
    return [served(server, one, begun) for one in requests]


def ended(server: Server, timeout: float | None) -> set[int]:
    """Waits for a request to end, `timeout` seconds at most."""
    try:
        item = server.ended.get(timeout=None if timeout is None else max(0.0, timeout))
    except Empty:
        return set()
    if isinstance(item, Exception):
        raise SystemExit(f"{server.name}: {item}")
    return {item}


def served(server: Server, request: Request, begun: float) -> Served:
    times = [at - begun for at in server.times.pop(request.req_id)]
    if len(times) != request.total:
        raise SystemExit(f"{server.name}: request {request.req_id} got {len(times)} tokens, expected {request.total}")
    return Served(request, times)


def wait_for_tokens(server: Server, requests: Sequence[Request], count: int) -> None:
    """Waits until each of them has `count` tokens."""
    while any(len(server.times[one.req_id]) < count for one in requests):
        time.sleep(0.0005)


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """In milliseconds."""
    values = np.asarray(seconds) * 1e3
    return {
        "mean": round(float(values.mean()), 2),
        "median": round(float(np.median(values)), 2),
        "p95": round(float(np.percentile(values, 95)), 2),
        "max": round(float(values.max()), 2),
    }


def summary(rounds: Sequence[Sequence[Served]]) -> dict[str, Any]:
    """Over all requests of all rounds; tokens per second are the rounds' median, from the start to the last token."""
    everyone = [one for served in rounds for one in served]
    rates = [sum(len(one.times) for one in served) / max(one.times[-1] for one in served) for served in rounds]
    return {
        "first_token_ms": spread([one.first for one in everyone]),
        "gap_ms": spread([gap for one in everyone for gap in one.gaps]),
        "whole_ms": spread([one.whole for one in everyone]),
        "tokens_per_second": round(statistics.median(rates), 1),
        "tokens_per_second_of_rounds": [round(rate, 1) for rate in rates],
    }


def columns(served: Sequence[Served]) -> dict[str, list[float]]:
    """Every request of a round: a list for each thing measured, in the order of arrival."""
    order = sorted(served, key=lambda one: one.request.arrival)
    gaps = [spread(one.gaps) for one in order]
    return {
        "prompt_tokens": [len(one.request.prompt) for one in order],
        "tokens": [one.request.total for one in order],
        "arrival_ms": [round(one.request.arrival * 1e3, 1) for one in order],
        "first_token_ms": [round(one.first * 1e3, 1) for one in order],
        "whole_ms": [round(one.whole * 1e3, 1) for one in order],
        **{f"gap_{name}_ms": [gap[name] for gap in gaps] for name in ("median", "p95", "max")},
    }
