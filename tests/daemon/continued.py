"""Drivers of an engine that begins the next step of rows that continue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from driver import Driver
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.plan import Plan

LINE = "REQ {0} START ids:{0},2,3 {1} {2} ignore_eos=1"


def driver(wait_cost: float = 0.5, **named: Any) -> Driver:
    engine = NullEngine(4, 256)
    engine.info = replace(engine.info, wait_cost=wait_cost)
    return Driver(engine=engine, **named)


def rows_of(plan: Plan) -> dict[int, bool]:
    """By request, whether its row continues."""
    return {row.req_id: row.continues for row in plan.batches[0]}


def stepped(table: Driver) -> dict[int, bool]:
    before = len(table.plans)
    table.step()
    return rows_of(table.plans[-1]) if len(table.plans) > before else {}
