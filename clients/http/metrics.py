"""/metrics for Prometheus. Times and counts are the daemon's own, measured at its steps and not where text is sent;
only the gaps between tokens are measured here, as they arrive."""

from bisect import bisect_left
from collections import Counter as Counts
from collections.abc import Iterator, Sequence
from itertools import accumulate
from time import monotonic
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from ...protocol import Frame, Message

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_ROWS: Final = (1, 2, 4, 8, 16, 32, 64, 128)
Stats = dict[str, Any]


class Gaps:
    """Times between two tokens of an answer. `take` is called for every token, so it is kept to 0.3 µs:
    prometheus_client's own histogram takes three times as long."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_SECONDS) + 1)
        self._seconds = 0.0
        self._last: dict[int, float] = {}  # when each live answer's last token came

    def take(self, req_id: int) -> None:
        now = monotonic()
        last = self._last.get(req_id)
        self._last[req_id] = now
        if last is not None:
            self._counts[bisect_left(_SECONDS, now - last)] += 1
            self._seconds += now - last

    def is_live(self, req_id: int) -> bool:
        """It has had a token, but not its end."""
        return req_id in self._last

    def end(self, req_id: int) -> None:
        self._last.pop(req_id, None)

    def forget(self) -> None:
        self._last.clear()

    def collect(self) -> Iterator[Metric]:
        yield _histogram(
            "paceline_inter_token_latency_seconds",
            "between two tokens of an answer, as they come from the daemon",
            _SECONDS,
            self._counts,
            self._seconds,
        )


class Observed:
    """What the ends of requests have reported, since the start."""

    def __init__(self) -> None:
        self.overflows = 0  # requests that were too long for the context and so never reached the daemon
        self._left_out: set[int] = set()
        self._stopped: set[int] = set()  # by a stop string, and not ended yet
        self.registry = CollectorRegistry()
        self._ends = Counter("paceline_requests", "requests that ended", ["reason"], registry=self.registry)
        self._prompt = Counter("paceline_prompt_tokens", "tokens of prompts", registry=self.registry)
        self._cached = Counter("paceline_cached_tokens", "those not computed again", registry=self.registry)
        self._tokens = Counter("paceline_generated_tokens", "tokens of answers", registry=self.registry)
        self._queue = self._histogram("queue", "from START to a slot")
        self._first = self._histogram("time_to_first_token", "from START to the first token")
        self._gap = self._histogram("time_per_token", "mean between two tokens, one value a request")
        self._gaps = Gaps()
        self.registry.register(self._gaps)

    def leave_out(self, req_id: int) -> None:
        """Excludes a request that is about to start: it is the proxy's own."""
        self._left_out.add(req_id)

    def count_again(self, req_id: int) -> None:
        """Undoes `leave_out`: it was refused, and the id may be another request's."""
        self._left_out.discard(req_id)

    def stop(self, req_id: int) -> None:
        """A request whose answer a stop string has ended: to the daemon, which knows no text, it is cancelled if it is
        still live."""
        if self._gaps.is_live(req_id):
            self._stopped.add(req_id)

    def forget(self) -> None:
        """The daemon has died: the ids of the next one begin anew."""
        self._left_out.clear()
        self._stopped.clear()
        self._gaps.forget()

    def take(self, item: object) -> None:
        if isinstance(item, Frame):
            if item.value >= 0:
                self._gaps.take(item.req_id)
        elif isinstance(item, Message) and item.body.get("event") == "end":
            self._gaps.end(item.req_id)
            if item.req_id in self._left_out:
                self._left_out.remove(item.req_id)
            else:
                self._end(item.req_id, item.body)

    def _end(self, req_id: int, end: dict[str, Any]) -> None:
        stopped = req_id in self._stopped
        self._stopped.discard(req_id)
        self._ends.labels("stop" if stopped else end["reason"]).inc()
        self._prompt.inc(end["prompt_tokens"])
        self._cached.inc(end["cached_tokens"])
        self._tokens.inc(end["tokens"])
        if end["queue_ms"] is not None:
            self._queue.observe(end["queue_ms"] / 1000)
        if end["ttft_ms"] is not None:
            self._first.observe(end["ttft_ms"] / 1000)
        if end["tps"]:
            self._gap.observe(1 / end["tps"])

    def _histogram(self, name: str, about: str) -> Histogram:
        return Histogram(f"paceline_{name}_seconds", about, registry=self.registry, buckets=_SECONDS)


# Single numbers in STATS: the metric's name, the name in STATS, and a description.
_GAUGES: Final = {
    "cache_bytes": ("cache_bytes", "cache in use"),
    "queue_rows": ("queue", "rows that wait for a slot"),
    "snapshots": ("snapshots", "states that are kept under a name"),
}
_COUNTERS: Final = {
    "steps": ("steps", "fused steps"),
    "retried_steps": ("retried_steps", "those that failed and were computed row by row"),
    "weight_bytes": ("weight_bytes", "weights read"),
    "computed_prompt_tokens": ("tokens_in", "tokens of prompts that were computed"),
    "emitted_tokens": ("tokens_out", "tokens of answers, of live ones too"),
    "drafted_tokens": ("drafted", "tokens that were tried ahead of their turn"),
    "drafted_right_tokens": ("drafted_right", "those that were right"),
    "accepted_requests": ("accepted", "requests that were taken"),
    "coalesced_requests": ("coalesced", "those that followed an equal one"),
    "prefix_hits": ("prefix_hits", "requests that found a known beginning"),
    "prefix_tokens": ("prefix_tokens", "tokens that they did not compute for it"),
}


class _Live:
    """The daemon's STATS, at the moment they were asked for. What is too long is mostly refused before it gets there:
    those `overflows` count with the daemon's own."""

    def __init__(self, stats: Stats, overflows: int) -> None:
        self._stats = stats
        self._overflows = overflows

    def collect(self) -> Iterator[Metric]:
        live = GaugeMetricFamily("paceline_live_requests", "requests by state", labels=["state"])
        for state, count in self._stats["requests"].items():
            live.add_metric([state], count)
        yield live
        refusals = CounterMetricFamily("paceline_refusals", "requests and commands refused", labels=["code"])
        counts = Counts(self._stats["refusals"]) + Counts(context_overflow=self._overflows)
        for code, count in counts.items():
            if code != "not_active":  # our CANCEL crossed the request's end: nobody was refused anything
                refusals.add_metric([code], count)
        yield refusals
        for name in ("slots", "pages"):
            for which, count in self._stats[name].items():
                yield GaugeMetricFamily(f"paceline_{name}_{which}", f"{name}, {which}", count)
        for name, (key, about) in _GAUGES.items():
            yield GaugeMetricFamily(f"paceline_{name}", about, self._stats[key])
        for name, (key, about) in _COUNTERS.items():
            yield CounterMetricFamily(f"paceline_{name}", about, self._stats[key])
        yield self._rows()

    def _rows(self) -> Metric:
        counts = [0] * (len(_ROWS) + 1)
        total = 0
        for name, steps in self._stats["rows_per_step"].items():
            counts[bisect_left(_ROWS, int(name))] += steps
            total += int(name) * steps
        return _histogram("paceline_rows_per_step", "rows of a fused step", _ROWS, counts, total)


def _histogram(name: str, about: str, edges: Sequence[float], counts: Sequence[int], total: float) -> Metric:
    """`counts` are the numbers of values up to each edge, and of those beyond the last."""
    names = [*(str(float(edge)) for edge in edges), "+Inf"]
    return HistogramMetricFamily(name, about, list(zip(names, accumulate(counts), strict=True)), total)


def exposition(observed: Observed, stats: Stats | None) -> bytes:
    """In Prometheus' text format; without `stats`, if the daemon is gone, just what was observed here."""
    if stats is None:
        return generate_latest(observed.registry)
    live = CollectorRegistry()
    live.register(_Live(stats, observed.overflows))
    return generate_latest(observed.registry) + generate_latest(live)
