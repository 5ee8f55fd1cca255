"""What the log says of each request that has ended, and of the daemon's start and stop. Never prompts or tokens.

It is shown the items that go into the stream, and returns lines. `now` is the loop's clock in seconds, `time` the wall
clock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final

from ..protocol import Item, Message
from .replies import milliseconds
from .stats import rate

COPIED: Final = ("prompt_tokens", "tokens", "cached_tokens", "queue_ms", "ttft_ms", "prompt_tps", "tps", "mean_rows")
"""Copied from the event `end` into a line."""

_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


class RequestLog:
    def __init__(self, form: str, time: Callable[[], float]) -> None:
        self._json = form == "json"
        self._time = time
        self._arrived: dict[int, float] = {}  # by request

    def started(self, version: str, model: str, device: str, slots: int) -> list[str]:
        facts = {"version": version, "model": model, "device": device, "slots": slots}
        return [_encode({"event": "start", "time": self._stamp()} | facts)] if self._json else []

    def stopped(self, code: int) -> list[str]:
        return [_encode({"event": "stop", "time": self._stamp(), "code": code})] if self._json else []

    def saw(self, items: Iterable[Item], now: float) -> list[str]:
        lines = []
        for item in items:
            if not isinstance(item, Message):
                continue
            body = item.body
            if body.get("event") == "end":
                lines.append(self._ended(body, now))
            elif body.get("ok") and "prompt_tokens" in body:
                self._arrived[item.req_id] = now
        return lines

    def _ended(self, end: dict[str, Any], now: float) -> str:
        seconds = now - self._arrived.pop(end["req"], now)
        if not self._json:
            return _text(end, seconds)
        facts = {"event": "request", "time": self._stamp(), "req_id": end["req"], "reason": end["reason"]}
        facts |= {name: end.get(name) for name in COPIED} | {"latency_ms": milliseconds(seconds)}
        if "code" in end:
            facts["code"] = end["code"]
        return _encode(facts)

    def _stamp(self) -> str:
        return datetime.fromtimestamp(self._time(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _text(end: dict[str, Any], seconds: float) -> str:
    """total_tps is prompt and output over the whole time."""
    facts = {
        "req_id": end["req"],
        "prompt_tps": end["prompt_tps"],
        "generation_tps": end["tps"],
        "total_tps": rate(end["prompt_tokens"] + end["tokens"], seconds),
        "tokens": end["tokens"],
        "ttft_ms": end["ttft_ms"],
        "queue_ms": end["queue_ms"],
        "latency_ms": milliseconds(seconds),
        "finish_reason": end["reason"],
    }
    return " ".join(f"{name}={_short(value)}" for name, value in facts.items())


def _short(value: Any) -> str:
    return "-" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)
