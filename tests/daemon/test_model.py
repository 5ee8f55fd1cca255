"""All commands in any order, each reply and each frame held against a plain model of the contract (model.py)."""

from __future__ import annotations

import sys

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test
from paceline.protocol import help_text
from rules import TAGS
from rules_of_requests import RequestRules
from rules_of_snapshots import SnapshotRules
from rules_of_turns import TurnRules

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


class Machine(RequestRules, TurnRules, SnapshotRules):
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
        assert (body["drafted"], body["drafted_right"]) == (self.one.drafted, model.right)
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
@pytest.mark.timeout(1800)  # half a minute, but one that fails is also shrunk
def test_a_hundred_thousand() -> None:
    explore(1000, 100)


def test_equal_requests_that_end_by_themselves() -> None:
    """The model counts what was drafted and right of the row that they share, not of each."""
    machine = Machine()
    machine.begin(1, 1, 2, 1, (True, False, True, False, False, False, False), True, 0)
    machine.start(2, None, (7, 8), 60, None, {})
    machine.start_again(1, None)
    machine.wait(None, "")
    assert machine.model.ends["eos"] == 2
    machine.stats("")
    machine.teardown()
