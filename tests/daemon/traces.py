"""What holds for every trace: how it is read, and that its slices nest."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Event = dict[str, Any]

ENGINE, FIRST_SLOT = 2, 3


def read_trace(path: Path) -> list[Event]:
    """A trace whose closing bracket is missing is a trace too."""
    text = path.read_text(encoding="utf-8")
    return json.loads(text if text.rstrip().endswith("]") else f"{text}]")  # type: ignore[no-any-return]


def slices(events: Iterable[Event], kind: str) -> list[Event]:
    return [event for event in events if event["ph"] == "X" and event["cat"] == kind]


def rows(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if event["ph"] == "X" and event["cat"] in ("prefill", "decode")]


def instants(events: Iterable[Event], name: str) -> list[Event]:
    return [event for event in events if event["ph"] == "i" and event["name"] == name]


def begun(events: Iterable[Event], kind: str) -> list[Event]:
    return [event for event in events if event["ph"] == "B" and event["cat"] == kind]


def check_nesting(events: list[Event]) -> None:
    """On every lane times rise, slices that overlap contain each other, and each end closes what began last."""
    lanes: dict[int, list[Event]] = {}
    for event in events:
        if event["ph"] in "XBE":
            lanes.setdefault(event["tid"], []).append(event)
    for lane in lanes.values():
        opened: list[float] = []
        last = 0.0
        for event in lane:
            assert event["ts"] >= last - 0.002, event
            if event["ph"] == "B":
                opened.append(event["ts"])
                last = event["ts"]
            elif event["ph"] == "E":
                assert event["ts"] >= opened.pop(), event
                last = event["ts"]
            else:
                assert event["dur"] >= 0
                last = event["ts"] + event["dur"]
        assert not opened


def check_rows(events: list[Event]) -> None:
    """Each step holds its rows, of its own time and number; each request's rows follow on each other."""
    steps = {event["args"]["step"]: event for event in slices(events, "step")}
    found: dict[int, list[Event]] = {}
    for row in rows(events):
        step = steps[row["args"]["step"]]
        assert (row["ts"], row["dur"]) == (step["ts"], step["dur"])
        found.setdefault(row["args"]["step"], []).append(row)
    for number, step in steps.items():
        assert len(found[number]) == step["args"]["rows"]
        assert len({row["tid"] for row in found[number]}) == step["args"]["rows"]
        assert sum(row["args"]["to"] - row["args"]["from"] for row in found[number]) == step["args"]["tokens"]
