"""Rules that run steps: by themselves, by grants and drains, by hand; and WAIT."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule
from paceline.protocol import Message
from rows import Row
from rules import MOST, TAGS, Rules, words


class TurnRules(Rules):
    @rule(most=st.sampled_from([1, 1, 1, 3, 10, 300]))
    def steps(self, most: int) -> None:
        self.one.run(most)

    @rule(tag=TAGS)
    def sched_step(self, tag: str) -> None:
        reply, rest = self.say(f"{tag}SCHED_STEP")
        assert reply["ok"] and (reply["req"] is None) == (not self.model.parked)
        if reply["req"] is not None:
            self.model.take_turn(self.model.live[reply["req"]])
        self.model.observe(rest)

    @rule(tag=TAGS, command=st.sampled_from(["SCHED_DRAIN", "sched_batch_drain"]), most=MOST)
    def drain(self, tag: str, command: str, most: int | None) -> None:
        most = None if command == "SCHED_DRAIN" else most
        reply, rest = self.say(tag + words(command, most))
        assert reply["ok"] and reply["live"] == len(self.model.live)
        self.model.drains.append((self.one.tag_of(tag + command), most))
        self.model.grant_all()
        self.model.observe(rest)

    @rule(on=st.booleans())
    def auto(self, on: bool) -> None:
        reply, rest = self.say(f"SCHED_AUTO {'on' if on else 'off'}")
        assert reply["ok"]
        self.model.auto = on
        if on:
            self.model.grant_all()
        self.model.observe(rest)

    @rule(most=MOST, tag=TAGS)
    def peek(self, most: int | None, tag: str) -> None:
        reply, rows = self.ok(tag + words("SCHED_BATCH_PEEK", most)), self.model.pending()
        self.leases(reply["rows"], rows, most)
        assert all(body["remaining"] == self.model.live[body["req"]].remaining for body in reply["rows"])
        told = {body["req"]: body["state"] for body in reply["rows"] + reply["skipped"] if "state" in body}
        assert told == {row.owner: row.state for row in self.model.rows if row.owner not in self.taken(reply)}

    @staticmethod
    def taken(reply: dict[str, Any]) -> list[int]:
        return [body["req"] for body in reply["rows"]]

    def leases(self, bodies: list[dict[str, Any]], rows: list[Row], most: int | None) -> None:
        assert len({body["req"] for body in bodies}) == len(bodies) == min(most or len(rows), len(rows))
        for body in bodies:
            row = self.model.live[body["req"]]
            assert row in rows
            assert (body["slot"], body["epoch"], body["position"]) == (row.slot, row.epoch, row.position)

    @rule(most=MOST, tag=TAGS)
    def probe(self, most: int | None, tag: str) -> None:
        rows = self.model.pending()
        items = self.one.send(tag + words("SCHED_BATCH_PROBE", most)) or self.one.driver.step()
        (reply,) = items
        assert isinstance(reply, Message) and reply.body["re"] == self.one.line and reply.body["mismatches"] == 0
        self.leases(reply.body["rows"], rows, most)
        for body in reply.body["rows"]:
            row = self.model.live[body["req"]]
            assert body["equal"] and body["batched"] == body["single"]
            if row.course is not None:
                assert body["batched"] == [*row.course.tokens, row.course.last][len(row.tokens)]

    @rule(most=MOST, tag=TAGS, tail=st.booleans())
    def target(self, most: int | None, tag: str, tail: bool) -> None:
        rows = [row for row in self.model.pending() if not tail or row.remaining == 1]
        self.one.by_hand(
            tag + words("SCHED_BATCH_TARGET_TAIL" if tail else "SCHED_BATCH_TARGET_STEP", most), rows, most
        )

    @rule(after=st.one_of(st.none(), st.integers(-3, 20)), tag=TAGS)
    def wait(self, after: int | None, tag: str) -> None:
        model = self.model
        until = None if after is None else max(0, model.steps + after)
        items = self.one.send(tag + words("WAIT", None if until is None else f"step={until}"))
        while True:
            over = not model.due or (until is not None and model.steps >= until)
            assert bool(items) == over or not over
            replies = [item for item in items if isinstance(item, Message) and "re" in item.body]
            model.observe([item for item in items if item not in replies])
            over = not model.due or (until is not None and model.steps >= until)
            assert len(replies) == over, "it is over when nothing is due, or at the step"
            if replies:
                assert replies[0].body == {"re": self.one.line, "ok": True, "step": model.steps}
                return
            items, _ = self.one.step()
