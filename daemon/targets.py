"""Steps that a command asks for: PEEK, PROBE, TARGET_STEP and TARGET_TAIL. Their rows are the live requests that have a
pending token, parked ones too, in turn order."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from .plan import Move, Plan, PlanKind, RowFailure, RowResult, StepResult
from .replies import Body, milliseconds
from .requests import Request, State


@dataclass(frozen=True, slots=True)
class Target:
    """A target step or probe that was accepted and is the very next step; the lines after it wait."""

    kind: PlanKind
    requests: list[Request]
    emitted: list[int]  # by each before it
    line: int
    req_id: int

    def plan(self, commits: tuple[tuple[int, int], ...], moves: tuple[Move, ...]) -> Plan:
        probe = self.kind is PlanKind.PROBE
        rows = tuple(request.row(1, logits=probe) for request in self.requests)
        alone = tuple((row,) for row in rows) if probe else ()
        return Plan(self.kind, commits, (rows, *alone), moves)

    def body(self, results: list[StepResult]) -> Body:
        return _probe(self.requests, results) if self.kind is PlanKind.PROBE else self._step(results[0])

    def _step(self, result: StepResult) -> Body:
        """The state after the step. A row that gave no token, or whose request ended in another way than by its length,
        says why."""
        rows = []
        for request, before in zip(self.requests, self.emitted, strict=True):
            row: Body = {"req": request.req_id, "slot": request.slot, "position": request.position}
            row["token"] = request.output[-1] if request.emitted > before else None
            row["remaining"] = request.remaining if request.ended is None else 0
            rows.append(row if request.ended in (None, "length") else row | {"ended": request.ended})
        return {"rows": rows, "ms": milliseconds(result.seconds), "weight_bytes": result.weight_bytes}

    def nothing(self) -> Body:
        """The reply when there is no row to run."""
        return (
            {"rows": [], "mismatches": 0} if self.kind is PlanKind.PROBE else {"rows": [], "ms": 0.0, "weight_bytes": 0}
        )


def choose(live: Collection[Request], limit: int | None, tail: bool) -> tuple[list[Request], list[Request]]:
    """Which requests are taken, and which are skipped; `tail` takes only those with one token left. Without a limit all
    those with a pending token are taken, whatever --max-batch is."""
    most = limit or len(live)
    taken: list[Request] = []
    skipped: list[Request] = []
    for request in live:
        eligible = request.state in (State.DECODE, State.PARKED) and not (tail and request.remaining > 1)
        (taken if eligible and len(taken) < most else skipped).append(request)
    return taken, skipped


def peek(taken: list[Request], skipped: list[Request]) -> Body:
    return {
        "rows": [_lease(request) | {"remaining": request.remaining} for request in taken],
        "skipped": [{"req": request.req_id, "state": request.state.value} for request in skipped],
    }


def _lease(request: Request) -> Body:
    return {"req": request.req_id, "slot": request.slot, "epoch": request.epoch, "position": request.position}


def _probe(requests: list[Request], results: list[StepResult]) -> Body:
    rows = []
    for request, batched, alone in zip(requests, results[0].rows, results[1:], strict=True):
        single = alone.rows[0]
        row = _lease(request) | {"batched": _token(batched), "single": _token(single), "equal": _equal(batched, single)}
        if error := _error(batched) or _error(single):
            row["error"] = error
        rows.append(row)
    return {"rows": rows, "mismatches": sum(not row["equal"] for row in rows)}


def _token(result: RowResult | RowFailure) -> int | None:
    return None if isinstance(result, RowFailure) else result.tokens[0]


def _error(result: RowResult | RowFailure) -> str | None:
    return result.error if isinstance(result, RowFailure) else None


def _equal(batched: RowResult | RowFailure, single: RowResult | RowFailure) -> bool:
    if isinstance(batched, RowFailure) or isinstance(single, RowFailure):
        return False
    return batched.logits is not None and batched.logits == single.logits
