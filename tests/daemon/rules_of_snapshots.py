"""Rules that keep what slots hold, drop it, and take it to files and back."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule
from rules import NAMES, TAGS, Rules


class SnapshotRules(Rules):
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
