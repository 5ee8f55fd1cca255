"""A driver whose steps and items a timeline is told of, as the loop tells it."""

from __future__ import annotations

from typing import Any

from driver import Driver
from paceline.daemon.execution import execute
from paceline.daemon.timeline import Event, Timeline
from paceline.protocol import Item


class Watched(Driver):
    """Its timeline begins when `watch` is called."""

    timeline: Timeline | None = None

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self.events: list[Event] = []

    def watch(self) -> None:
        session = self.session
        self.timeline = Timeline("null", session.limits.slots, session.counters.steps, self.clock())
        self.events += self.timeline.opening(session.live.values())

    def step(self) -> list[Item]:
        start = self.clock()
        plan = self.session.next_step(start)
        if plan is None:
            return []
        self.plans.append(plan)
        results = execute(self.engine, plan, self.clock)
        end = self.clock()
        if self.timeline is not None:
            self.events += self.timeline.step(plan, results, start, end)
        return self.take(self.session.finish(plan, results, end))

    def take(self, items: list[Item]) -> list[Item]:
        if self.timeline is not None:
            self.events += self.timeline.saw(items, self.clock())
        return super().take(items)

    def closed(self) -> list[Event]:
        assert self.timeline is not None
        return self.events + self.timeline.closing(self.clock())


def watched(*lines: str, **named: Any) -> Watched:
    driver = Watched(**named)
    driver.watch()
    for line in lines:
        driver.send(line)
        if not driver.session.holding:
            driver.run()
    return driver
