"""Counters since the start. Times are seconds here, milliseconds in replies; if the clock goes back, no time has
passed."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .plan import Row, StepResult
from .spread import Spread


class Counters:
    def __init__(self) -> None:
        self.lines = 0
        self.refusals: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()  # by reason
        self.accepted = 0
        self.steps = 0
        self.rows: Counter[int] = Counter()  # rows of a step -> number of such steps
        self.weight_bytes = 0
        self.tokens_in = 0
        self.prefill_seconds = 0.0
        self.decode_seconds = 0.0
        self.step_time = Spread()
        self.ttft = Spread()
        self.gap = Spread()  # between two tokens of one request
        self.stale_results = 0
        self.retried_steps = 0  # that failed as a whole and were computed row by row
        self.prefix_hits = 0  # requests that found a known beginning
        self.prefix_tokens = 0  # and the tokens that they did not have to compute
        self.drafted = 0  # tokens that were tried ahead of their turn
        self.drafted_right = 0
        self.coalesced = 0  # requests that followed an equal one

    def count_step(self, rows: tuple[Row, ...], result: StepResult) -> None:
        """A step's time is divided between prefill and decode in proportion to their tokens."""
        seconds = max(0.0, result.seconds)
        self.steps += 1
        self.retried_steps += result.retried is not None
        self.rows[len(rows)] += 1
        self.weight_bytes += result.weight_bytes
        self.step_time.add(seconds)
        decoded = prefilled = 0
        for row in rows:
            if row.position < row.prompt_tokens:
                prefilled += len(row.tokens)
            else:
                decoded += len(row.tokens)
        self.tokens_in += prefilled
        share = seconds / (decoded + prefilled)
        self.prefill_seconds += share * prefilled
        self.decode_seconds += share * decoded

    def body(self) -> dict[str, Any]:
        decoded = self.gap.count  # without first tokens: these come with the end of a prefill
        return {
            "lines": self.lines,
            "steps": self.steps,
            "rows_per_step": {str(rows): steps for rows, steps in sorted(self.rows.items())},
            "weight_bytes": self.weight_bytes,
            "tokens_in": self.tokens_in,
            "tokens_out": self.ttft.count + self.gap.count,
            "prefill_tps": rate(self.tokens_in, self.prefill_seconds),
            "decode_tps": rate(decoded, self.decode_seconds),
            "step_ms": self.step_time.milliseconds(),
            "ttft_ms": self.ttft.milliseconds(),
            "token_ms": self.gap.milliseconds(),
            "prefix_hits": self.prefix_hits,
            "prefix_tokens": self.prefix_tokens,
            "drafted": self.drafted,
            "drafted_right": self.drafted_right,
            "coalesced": self.coalesced,
            "accepted": self.accepted,
            "ended": self.ends["eos"] + self.ends["stop"] + self.ends["length"],
            "cancels": self.ends["cancelled"],
            "failures": self.ends["failed"],
            "stale_results": self.stale_results,
            "retried_steps": self.retried_steps,
            "refusals": dict(sorted(self.refusals.items())),
        }


def rate(count: int, seconds: float) -> float | None:
    return round(count / seconds, 3) if seconds > 0 else None
