"""All commands in any order, each reply and each frame held against a plain model of the contract (model.py)."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from driver import limits
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from modelled import Modelled
from paceline.daemon.null_engine import VOCABULARY
from paceline.protocol import Message, help_text
from rows import Row

CONTEXT = 256
MOST = st.sampled_from([None, None, 1, 2, 9])
SLOTS = st.one_of(st.none(), st.none(), st.integers(0, 4))
IDS = st.integers(1, 7)
NAMES = st.sampled_from(["a", "b", "c", "d-1_2.x"])
TAGS = st.sampled_from(["", "", "REQ 9 ", "request=3 ", "\tREQ=12  "])
TAILS = st.lists(st.sampled_from([1, 2, 3] * 7 + [VOCABULARY]), max_size=2).map(tuple)
PROMPTS = st.builds(
    lambda length, tail: (*range(7, 7 + length), *tail),
    st.sampled_from([0, 1, 2, 5, 30, 62, 63, 64, 65, 129, 200]),
    TAILS,
)
TOTALS, QUANTA = st.sampled_from([1, 2, 3, 5, 9, 20, 60]), st.sampled_from([None, 1, 2, 3, 100])
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "temp": st.sampled_from([0, 1]),
        "seed": st.sampled_from([0, 5]),
        "stop": st.sampled_from([0, 1, 4]),  # so many tokens come before the stop token
        "ignore_eos": st.booleans(),
        "hash": st.booleans(),
        "priority": st.sampled_from([0, 1, 7]),
        "snap": st.tuples(st.sampled_from([1, 5, 64, 66, 128, 130]), NAMES),
    },
)
PLAIN = st.one_of(st.just({}), st.just({}), OPTIONS)
MALFORMED = {
    "FOO": "bad_command",
    "REQ 3": "bad_command",
    "REQ 0 PING": "bad_argument",
    "REQ 1 REQ 1 PING": "bad_argument",
    "SLOT 1 PING": "bad_argument",
    "START ids:1 5": "bad_argument",
    "REQ 5 START ids:1": "bad_argument",
    "REQ 5 START ids:1 5 0": "bad_argument",
    "REQ 5 START ids:1 5 hash=1 hash=1": "bad_argument",
    "REQ 5 START ids:1 5 top=1": "bad_argument",
    "REQ 6 START ids:1,x 5": "prompt_bad_token",
    "REQ 6 START /nowhere/at/all 5": "prompt_unreadable",
    "SCHED_AUTO maybe": "bad_argument",
    "WAIT step=x": "bad_argument",
    "FREE_SNAPSHOT -a": "bad_argument",
    "QUIT now": "bad_argument",
}


def words(*parts: object) -> str:
    return " ".join(str(part) for part in parts if part is not None)


class Machine(RuleBasedStateMachine):
    @initialize(
        slots=st.integers(1, 4),
        batch=st.integers(1, 4),
        queue=st.sampled_from([0, 2, 64]),
        chunk=st.sampled_from([1, 3, 64]),
        flags=st.tuples(*[st.booleans()] * 5),
        ample=st.sampled_from([True, True, False]),
    )
    def begin(self, slots: int, batch: int, queue: int, chunk: int, flags: tuple[bool, ...], ample: bool) -> None:
        auto, reuse, coalesce, recurrent, self.quits = flags
        bounds = limits(
            slots,
            min(batch, slots),
            CONTEXT,
            queue=queue,
            step_tokens=chunk,
            prefill_tokens=4 * chunk,
            auto=auto,
            reuse=reuse,
            coalesce=coalesce,
            pages=80 if ample else 6,
            states=(40 if ample else 2) * recurrent,
        )
        self.one = Modelled(bounds, recurrent, ample)
        self.last: tuple[Any, ...] = ((1, 2), 9, 4, {})
        self.model, self.say, self.ok, self.refused = self.one.model, self.one.say, self.one.ok, self.one.refused

    def teardown(self) -> None:
        if not hasattr(self, "one") or sys.exc_info()[0] is not None:  # a rule that failed has said enough
            return
        one, model = self.one, self.model
        if not self.quits:
            self.drain("", "SCHED_DRAIN", None)
            one.run()
            while model.snapshots:
                self.free_snapshot("", next(iter(model.snapshots)))
                one.run()  # somebody may have waited for its pages, and keep another one
            assert not model.live
            stats = self.ok("STATS")
            assert (stats["pages"]["used"], stats["slots"]["used"], stats["snapshots"]) == (0, 0, 0)
        reply, rest = self.say("QUIT")
        assert reply["ok"]
        model.quitting = True
        model.observe(rest)
        one.run()
        assert not model.live and one.driver.session.done
        assert not one.driver.session.lifecycle.cache.pages.used
        self.check_invariants("quit", {})
        one.close()

    def check_invariants(self, *told: Any, **named: Any) -> None:
        if hasattr(self, "one"):
            self.one.driver.session.check()

    @rule(most=st.sampled_from([1, 1, 1, 3, 10, 300]))
    def steps(self, most: int) -> None:
        self.one.run(most)

    @rule(req_id=IDS, slot=SLOTS, prompt=PROMPTS, total=TOTALS, quantum=QUANTA, chosen=PLAIN)
    def start(
        self,
        req_id: int,
        slot: int | None,
        prompt: tuple[int, ...],
        total: int,
        quantum: int | None,
        chosen: dict[str, Any],
    ) -> None:
        self.last = prompt, total, quantum, chosen
        row, text, codes = self.one.request(req_id, prompt, total, quantum, chosen)
        sampled = chosen.get("temp") and "seed" not in chosen
        if self.one.bounds.coalesce and self.model.auto and slot is None and "snap" not in chosen and not sampled:
            told = [part for part in text.split() if "=" in part and "priority" not in part]
            row.key = repr((prompt, total, row.quantum, told))
        line = words("REQ", req_id, None if slot is None else f"SLOT={slot}", "START", text)
        self.one.begin(req_id, row, line, codes, slot=slot)

    @rule(req_id=IDS, priority=st.sampled_from([None, 0, 3]))
    def start_again(self, req_id: int, priority: int | None) -> None:
        prompt, total, quantum, chosen = self.last
        self.start(
            req_id, None, prompt, total, quantum, chosen if priority is None else chosen | {"priority": priority}
        )

    @rule(req_id=IDS, name=NAMES, tail=TAILS, total=TOTALS, quantum=QUANTA, chosen=PLAIN, off=st.integers(0, 9))
    def restore(
        self,
        req_id: int,
        name: str,
        tail: tuple[int, ...],
        total: int,
        quantum: int | None,
        chosen: dict[str, Any],
        off: int,
    ) -> None:
        first, ids = self.model.snapshots.get(name, (0, (5,)))
        prompt = (*ids, *tail) if off else (*ids[:-1], 99, *tail)
        row, text, codes = self.one.request(req_id, prompt, total, quantum, chosen)
        row.cached = len(ids)
        if name not in self.model.snapshots:
            codes.add("no_snapshot")
        elif first or prompt[: len(ids)] != ids or len(prompt) == len(ids):
            codes.add("snapshot_mismatch")
        elif self.one.recurrent and chosen.get("snap", (len(ids), ""))[0] < len(ids):
            codes.add("bad_argument")
        self.one.begin(req_id, row, words("REQ", req_id, "RESTORE", name, text), codes)

    @rule(req_id=IDS, thick=st.one_of(st.just("-1"), NAMES), thin=st.lists(NAMES, max_size=2), tail=TAILS, total=TOTALS)
    def restore_chain(self, req_id: int, thick: str, thin: list[str], tail: tuple[int, ...], total: int) -> None:
        names = [name for name in (thick, *thin) if name != "-1"]
        kept = [self.model.snapshots.get(name, (0, ())) for name in names]
        ids = max((ids for _, ids in kept), key=len, default=())
        row, text, codes = self.one.request(req_id, (*ids, *tail), total, None, {})
        reached, maybe = 0, ""
        for first, part in kept:
            if first > reached or part != ids[: len(part)]:
                codes.add("snapshot_mismatch")
            if first < reached or len(part) <= reached:
                maybe = "snapshot_mismatch"  # whether ranges may overlap, or add nothing, is left open
            reached = max(reached, len(part))
        row.cached = reached
        if any(name not in self.model.snapshots for name in names):
            codes.add("no_snapshot")
        if ids and not tail:
            codes.add("snapshot_mismatch")
        maybe += " unsupported" * self.one.recurrent
        self.one.begin(
            req_id, row, words("REQ", req_id, "RESTORE_CHAIN", thick, ",".join(thin) or "-", text), codes, maybe
        )

    @rule(
        req_id=IDS, count=st.sampled_from([1, 2, 5, 100]), right=st.integers(0, 3), slot=SLOTS, epoch=st.integers(1, 5)
    )
    def resume(self, req_id: int, count: int, right: int, slot: int | None, epoch: int) -> None:
        row: Row | None = self.model.live.get(req_id)
        given = epoch if right == 0 else row.epoch if right == 1 and row is not None else None
        text = words("REQ", req_id, None if slot is None else f"SLOT {slot}", "CONT" if right else "continue", count)
        codes = self.model.lease_codes(req_id, slot, given)
        if row is not None and len(row.seen) > 1:
            codes.add("unsupported")
        reply, rest = self.say(text + ("" if given is None else f" epoch={given}"))
        if self.refused(reply, rest, codes):
            return
        assert row is not None and reply["granted"] == min(count, row.remaining - row.grant)
        row.grant, row.key = row.grant + reply["granted"], None
        self.model.unpark(row)
        self.model.observe(rest)

    @rule(req_id=IDS, slot=SLOTS, tag=TAGS)
    def cancel(self, req_id: int, slot: int | None, tag: str) -> None:
        row = self.model.live.get(req_id)
        codes = self.model.lease_codes(req_id, slot)
        reply, rest = self.say(tag + words(None if slot is None else f"SLOT={slot}", "CANCEL", req_id))
        if self.refused(reply, rest, codes):
            return
        assert row is not None and reply["state"] == row.state
        self.model.cancelling = req_id
        self.model.observe(rest)
        self.model.cancelling = None
        assert req_id not in self.model.live

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

    @rule(slot=st.integers(0, 4), name=NAMES, tag=TAGS)
    def snapshot(self, slot: int, name: str, tag: str) -> None:
        self.keep(f"{tag}SLOT {slot} SNAPSHOT {name}", slot, name, 0, None, set())

    @rule(slot=st.integers(0, 4), name=NAMES, first=st.sampled_from([0, 1, 62, 64, 70]), size=st.integers(0, 80))
    def snapshot_thin(self, slot: int, name: str, first: int, size: int) -> None:
        codes = {code for code, met in (("unsupported", self.one.recurrent), ("bad_argument", not size)) if met}
        self.keep(f"SLOT {slot} SNAPSHOT_THIN {name} {first} {first + size}", slot, name, first, first + size, codes)

    def keep(self, text: str, slot: int, name: str, first: int, end: int | None, codes: set[str]) -> None:
        owner = self.model.slots[slot][1] if slot < len(self.model.slots) else None
        row = None if owner is None else self.model.live[owner]
        if row is None:
            codes = codes | {"no_such_slot" if slot >= len(self.model.slots) else "not_active"}
        elif row.tokens and end is not None and end > row.position:
            codes = codes | {"bad_argument"}
        reply, rest = self.say(text)
        in_prefill = row is not None and not row.tokens
        maybe = ("bad_argument " * in_prefill) + ("" if self.model.ample else "kv_budget")
        if self.refused(reply, rest, codes, maybe):
            return
        assert row is not None
        position = reply["position"]
        assert position == (end if end is not None else position if in_prefill else row.position)
        self.model.snapshots[name] = (first, (row.ids if row.tokens else row.prompt)[:position])
        self.model.observe(rest)

    @rule(tag=TAGS, name=NAMES)
    def free_snapshot(self, tag: str, name: str) -> None:
        reply, rest = self.say(f"{tag}FREE_SNAPSHOT {name}")
        if not self.refused(reply, rest, set() if name in self.model.snapshots else {"no_snapshot"}):
            del self.model.snapshots[name]
            self.model.observe(rest)

    @rule(name=NAMES, file=st.sampled_from(["x", "y"]))
    def save(self, name: str, file: str) -> None:
        reply, rest = self.say(f"SAVE {name} {self.one.folder}/{file}")
        if not self.refused(reply, rest, set() if name in self.model.snapshots else {"no_snapshot"}):
            self.one.files[file] = self.model.snapshots[name]
            assert reply["position"] == len(self.one.files[file][1])
            self.model.observe(rest)

    @rule(name=NAMES, file=st.sampled_from(["x", "y"]))
    def load(self, name: str, file: str) -> None:
        reply, rest = self.say(f"LOAD {name} {self.one.folder}/{file}")
        codes = set() if file in self.one.files else {"bad_argument"}
        if not self.refused(reply, rest, codes, "" if self.model.ample else "kv_budget"):
            self.model.snapshots[name] = self.one.files[file]
            self.model.observe(rest)

    @rule(tag=TAGS)
    def lists(self, tag: str) -> None:
        model = self.model
        kept = {
            body["name"]: (body.get("from", 0), body["position"]) for body in self.ok(f"{tag}LIST_SLOTS")["snapshots"]
        }
        assert kept == {name: (first, len(ids)) for name, (first, ids) in model.snapshots.items()}
        for number, body in enumerate(self.ok(f"{tag}LIST_TARGET_CACHE_SLOTS")["slots"]):
            assert (body["slot"], (body["epoch"], body["owner"])) == (number, model.slots[number])
            row = None if body["owner"] is None else model.live[body["owner"]]
            assert body["position"] == (row.position if row and row.tokens else body["position"] if row else 0)
        bodies = self.ok(f"{tag}list_requests")["requests"]
        assert sorted(body["req"] for body in bodies) == sorted(model.live)
        for body in bodies:
            row = model.live[body["req"]]
            own = body["req"] == row.owner
            assert (body["slot"], body["epoch"]) == ((row.slot, row.epoch) if own else (None, None))
            assert body.get("with") == (None if own else row.owner)
            assert (body["state"], body["emitted"]) == (row.state, len(row.tokens))
            assert (body["remaining"], body["quantum"], body["granted"]) == (row.remaining, row.quantum, row.grant)
            assert body["position"] == row.position if row.tokens else 0 <= body["position"] < len(row.prompt)

    @rule(tag=TAGS)
    def stats(self, tag: str) -> None:
        body, model, counts = self.ok(f"{tag}STATS"), self.model, self.one.counts
        assert (body["steps"], body["snapshots"], body["queue"]) == (
            model.steps,
            len(model.snapshots),
            len(model.queue),
        )
        assert body["slots"] == {"used": len(model.slots) - len(model.free()), "total": len(model.slots)}
        assert sum(body["requests"].values()) == len(model.live)
        refusals = {code: count for code, count in counts.items() if code not in ("accepted", "coalesced")}
        assert body["refusals"] == refusals and body["lines"] == self.one.line - 1
        assert (body["accepted"], body["coalesced"]) == (counts["accepted"], counts["coalesced"])
        assert (body["cancels"], body["failures"], body["stale_results"]) == (model.ends["cancelled"], 0, 0)
        assert body["ended"] == model.ends.total() - model.ends["cancelled"]

    @rule(tag=TAGS)
    def talk(self, tag: str) -> None:
        assert self.ok(f"{tag}PING x=1")["pong"] == "x=1" and self.ok("ping")["pong"] is None
        assert self.ok(f"{tag}HELP")["help"] == help_text(None)
        assert "SCHED_STEP" in self.ok("HELP sched_step")["help"]

    @rule(text=st.sampled_from(sorted(MALFORMED)))
    def malformed(self, text: str) -> None:
        assert self.refused(*self.say(text), {MALFORMED[text]})


def explore(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_any_commands() -> None:
    explore(120, 40)


@pytest.mark.slow
def test_a_hundred_thousand() -> None:
    explore(1000, 100)
