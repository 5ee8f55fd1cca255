"""Schedules: arrival times, chunk sizes, quanta, slots, batch caps, cancels of others, hand-made steps, drafts, and the
mix of greedy and seeded requests, drawn and run through the session on one of several cores (instruction sets,
threads).

Most prompts begin alike, so that pages are shared, copied and evicted; some go on from snapshots; no run alone does.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from constrained import ANY_THIRD
from driver import Driver, events_of, signals_of, tokens_of
from paceline.daemon.engine import NativeEngine
from paceline.daemon.limits import Limits, pages_for
from paceline.native import _cpu
from paceline.native.core import open_core
from paceline.protocol import CANCELLED
from prophet import Told

SLOTS = 6
STATES = 4
MOST_DRAFT = 8
ACTIONS = ["continue", "step", "target", "probe", "cancel", "drain", "auto"]
ACTIONS += ["start", "start", "start", "restore", "restore", "snapshot"]
OPTIONS = (
    "",
    "temp=0.8 seed=3",
    "temp=1.1 top_p=0.9 seed=4",
    "temp=0.7 top_k=40 min_p=0.05 rep_penalty=1.3 seed=5",
    "freq_penalty=0.4 pres_penalty=0.3",
    f"temp=0.9 seed=6 {ANY_THIRD} stop=0",
)


@dataclass(frozen=True)
class Job:
    prompt: str
    total: int
    options: str

    def start(self, req_id: int, quantum: int, verb: str = "START", more: str = "") -> str:
        options = f"hash=1 ignore_eos=1 {self.options} {more}"
        return f"REQ {req_id} {verb} {self.prompt} {self.total} {quantum} {options}"

    @cached_property
    def ids(self) -> tuple[int, ...]:
        return tuple(map(int, self.prompt.removeprefix("ids:").split(",")))

    @property
    def length(self) -> int:
        return len(self.ids)


class Bench:
    """Cores of one model, opened once, and what each job gives alone."""

    def __init__(
        self,
        path: Path,
        context: int,
        lengths: tuple[int, ...],
        totals: tuple[int, ...],
        plain: bool,
        cache_types: tuple[str, str] = ("f16", "f16"),
    ) -> None:
        self.path, self.context, self.cache_types = path, context, cache_types
        self._cores: dict[tuple[str, int], NativeEngine] = {}
        fastest = _cpu.instruction_sets()[-1]
        self.first = fastest, 2  # for the runs alone
        self.kinds = [self.first, (fastest, 1), (fastest, 3), *((isa, 2) for isa in _cpu.instruction_sets()[1:-1])]
        if plain:
            self.kinds.append(("plain", 2))
        chance = random.Random(0)
        vocab = self.core(*self.first).info.vocab
        text = [str(chance.randrange(vocab)) for _ in range(max(lengths))]
        self.jobs = []
        for length in lengths:
            for option in chance.sample(OPTIONS, 2):
                own = chance.randint(0, min(length, 40))  # how many of its last ids are its own
                ids = [*text[: length - own], *(str(chance.randrange(vocab)) for _ in range(own))]
                self.jobs.append(Job("ids:" + ",".join(ids), chance.choice(totals), option))
        self._solo: dict[Job, tuple[list[int], str]] = {}
        self.drafted = self.drafted_right = self.asked = 0

    def core(self, isa: str, threads: int) -> NativeEngine:
        if (isa, threads) not in self._cores:
            keys, values = self.cache_types
            core = open_core(
                self.path,
                slots=SLOTS,
                context=self.context,
                threads=threads,
                isa=isa,
                cache_type_k=keys,
                cache_type_v=values,
                states=STATES,
                replay=MOST_DRAFT + 1,
                drafting=True,
            )
            engine = self._cores[isa, threads] = NativeEngine(core, self.path)
            # Of a tiny model the layer that drafts is a large part, and would hardly ever be asked; nor where few
            # instructions make a column dear.
            column_cost, draft_cost = min(engine.info.column_cost, 0.15), min(engine.info.draft_cost, 0.02)
            engine.info = replace(engine.info, column_cost=column_cost, draft_cost=draft_cost)
        return self._cores[isa, threads]

    def alone(self, job: Job) -> tuple[list[int], str]:
        if job not in self._solo:
            driver = Driver(self.limits(slots=1, reuse=False), self.core(*self.first))
            driver.send(job.start(1, job.total))
            driver.end()
            self._solo[job] = tokens_of(driver.items, 1), events_of(driver.items, "end")[0]["logits_sha256"]
        return self._solo[job]

    def told(self, ids: Sequence[int]) -> Told:
        """A guesser that knows what each job that has run alone gave."""
        texts = [[*job.ids, *tokens] for job, (tokens, _) in self._solo.items() if tuple(ids[: job.length]) == job.ids]
        return Told(ids, texts, self.core(*self.first).info.vocab)

    def limits(self, slots: int, **rest: int) -> Limits:
        rest.setdefault("max_batch", slots)
        rest.setdefault("states", STATES)
        return Limits(slots=slots, context=self.context, pages=slots * pages_for(self.context), **rest)


def run_schedule(bench: Bench, seed: int) -> None:
    chance = random.Random(seed)
    slots = chance.randint(1, SLOTS)
    limits = bench.limits(
        slots,
        max_batch=chance.randint(1, slots),
        step_tokens=chance.choice([1, 5, 16, 17, 64, 200]),
        prefill_tokens=chance.choice([3, 64, 100, 512, 2000]),
        reuse=chance.random() < 0.8,
        coalesce=chance.random() < 0.5,
        draft=chance.choice([0, 1, 3, MOST_DRAFT]),
    )
    isa, threads = chance.choice(bench.kinds)
    driver = Driver(limits, bench.core(isa, threads))
    jobs = {req_id: chance.choice(bench.jobs) for req_id in range(1, chance.randint(2, 7) + 1)}
    if limits.draft and chance.random() < 0.7:
        for job in jobs.values():
            bench.alone(job)
        driver.session.lifecycle.drafts.new_guesser = bench.told
    waiting = list(jobs)
    cancelled = set()
    for _ in range(30):
        for _ in range(chance.randint(0, 6)):
            driver.step()
        live = list(driver.session.live)
        match chance.choice(ACTIONS):
            case "start" if waiting:
                req_id = waiting.pop()
                job, quantum = jobs[req_id], chance.choice([1, 2, 3, 8, 64])
                snap = f"snap={chance.randint(1, job.length)}:{chance.choice('ab')}" if chance.random() < 0.4 else ""
                driver.send(job.start(req_id, quantum, more=snap))
            case "restore" if waiting:
                req_id = waiting.pop()
                name = chance.choice("ab")
                if not driver.reply(jobs[req_id].start(req_id, 8, verb=f"RESTORE {name}"))["ok"]:
                    driver.send(jobs[req_id].start(req_id, 8))
            case "snapshot" if live:
                driver.send(f"SLOT {chance.randrange(slots)} SNAPSHOT {chance.choice('ab')}")
            case "continue" if live:
                driver.send(f"REQ {chance.choice(live)} CONTINUE {chance.randint(1, 9)}")
            case "step":
                driver.send("SCHED_STEP")
            case "target":
                driver.ask(f"SCHED_BATCH_TARGET_STEP {chance.randint(1, SLOTS)}")
            case "probe":
                assert driver.ask("SCHED_BATCH_PROBE")["mismatches"] == 0
            case "cancel" if live and len(cancelled) < 2:
                cancelled.add(victim := chance.choice(live))
                driver.send(f"CANCEL {victim}")
            case "drain" if chance.random() < 0.3:
                driver.send(f"SCHED_BATCH_DRAIN {chance.randint(1, SLOTS)}")
            case "auto" if chance.random() < 0.3:
                driver.send(f"SCHED_AUTO {chance.choice(['on', 'off'])}")
    for req_id in waiting:
        driver.send(jobs[req_id].start(req_id, 4))
    driver.send("SCHED_DRAIN")
    driver.end()
    bench.drafted += driver.session.counters.drafted
    bench.drafted_right += driver.session.counters.drafted_right
    bench.asked += sum(row.ahead for plan in driver.plans for rows in plan.batches for row in rows)
    ends = {end["req"]: end for end in events_of(driver.items, "end")}
    assert set(ends) == set(jobs)
    for req_id, job in jobs.items():
        driver.session.check()
        tokens, digest = bench.alone(job)
        found = tokens_of(driver.items, req_id)
        if signals_of(driver.items, req_id)[-1] == CANCELLED:
            assert found == tokens[: len(found)], f"request {req_id} of schedule {seed} on {isa}, {threads} threads"
        else:
            assert (found, ends[req_id]["logits_sha256"]) == (tokens, digest), (
                f"request {req_id} of schedule {seed} on {isa}, {threads} threads"
            )
