"""How a plan is carried out.

A slot's state moves only by commit. So a batch that throws is simply retried row by row, and only a row that also
throws alone has failed (as does one of a recurrent model behind which the engine has begun the next step). It is first
retried whole: as a rule it was another row that threw. Then without what is tried ahead and without what is to be
drafted, as either may be what threw, and the text needs neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .engine import DeviceLost, Engine
from .plan import (
    Commit,
    CopyPage,
    Keep,
    Move,
    Plan,
    Row,
    RowFailure,
    RowResult,
    Seat,
    StepResult,
    WritePage,
    WriteState,
)


def execute(engine: Engine, plan: Plan, clock: Callable[[], float]) -> list[StepResult]:
    for move in plan.moves:
        _move(engine, move)
    for slot, position in plan.commits:
        engine.commit(slot, position)
    return [_run(engine, rows, clock) for rows in plan.batches]


def _move(engine: Engine, move: Move) -> None:
    match move:
        case CopyPage(source, target):
            engine.copy_page(source, target)
        case Seat(slot, ids, state):
            engine.seat(slot, ids, state)
        case Commit(slot, position):
            engine.commit(slot, position)
        case Keep(slot, state):
            engine.keep(slot, state)
        case WritePage(page, data):
            engine.write_page(page, data)
        case WriteState(state, data):
            engine.write_state(state, data)


def _run(engine: Engine, rows: Sequence[Row], clock: Callable[[], float]) -> StepResult:
    begun = clock()
    outcomes: list[RowResult | RowFailure] = []
    retried = None
    try:
        results, weight_bytes = engine.step(rows)
        outcomes += results
    except DeviceLost:
        raise
    except Exception as error:
        retried, weight_bytes = _describe(error), 0
        for row in rows:
            outcome, read = _run_alone(engine, row)
            outcomes.append(outcome)
            weight_bytes += read
    return StepResult(outcomes, weight_bytes, clock() - begun, retried)


def _run_alone(engine: Engine, row: Row) -> tuple[RowResult | RowFailure, int]:
    try:
        results, weight_bytes = engine.step((row,))
        return results[0], weight_bytes
    except DeviceLost:
        raise
    except Exception as error:
        if row.outputs > 1 or row.ahead:
            return _run_alone(engine, row.without_draft())
        return RowFailure(_describe(error)), 0


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
