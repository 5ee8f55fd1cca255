"""Rules that begin requests, grant them more, and cancel them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule
from rows import Row
from rules import IDS, NAMES, PLAIN, PROMPTS, QUANTA, SLOTS, TAGS, TAILS, TOTALS, Rules, words


class RequestRules(Rules):
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
