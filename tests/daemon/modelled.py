"""A daemon and the model of it side by side: lines are said to both, steps are run, and whatever came is compared."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from drafting import asks_what_it_may
from driver import Driver
from model import Model
from paceline.daemon.limits import Limits
from paceline.daemon.null_engine import VOCABULARY, NullEngine
from paceline.daemon.plan import PlanKind
from paceline.protocol import Item, Message
from prophet import Prophet
from rows import EOS, Course, Row

Reply = dict[str, Any]


class Modelled:
    def __init__(self, bounds: Limits, recurrent: bool, ample: bool, drafts: bool, begins: bool) -> None:
        engine = NullEngine(bounds.slots, bounds.context, recurrent, drafts)
        engine.info = replace(engine.info, eos=tuple(EOS), wait_cost=0.3 * (begins and not drafts))
        self.bounds, self.recurrent = bounds, recurrent
        self.driver = Driver(bounds, engine)
        self.driver.session.lifecycle.drafts.new_guesser = Prophet
        self.model = Model(bounds.slots, bounds.auto, bounds.reuse, ample, bounds.pages)
        self.line = 0
        self.counts: Counter[str] = Counter()
        self.drafted = 0
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        self.files: dict[str, tuple[int, tuple[int, ...]]] = {}

    def close(self) -> None:
        self._folder.cleanup()

    def say(self, text: str) -> tuple[Reply, list[Item]]:
        """The reply, which comes first, and what came with it."""
        first, *rest = self.send(text)
        assert isinstance(first, Message) and first.body.get("re") == self.line, (text, first)
        assert first.req_id == self.tag_of(text)
        assert not any("re" in item.body for item in rest if isinstance(item, Message)), text
        return first.body, rest

    def send(self, text: str) -> list[Item]:
        self.line += 1
        self.model.moved, self.model.most = [], {}
        return self.driver.send(text)

    @staticmethod
    def tag_of(text: str) -> int:
        words = text.replace("=", " ", 1).upper().split()
        return int(words[words.index("REQ" if "REQ" in words else "REQUEST") + 1]) if words[0].startswith("REQ") else 0

    def ok(self, text: str) -> Reply:
        """The reply to a line that is right and causes nothing."""
        reply, rest = self.say(text)
        assert reply["ok"] and not rest, (text, reply, rest)
        return reply

    def refused(self, reply: Reply, rest: list[Item], codes: set[str], maybe: str = "") -> bool:
        """A line with several faults may be refused for any of them."""
        if reply["ok"]:
            assert not codes, (codes, reply)
            return False
        assert not rest and reply["code"] in codes | set(maybe.split()), (codes, reply)
        self.counts[reply["code"]] += 1
        self.model.settled()
        return True

    def run(self, most: int = 100_000) -> None:
        for _ in range(most):
            if not self.model.due:
                assert not self.driver.step()
                return
            items, moving = self.step()
            self.model.observe(items)
            assert set(self.model.moved) == set(moving), "at least a token for each row in the step"
        assert most < 100_000, "it never ends"

    def step(self) -> tuple[list[Item], list[Row]]:
        """One step: its items, and the rows that it has brought to a token. Held to what a step may take."""
        model, bounds = self.model, self.bounds
        due = {row.owner: row for row in model.due}
        model.moved, model.steps = [], model.steps + 1
        items = self.driver.step()
        plan = self.driver.plans[-1]
        rows = {row.req_id: row for row in plan.batches[0]}
        limit = min([bounds.max_batch, *(most for _, most in model.drains if most)])
        assert plan.kind is PlanKind.STEP and 0 < len(rows) <= limit and rows.keys() <= due.keys()
        assert len(due) > limit or rows.keys() in (due.keys(), self.begun(due)), "all that fit are in every step"
        drafted = {req_id: max(0, row.outputs - 1) for req_id, row in rows.items()}
        size = sum(len(row.tokens) for row in rows.values()) - sum(drafted.values())
        decoding = [req_id for req_id in rows if due[req_id].tokens]
        assert size <= max(len(rows), bounds.step_tokens if decoding else bounds.prefill_tokens)
        assert sum(drafted.values()) <= max(0, bounds.step_tokens - len(decoding))
        asks_what_it_may(plan, self.driver.engine.info, bounds)
        model.most = {due[req_id]: count + 1 for req_id, count in drafted.items()}
        self.drafted += sum(drafted.values())
        ends = {req_id: row.position + len(row.tokens) for req_id, row in rows.items()}
        return items, [due[req_id] for req_id, end in ends.items() if end >= len(due[req_id].prompt)]

    def begun(self, due: dict[int, Row]) -> set[int]:
        """Those for whom the last step's engine may have begun this one: newcomers are in the next."""
        before = self.driver.plans[-2:-1]
        if not before or before[0].kind is not PlanKind.STEP:
            return set()
        leases = {(row.slot, row.epoch) for row in before[0].batches[0] if row.continues}
        return {owner for owner, row in due.items() if (row.slot, row.epoch) in leases}

    def by_hand(self, text: str, rows: list[Row], most: int | None) -> Reply:
        """A step that a line asks for, of so many of the rows; its reply comes last."""
        model = self.model
        items = self.send(text)
        if not rows:
            (reply,) = items
            assert isinstance(reply, Message)
            return reply.body
        assert not items and self.driver.session.holding
        model.by_hand, model.steps = rows, model.steps + 1
        items = self.driver.step()
        (reply,) = [item for item in items if isinstance(item, Message) and "re" in item.body]
        after = items[items.index(reply) + 1 :]
        assert reply.body["re"] == self.line and reply.req_id == self.tag_of(text)
        follows = ("admitted", "snapshot", "drained")  # a snapshot of what was known, or restored
        assert all(isinstance(item, Message) and item.body["event"] in follows for item in after), items
        items.remove(reply)
        moved = [model.live[body["req"]] for body in reply.body["rows"]]
        for row in moved:
            if not row.grant:
                row.key = None  # it yields where no equal one does
        model.observe(items)
        model.by_hand = []
        assert set(model.moved) == set(moved) and len(moved) == min(most or len(rows), len(rows))
        for body, row in zip(reply.body["rows"], moved, strict=True):
            assert body["slot"] == row.slot
            if "ended" not in body:
                assert (body["position"], body["token"], body["remaining"]) == (
                    row.position,
                    row.tokens[-1],
                    row.remaining,
                )
            else:
                assert row.complete and body["ended"] in row.course.reasons and body["token"] is None  # type: ignore[union-attr]
        return reply.body

    def request(
        self, req_id: int, prompt: tuple[int, ...], total: int, quantum: int | None, chosen: dict[str, Any]
    ) -> tuple[Row, str, set[str]]:
        """A request that is not live yet, its words, and what any START of it is to be refused for."""
        seed = chosen.get("seed") if chosen.get("temp") else None
        sampled = bool(chosen.get("temp")) and seed is None
        stops: frozenset[int] = frozenset()
        if chosen.get("stop") is not None and prompt and not sampled:
            stops = frozenset(Course(prompt, chosen["stop"] + 1, seed, ignore_eos=True).tokens[-1:])
        texts = {"stop": ",".join(map(str, stops)), "snap": chosen.get("snap") and "{}:{}".format(*chosen["snap"])}
        words = [f"ids:{','.join(map(str, prompt))} {total}", *([str(quantum)] if quantum else [])]
        for name, value in (chosen | texts).items():
            if value not in (None, False, 0, "") or (name == "seed" and value == 0):
                words.append(f"{name}={int(value) if value is True else value}")
        known = None if sampled else Course(prompt, total, seed, stops, bool(chosen.get("ignore_eos")))
        quantum = min(quantum or total, total)
        row = Row(prompt, total, quantum, known, dict(chosen), grant=quantum)
        faults = {
            "duplicate_request": req_id in self.model.live,
            "prompt_empty": not prompt,
            "prompt_bad_token": any(token >= VOCABULARY for token in prompt),
            "context_overflow": len(prompt) + total > self.bounds.context,
            "bad_argument": bool(chosen.get("snap")) and chosen["snap"][0] > len(prompt),
        }
        return row, " ".join(words), {code for code, met in faults.items() if met}

    def begin(
        self, req_id: int, row: Row, text: str, codes: set[str], maybe: str = "", slot: int | None = None
    ) -> None:
        """START and its kind: refused, or admitted, or queued, or a listener of an equal row."""
        model = self.model
        equal = None if row.key is None else next((one for one in model.rows if one.key == row.key), None)
        if equal is not None and len(model.live) - len(model.rows) >= self.bounds.queue:
            equal = row.key = None  # as many follow as may
        free = model.free()
        if slot is not None and slot >= len(model.slots):
            codes = codes | {"no_such_slot"}
        elif slot is not None and slot not in free:
            codes = codes | {"slot_busy"}
        if model.ample and slot is None and not free and len(model.queue) >= self.bounds.queue and equal is None:
            codes = codes | {"queue_full"}
        reply, rest = self.say(text)
        if self.refused(reply, rest, codes, maybe if model.ample else f"{maybe} kv_budget queue_full"):
            return
        assert reply["prompt_tokens"] == len(row.prompt)
        self.counts["accepted"] += 1
        if "with" in reply:
            row = model.live[reply["with"]]
            assert reply["with"] == row.owner and row is equal and (reply["slot"], reply["epoch"]) == (None, None)
            self.counts["coalesced"] += 1
        assert equal is None or row is equal, "equal ones share a row"
        model.live[req_id] = row
        row.seen[req_id] = 0
        if row is not equal and reply["slot"] is None:
            assert reply["state"] == "queued" and reply["epoch"] is None and (not free or not model.ample)
            model.queue.append(row)
        elif row is not equal:
            assert slot in (None, reply["slot"]) and reply["state"] == "prefill"
            model.take_slot(row, reply["slot"], reply["epoch"])
        assert reply["state"] == row.state
        model.observe(rest)
