"""A daemon without a process: bytes in, items out, on any engine, with a clock that ticks once a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from constrained import ListedGrammars
from paceline.daemon.crash import CommandLog
from paceline.daemon.engine import Engine
from paceline.daemon.execution import execute
from paceline.daemon.inbox import Inbox
from paceline.daemon.limits import Limits, pages_for
from paceline.daemon.loop import Loop
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.outbox import Outbox
from paceline.daemon.plan import Plan
from paceline.daemon.session import Session
from paceline.protocol import TERMINALS, Command, Frame, Item, Line, Message, encode_tagged, parse


def limits(slots: int = 4, max_batch: int | None = None, context: int = 256, **rest: Any) -> Limits:
    rest.setdefault("pages", slots * pages_for(context))
    return Limits(slots=slots, max_batch=max_batch or slots, context=context, **rest)


class Driver:
    """`items` is the whole stream; a step runs when it is asked for."""

    def __init__(
        self,
        bounds: Limits | None = None,
        engine: Engine | None = None,
        parse: Callable[[Line], Command] = lambda line: parse(line.text),
        **named: Any,
    ) -> None:
        bounds = bounds or limits(**named)
        self.engine: Engine = engine or NullEngine(bounds.slots, bounds.context)
        self._ticks = count()
        self._seeds = count(1000)
        self.session = Session(
            self.engine.info, bounds, lambda: next(self._seeds), grammars=ListedGrammars(self.engine.info.vocab)
        )
        self._lines = count(1)
        self.items: list[Item] = []
        self.plans: list[Plan] = []
        outbox = Outbox(self._encode, lambda: None)
        self._loop = Loop(self.session, self.engine, Inbox(), outbox, self.clock, CommandLog(), None, parse)

    def _encode(self, items: Iterable[Item]) -> bytes:
        """Of what the loop puts into the stream by itself."""
        return encode_tagged(self.take(list(items)))

    def fail(self) -> None:
        self._loop.fail("it broke", "internal")

    def clock(self) -> float:
        return next(self._ticks) * 1e-3

    def send(self, text: str) -> list[Item]:
        """One line. Lines that the session holds are the caller's to mind."""
        assert not self.session.holding, f"{text}: lines are held"
        items, _ = self._loop.answer(Line(next(self._lines), text))
        return self.take(items)

    def reply(self, text: str) -> dict[str, Any]:
        first = self.send(text)[0]
        assert isinstance(first, Message), first
        return first.body

    def ask(self, text: str) -> dict[str, Any]:
        """The same for a command that is answered after a step."""
        items = self.send(text) or self.step()
        return next(item.body for item in items if isinstance(item, Message) and "re" in item.body)

    def step(self) -> list[Item]:
        plan = self.session.next_step(self.clock())
        if plan is None:
            return []
        self.plans.append(plan)
        return self.take(self.session.finish(plan, execute(self.engine, plan, self.clock), self.clock()))

    def run(self, most: int = 100_000) -> list[Item]:
        """Steps until nothing is due."""
        items: list[Item] = []
        for _ in range(most):
            before = len(self.plans)
            items += self.step()
            if len(self.plans) == before:
                return items
        raise AssertionError(f"still due after {most} steps")

    def end(self) -> list[Item]:
        return self.take(self.session.end_of_input(self.clock())) + self.run()

    def take(self, items: list[Item]) -> list[Item]:
        self.items += items
        return items


def nobody_waits_in_vain(session: Session) -> bool:
    """Whoever waits has no slot, too few pages, or somebody before it."""
    admission, cache = session.lifecycle.admission, session.lifecycle.cache
    return admission.slots.free() is None or admission.waiting.next(cache.fits, cache.will_fit) is None


def tokens_of(items: Iterable[Item], req_id: int) -> list[int]:
    return [item.value for item in items if isinstance(item, Frame) and item.req_id == req_id and item.value >= 0]


def signals_of(items: Iterable[Item], req_id: int) -> list[int]:
    return [item.value for item in items if isinstance(item, Frame) and item.req_id == req_id and item.value < 0]


def events_of(items: Iterable[Item], name: str) -> list[dict[str, Any]]:
    return [item.body for item in items if isinstance(item, Message) and item.body.get("event") == name]


def terminal_of(items: Iterable[Item], req_id: int) -> int | None:
    return next((value for value in signals_of(items, req_id) if value in TERMINALS), None)


def alone(start: str, **named: Any) -> list[int]:
    """The tokens of one START when nobody else is there."""
    driver = Driver(slots=1, **named)
    req_id = parse(start).req_id
    driver.send(start)
    driver.end()
    return tokens_of(driver.items, req_id)
