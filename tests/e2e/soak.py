"""A soak: many short requests of every kind through one process, and what must be true of each reply and frame."""

from __future__ import annotations

import random
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from paceline.protocol import DONE, TERMINALS, YIELD, Frame, Item, Message

from ..procfs import anonymous_bytes
from .process import Process, is_reply

CHECKPOINTS = 12
REST_SECONDS = 1.1
FLAGS = ("--auto", "--slots=6", "--max-batch=4", "--max-ctx=256", "--queue=30")
BEGINNINGS = [tuple(range(start, start + length)) for start, length in ((3, 70), (3, 130), (40, 64), (9, 5))]
REFUSALS = {
    "START": {"slot_busy", "queue_full", "kv_budget"},
    "RESTORE": {"queue_full", "kv_budget"},
    "RESTORE_CHAIN": {"queue_full", "kv_budget"},
    "CANCEL": {"not_active"},
    "SNAPSHOT": {"not_active", "kv_budget"},
    "SNAPSHOT_THIN": {"not_active", "bad_argument"},
    "LOAD": {"kv_budget"},
}


@dataclass
class Request:
    """`words` are those of a START alone that gives the same tokens."""

    words: str
    total: int
    prompt: tuple[int, ...]
    tokens: list[int] = field(default_factory=list)
    end: dict[str, Any] | None = None
    live: bool = False


class Soak:
    def __init__(self, process: Process, seed: int, file: Path) -> None:
        """`file` is where snapshots go, and come back from."""
        self.process, self.random, self.file = process, random.Random(seed), file
        self.requests: dict[int, Request] = {}  # of this round
        self.asked: deque[tuple[int, str]] = deque()  # the lines that have no reply yet: tag, text
        self.line = self.count = self.accepted = self.ended = 0
        self.kept: dict[str, tuple[int, ...]] = {}  # snapshots and their ids
        self.making: dict[str, tuple[int, ...]] = {}  # those that a prefill of this round is to make
        self.marks: list[str] = []  # those of whatever a slot held
        self.sample: list[Request] = []
        self.memory: list[int] = []  # bytes, whenever it has rested
        self.previous: Item | None = None

    def rest(self) -> None:
        """A daemon that has nothing to do gives back what it has freed; then its memory is looked at.

        It does so between an answer and the next line, unless that is there already: then after the next answer.
        """
        time.sleep(REST_SECONDS)
        for _ in range(3):
            self.process.send(self.ask(0, "PING"))
            self.read_replies()
            time.sleep(0.2)
        self.memory.append(anonymous_bytes(self.process.popen.pid))

    def round(self, stalls: bool) -> None:
        lines = [self.ask(0, "HELP") for _ in range(500 if stalls else 0)]  # more than a pipe and an outbox hold
        lines += [line for _ in range(40) for line in self.some()]
        lines += [*self.free(keep=4), self.ask(0, "WAIT")]
        self.process.send(*lines)
        if stalls:
            time.sleep(0.2)
        self.read_replies()
        if any(request.live for request in self.requests.values()):  # they wait for room that snapshots have
            self.process.send(*self.free(keep=0), self.ask(0, "WAIT"))
            self.read_replies()
        assert not any(request.live for request in self.requests.values()), "after a WAIT nobody is live"
        self.sample += self.random.sample([one for one in self.requests.values() if one.end], 1)
        self.requests.clear()
        self.making.clear()

    def some(self) -> list[str]:
        """A request, and now and then a line about another."""
        self.count += 1
        req_id, lines, chance = self.count, [], self.random.random()
        words = self.words_of(req_id)
        if chance < 0.1 and self.kept:
            name = self.random.choice(sorted(self.kept))
            prompt = (*self.kept[name], self.random.randrange(100))
            if chance < 0.03:
                thick, thin = self.random.choice([("-1", name), (name, "-")])
                lines.append(self.start(req_id, f"RESTORE_CHAIN {thick} {thin}", prompt, words, chain=True))
            else:
                lines.append(self.start(req_id, f"RESTORE {name}", prompt, words))
        else:
            prompt = (*self.random.choice(BEGINNINGS), *self.random.choices(range(100), k=self.random.randrange(4)))
            snap = ""
            if chance > 0.96:
                position = self.random.randint(1, len(prompt))
                self.making[f"s{req_id}"] = prompt[:position]
                snap = f" snap={position}:s{req_id}"
            slot = f"SLOT {self.random.randrange(6)} " if 0.1 < chance < 0.2 else ""
            lines.append(self.start(req_id, f"{slot}START", prompt, words, snap))
        if self.random.random() < 0.2:
            lines.append(self.ask(0, f"CANCEL {self.random.randint(max(1, req_id - 20), req_id)}"))
        if self.random.random() < 0.03:
            lines.append(self.ask(0, f"SLOT {self.random.randrange(6)} SNAPSHOT m{req_id}"))
        if self.random.random() < 0.03:
            begin = self.random.randrange(3)
            slot, end = self.random.randrange(6), begin + self.random.randint(1, 70)
            lines.append(self.ask(0, f"SLOT {slot} SNAPSHOT_THIN t{req_id} {begin} {end}"))
        if self.random.random() < 0.02 and self.kept:
            name = self.random.choice(sorted(self.kept))
            self.making[f"l{req_id}"] = self.kept[name]
            lines += [self.ask(0, f"SAVE {name} {self.file}"), self.ask(0, f"LOAD l{req_id} {self.file}")]
        return lines

    def words_of(self, req_id: int) -> str:
        total, quantum = self.random.randint(1, 8), self.random.randint(1, 8)
        options = self.random.choice(["", "", "temp=0.9 seed=4", "stop=5,6,7", f"temp=1 seed={req_id}"])
        return f"{total} {quantum} {options}"

    def start(
        self, req_id: int, command: str, prompt: tuple[int, ...], words: str, snap: str = "", chain: bool = False
    ) -> str:
        ids = ",".join(map(str, prompt))
        if chain:  # it takes no options
            words = " ".join(words.split()[:2])
        self.requests[req_id] = Request(f"ids:{ids} {words}", int(words.split()[0]), prompt)
        priority = "" if chain else self.random.choice(["", "", " priority=3"])
        return self.ask(req_id, f"{command} ids:{ids} {words}{priority}{snap}")

    def ask(self, req_id: int, text: str) -> str:
        self.asked.append((req_id, text))
        return f"REQ {req_id} {text}" if req_id else text

    def free(self, keep: int) -> list[str]:
        """Lines that drop all snapshots but so many with known ids."""
        old = sorted(self.kept, key=lambda name: int(name[1:]))
        names = [*old[: len(old) - keep], *self.marks] if len(old) > keep else self.marks
        self.kept = {name: ids for name, ids in self.kept.items() if name not in names}
        self.marks = []
        return [self.ask(0, f"FREE_SNAPSHOT {name}") for name in names]

    def read_replies(self) -> None:
        """Until all that was asked has been answered; looks at everything on the way."""
        last = self.line + len(self.asked)
        self.process.read_until(lambda item: is_reply(item, last), 60.0)
        items, self.process.items = self.process.items, []
        for item in items:
            if isinstance(item, Message) and "re" in item.body:
                self.reply(item)
            elif isinstance(item, Frame) or item.body["event"] != "ready":
                self.news(item)
            self.previous = item

    def reply(self, item: Message) -> None:
        self.line += 1
        req_id, text = self.asked.popleft()
        body = item.body
        kind = next(word for word in text.split() if word != "SLOT" and not word.isdigit())
        assert body["re"] == self.line and item.req_id == req_id
        if not body["ok"]:
            assert body["code"] in REFUSALS.get(kind, ()), (text, body)
        elif kind in ("START", "RESTORE", "RESTORE_CHAIN"):
            self.accepted += 1
            request = self.requests[req_id]
            assert body["prompt_tokens"] == len(request.prompt)
            request.live = True
        elif kind in ("SNAPSHOT", "SNAPSHOT_THIN"):
            self.marks.append(text.split()[3])
        elif kind == "LOAD":
            name = text.split()[1]
            self.kept[name] = self.making[name]

    def news(self, item: Item) -> None:
        request = self.requests[item.req_id]
        assert request.live, f"before its reply or after its terminal: {item}"
        if isinstance(item, Message):
            event = item.body["event"]
            assert request.end is None and event in ("end", "admitted", "snapshot")
            if event == "end":
                request.end = item.body
            elif event == "snapshot" and item.body["position"] is not None:
                self.kept[item.body["name"]] = self.making[item.body["name"]]
        elif item.value in TERMINALS:
            assert request.end is not None and getattr(self.previous, "body", None) is request.end
            assert (item.value == DONE) == (request.end["reason"] in ("length", "stop", "eos"))
            assert request.end["tokens"] == len(request.tokens) <= request.total
            assert request.end["reason"] != "length" or len(request.tokens) == request.total
            request.live = False
            self.ended += 1
        else:
            assert request.end is None and (item.value >= 0 or item.value == YIELD)
            request.tokens += [item.value] if item.value >= 0 else []

    def finish(self) -> None:
        """Nothing is left behind."""
        names = [body["name"] for body in self.told("LIST_SLOTS")["snapshots"]]
        assert sorted(names) == sorted([*self.kept, *self.marks])
        for name in names:
            self.told(f"FREE_SNAPSHOT {name}")
        stats = self.told("STATS")
        assert stats["pages"]["used"] == stats["slots"]["used"] == stats["snapshots"] == stats["queue"] == 0
        assert self.accepted == self.ended == stats["accepted"] == stats["ended"] + stats["cancels"]
        assert (stats["failures"], stats["stale_results"]) == (0, 0)
        assert self.told("LIST_REQUESTS")["requests"] == []
        assert all(body["owner"] is None for body in self.told("LIST_TARGET_CACHE_SLOTS")["slots"])
        assert self.process.finish() == 0

    def told(self, text: str) -> dict[str, Any]:
        self.line += 1
        self.process.send(text)
        return self.process.reply(self.line)


def soak(count: int, seed: int, *flags: str, engine: str = "null", checkpoints: int = CHECKPOINTS) -> Soak:
    """checkpoints: how often the memory is looked at, which takes a second and a half each time."""
    with TemporaryDirectory() as folder, Process(*flags, *FLAGS, engine=engine) as process:
        one = Soak(process, seed, Path(folder) / "snapshot")
        for share in range(1, checkpoints + 1):
            while one.count < count * share // checkpoints:
                one.round(stalls=one.line == 0 or one.random.random() < 0.02)
            one.rest()
        one.finish()
    told_alone(one.sample, *(flag for flag in flags if flag != "--coalesce"), engine=engine)
    return one


def told_alone(sample: list[Request], *flags: str, engine: str) -> None:
    """Each with one slot to itself and nothing to share has the same tokens."""
    with Process("--auto", "--slots=1", "--max-ctx=256", "--no-reuse", *flags, engine=engine) as process:
        for line, request in enumerate(sample, 1):
            process.send(f"REQ {line} START {request.words}")
            process.read_until(lambda item: isinstance(item, Frame) and item.value in TERMINALS)
            tokens = process.tokens(line)
            assert request.tokens == tokens[: len(request.tokens)]
            assert request.end is not None
            assert request.end["reason"] == "cancelled" or len(request.tokens) == len(tokens), (request, tokens)
            process.items = []
        assert process.finish() == 0
