"""A plain model of the contract: what each request may be told next, what the lists show, what a line may be refused
for. It has no scheduler, pages or prefixes: where the contract leaves an order free it takes the one it is told, and
holds it to what must be true of any. A row is one generation; equal requests may listen to the same row."""

from __future__ import annotations

from collections import Counter
from typing import Any

from paceline.daemon.plan import PAGE
from paceline.protocol import CANCELLED, DONE, YIELD, Frame, Item, Message
from rows import Course, Row

PASSES = 16


class Model:
    """`ample`: there is room for every page and state; without, admission and snapshots may be put off or refused."""

    def __init__(self, slots: int, auto: bool, reuse: bool, ample: bool, pages: int) -> None:
        self.slots: list[tuple[int, int | None]] = [(0, None)] * slots  # epoch, owner
        self.auto, self.reuse, self.ample, self.pages = auto, reuse, ample, pages
        self.live: dict[int, Row] = {}
        self.queue: list[Row] = []
        self.parked: list[Row] = []  # in the order in which they parked
        self.drains: list[tuple[int, int | None]] = []  # those that were accepted: tag, most rows in a step
        self.ends: Counter[str] = Counter()
        self.snapshots: dict[str, tuple[int, tuple[int, ...]]] = {}  # first position, ids from position 0
        self.steps = 0
        self.cancelling: int | None = None
        self.quitting = False
        self.by_hand: list[Row] = []  # rows of a step that was asked for: they need no grant
        self.moved: list[Row] = []  # rows that came a token further, or to their end, once for each
        self.over: set[Row] = set()  # rows that ended by themselves
        self.right = 0  # tokens that were drafted and right
        self.most: dict[Row, int] = {}  # how many tokens a row may come further in this step, if more than one

    @property
    def rows(self) -> list[Row]:
        return list(dict.fromkeys(self.live.values()))

    @property
    def due(self) -> list[Row]:
        return [row for row in self.rows if row.due]

    def free(self) -> list[int]:
        return [slot for slot, (_, owner) in enumerate(self.slots) if owner is None]

    def lease_codes(self, req_id: int, slot: int | None, epoch: int | None = None) -> set[str]:
        if (row := self.live.get(req_id)) is None:
            return {"not_active", "no_such_slot"} if slot is not None and slot >= len(self.slots) else {"not_active"}
        held = (row.slot, row.epoch) if req_id == row.owner else (None, None)
        if slot not in (None, held[0]) or epoch not in (None, held[1]):
            return {"stale", "no_such_slot"} if slot is not None and slot >= len(self.slots) else {"stale"}
        return set()

    def pending(self) -> list[Row]:
        return [row for row in self.rows if row.tokens]

    def unpark(self, row: Row) -> None:
        if row in self.parked:
            self.parked.remove(row)
            for other in self.rows:
                other.ahead.discard(row)

    def take_turn(self, row: Row) -> None:
        """SCHED_STEP: whoever was parked at its last turn, and still is, would have been before it."""
        assert row in self.parked and not row.ahead, "in turn"
        self.unpark(row)
        row.ahead = set(self.parked)
        row.grant = min(row.quantum, row.remaining)

    def grant_all(self) -> None:
        for row in list(self.parked):
            self.unpark(row)
            row.grant = min(row.quantum, row.remaining)

    def observe(self, items: list[Item]) -> None:
        """What a line or a step gave, replies left out."""
        for before, item in zip([None, *items], items, strict=False):
            if isinstance(item, Message):
                getattr(self, f"_{item.body['event']}")(item.req_id, item.body)
            elif item.value in (DONE, CANCELLED):
                assert isinstance(before, Message) and before.body["event"] == "end", "an end goes before its terminal"
                assert before.body["req"] == item.req_id and item.req_id == before.req_id
                assert item.value == (CANCELLED if before.body["reason"] == "cancelled" else DONE)
            else:
                self._tell(item)
            if isinstance(before, Message) and before.body["event"] == "end":
                assert isinstance(item, Frame) and item.req_id == before.req_id
        assert not items or getattr(items[-1], "body", {}).get("event") != "end"
        self.settled()

    def settled(self) -> None:
        """What is true between any two lines or steps."""
        for row in self.rows:
            assert len(set(row.seen.values())) == 1, "all listeners are told the same at once"
            assert row.remaining > 0 and (row.grant or not row.tokens or row.values[-1] == YIELD), row
            assert not (self.regranting(row) or self.quitting) or row.grant, row
        assert self.live or not self.drains
        assert not (self.ample and self.queue and self.free()), "nobody waits while a slot is free"
        if len(self.free()) == len(self.slots):
            assert not any(self.has_room(row) for row in self.queue), "where nobody runs, only snapshots keep one out"

    def has_room(self, row: Row) -> bool:
        """Whether it is sure to fit beside the snapshots, if nobody runs. They may share pages."""
        kept = sum(-(-len(ids) // PAGE) - first // PAGE for first, ids in self.snapshots.values())
        return -(-(len(row.prompt) + row.total - 1) // PAGE) <= self.pages - kept

    def regranting(self, row: Row) -> bool:
        return bool(self.auto or self.drains or len(row.seen) > 1)

    def _tell(self, frame: Frame) -> None:
        row = self.live[frame.req_id]
        if row.seen[frame.req_id] == len(row.values):
            self._advance(row, frame.value)
        assert frame.value == row.values[row.seen[frame.req_id]]
        row.seen[frame.req_id] += 1

    def _advance(self, row: Row, value: int) -> None:
        if value == YIELD:
            assert row.values[-1] >= 0 and not row.grant, f"a YIELD follows the last granted token: {row}"
            if self.regranting(row):
                row.grant = min(row.quantum, row.remaining)
            else:
                self.parked.append(row)
        else:
            self._move(row)
            assert row.course is None or row.course.tokens[len(row.tokens)] == value, row
            assert self.quitting or not row.options.get("snap"), (
                "a snapshot in mid-prefill comes before the first token"
            )
            row.tokens.append(value)
        row.values.append(value)

    def _move(self, row: Row) -> None:
        """A row in a step. One that was asked for by hand needs no grant, but uses one if there is."""
        assert row.slot is not None and self.moved.count(row) < self.most.get(row, 1), row
        assert row.grant or row in self.by_hand, row
        self.right += row in self.moved
        self.unpark(row)
        row.grant = max(0, row.grant - 1)
        self.moved.append(row)

    def _end(self, req_id: int, body: dict[str, Any]) -> None:
        row = self.live.pop(req_id)
        whole = body["reason"] != "cancelled"
        if row.course is None and whole:
            row.course = Course(row.prompt, row.total, body["seed"], ignore_eos=bool(row.options.get("ignore_eos")))
        if whole:
            assert row.complete and body["reason"] in row.course.reasons and not self.cancelling, (body, row)
            if body["reason"] != "length" and row not in self.over:  # with all who share it
                self.over.add(row)
                if row in self.moved:
                    self.right += 1  # the token before this end was drafted, and right
                else:
                    self._move(row)
            assert row in self.moved
            assert body["reason"] == "length" or body["stop_token"] == row.course.last
        else:
            parks = self.quitting and not row.grant and row.values[-1] == YIELD
            assert self.cancelling == req_id or parks, (body, row)
        assert row.seen.pop(req_id) == len(row.values)
        assert (body["req"], body["prompt_tokens"], body["tokens"]) == (req_id, len(row.prompt), len(row.tokens))
        assert row.course is None or body["seed"] == (
            row.options.get("seed") if row.course.seed is None else row.course.seed
        )
        most = len(row.prompt) - 1 if self.reuse else row.cached
        least = row.cached if row.surely else 0
        assert least <= body["cached_tokens"] <= most or not row.tokens, (body, row)
        assert ("logits_sha256" in body) == bool(row.options.get("hash"))
        self.ends[body["reason"]] += 1
        if "logits_sha256" in body and row.course is not None:
            extra = whole and body["reason"] != "length"
            assert body["logits_sha256"] == row.course.digest(len(row.tokens) + extra)
        if not row.seen:
            self._leave(row)
        elif row.slot is not None:
            self.slots[row.slot] = (self.slots[row.slot][0], row.owner)

    def _leave(self, row: Row) -> None:
        self.unpark(row)
        if row in self.queue:
            self.queue.remove(row)
        if row.slot is not None:
            self.slots[row.slot] = (self.slots[row.slot][0] + 1, None)

    def take_slot(self, row: Row, slot: int, epoch: int) -> None:
        assert self.slots[slot] == (epoch - 1, None), f"slot {slot} is {self.slots[slot]}"
        for other in self.queue[: self.queue.index(row)] if row in self.queue else self.queue:
            other.passed += 1
            assert other.passed <= PASSES or not self.has_room(other), f"passed {other.passed} times: {other}"
        self.slots[slot], row.slot, row.epoch = (epoch, row.owner), slot, epoch

    def _admitted(self, req_id: int, body: dict[str, Any]) -> None:
        row = self.live[req_id]
        passed = self.queue[: self.queue.index(row)]
        if self.ample and row.key is None:
            priority = row.options.get("priority", 0)
            assert all(other.options.get("priority", 0) < priority for other in passed), (
                "first come, first served among equals"
            )
        self.take_slot(row, body["slot"], body["epoch"])
        self.queue.remove(row)
        row.surely = self.ample

    def _snapshot(self, req_id: int, body: dict[str, Any]) -> None:
        row = self.live[req_id]
        position, name = row.options.pop("snap")
        assert not row.tokens and body["req"] == req_id and body["name"] == name
        if body["position"] is None:
            assert not self.ample and body["code"] == "kv_budget"
        else:
            assert body["position"] == position
            self.snapshots[name] = (0, row.prompt[:position])

    def _drained(self, tag: int, body: dict[str, Any]) -> None:
        assert not self.live
        self.drains.remove(next(drain for drain in self.drains if drain[0] == tag))
