"""/metrics for Prometheus. Times and counts are the daemon's own, taken at its steps and not where text is sent."""

from collections.abc import Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ...protocol import Message

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
Stats = dict[str, Any]


class Observed:
    """What ended requests told of themselves, since the start."""

    def __init__(self) -> None:
        self._left_out: set[int] = set()
        self.registry = CollectorRegistry()
        self._ends = Counter("paceline_requests", "requests that ended", ["reason"], registry=self.registry)
        self._prompt = Counter("paceline_prompt_tokens", "tokens of prompts", registry=self.registry)
        self._cached = Counter("paceline_cached_tokens", "those not computed again", registry=self.registry)
        self._tokens = Counter("paceline_generated_tokens", "tokens of answers", registry=self.registry)
        self._queue = self._histogram("queue", "from START to a slot")
        self._first = self._histogram("time_to_first_token", "from START to the first token")
        self._gap = self._histogram("time_per_token", "mean between two tokens, one value a request")

    def leave_out(self, req_id: int) -> None:
        """A request that is about to start and is nobody's but the proxy's own."""
        self._left_out.add(req_id)

    def count_again(self, req_id: int) -> None:
        """It was refused, and the id may be another request's."""
        self._left_out.discard(req_id)

    def forget(self) -> None:
        """The daemon has died: the ids of the next one begin anew."""
        self._left_out.clear()

    def take(self, item: object) -> None:
        if isinstance(item, Message) and item.body.get("event") == "end":
            if item.req_id in self._left_out:
                self._left_out.remove(item.req_id)
            else:
                self._end(item.body)

    def _end(self, end: dict[str, Any]) -> None:
        self._ends.labels(end["reason"]).inc()
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


class _Live:
    """The daemon's STATS, at the moment they were asked for."""

    def __init__(self, stats: Stats) -> None:
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        live = GaugeMetricFamily("paceline_live_requests", "requests by state", labels=["state"])
        for state, count in self._stats["requests"].items():
            live.add_metric([state], count)
        yield live
        refusals = CounterMetricFamily("paceline_refusals", "commands refused", labels=["code"])
        for code, count in self._stats["refusals"].items():
            refusals.add_metric([code], count)
        yield refusals
        for name in ("slots", "pages"):
            for which in ("used", "total"):
                yield GaugeMetricFamily(f"paceline_{name}_{which}", f"{name}, {which}", self._stats[name][which])
        yield GaugeMetricFamily("paceline_cache_bytes", "cache in use", self._stats["cache_bytes"])
        yield CounterMetricFamily("paceline_steps", "fused steps", self._stats["steps"])
        yield CounterMetricFamily("paceline_weight_bytes", "weights read", self._stats["weight_bytes"])


def exposition(observed: Observed, stats: Stats | None) -> bytes:
    """In Prometheus' text format; without `stats`, of a daemon that is gone, just what was observed."""
    if stats is None:
        return generate_latest(observed.registry)
    live = CollectorRegistry()
    live.register(_Live(stats))
    return generate_latest(observed.registry) + generate_latest(live)
