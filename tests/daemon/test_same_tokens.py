"""The first promise, on real cores: whatever the schedule, a request's logits have the SHA-256 of its run alone.

A schedule draws arrival times, chunk sizes, quanta, slots, batch caps, cancels of others, hand-made steps and the mix
of greedy and seeded requests; it runs through the session on one of several cores (instruction sets, threads). Most
prompts begin alike, so that pages are shared, copied and evicted; some go on from snapshots. The runs alone do not.
"""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from driver import Driver, events_of, signals_of, tokens_of
from paceline.daemon.engine import NativeEngine
from paceline.daemon.limits import Limits, pages_for
from paceline.native import _cpu
from paceline.native.core import open_core
from paceline.protocol import CANCELLED

SHAPED = Path(__file__).parents[2] / "scripts" / "make_shaped_model.py"
SLOTS = 6
STATES = 4
ACTIONS = ["continue", "step", "target", "probe", "cancel", "drain", "auto"]
ACTIONS += ["start", "start", "start", "restore", "restore", "snapshot"]
OPTIONS = (
    "",
    "temp=0.8 seed=3",
    "temp=1.1 top_p=0.9 seed=4",
    "temp=0.7 top_k=40 min_p=0.05 rep_penalty=1.3 seed=5",
    "freq_penalty=0.4 pres_penalty=0.3",
)


@dataclass(frozen=True)
class Job:
    prompt: str
    total: int
    options: str

    def start(self, req_id: int, quantum: int, verb: str = "START", more: str = "") -> str:
        options = f"hash=1 ignore_eos=1 {self.options} {more}"
        return f"REQ {req_id} {verb} {self.prompt} {self.total} {quantum} {options}"

    @property
    def length(self) -> int:
        return self.prompt.count(",") + 1


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
        self.kinds = [(fastest, 2), (fastest, 1), (fastest, 3), *((isa, 2) for isa in _cpu.instruction_sets()[1:-1])]
        if plain:
            self.kinds.append(("plain", 2))
        chance = random.Random(0)
        vocab = self.core(*self.kinds[0]).info.vocab
        text = [str(chance.randrange(vocab)) for _ in range(max(lengths))]
        self.jobs = []
        for length in lengths:
            for option in chance.sample(OPTIONS, 2):
                own = chance.randint(0, min(length, 40))  # how many of its last ids are its own
                ids = [*text[: length - own], *(str(chance.randrange(vocab)) for _ in range(own))]
                self.jobs.append(Job("ids:" + ",".join(ids), chance.choice(totals), option))
        self._solo: dict[Job, tuple[list[int], str]] = {}

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
            )
            self._cores[isa, threads] = NativeEngine(core, self.path)
        return self._cores[isa, threads]

    def alone(self, job: Job) -> tuple[list[int], str]:
        if job not in self._solo:
            driver = Driver(self.limits(slots=1, reuse=False), self.core(*self.kinds[0]))
            driver.send(job.start(1, job.total))
            driver.end()
            self._solo[job] = tokens_of(driver.items, 1), events_of(driver.items, "end")[0]["logits_sha256"]
        return self._solo[job]

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
    )
    isa, threads = chance.choice(bench.kinds)
    driver = Driver(limits, bench.core(isa, threads))
    jobs = {req_id: chance.choice(bench.jobs) for req_id in range(1, chance.randint(2, 7) + 1)}
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


def tiny_bench(tiny_model, kind: str, cache_types: tuple[str, str] = ("f16", "f16"), **options: str) -> Bench:
    shape = {"width": 96, "heads": 6, "kv_heads": 2, "head_size": 32, "ffn": 608, "vocab": 300}
    path = tiny_model(type=kind, **shape, **options)
    return Bench(path, 768, (1, 3, 16, 17, 64, 65, 130, 513, 600), (1, 4, 17, 40), True, cache_types)


@pytest.fixture(scope="module", params=["Q4_1", "Q8_0", "F32"])
def tiny(request: pytest.FixtureRequest, tiny_model) -> Bench:
    return tiny_bench(tiny_model, request.param)


@pytest.mark.parametrize("seed", range(60))
def test_any_schedule_gives_the_bits_of_a_run_alone(tiny: Bench, seed: int) -> None:
    run_schedule(tiny, seed)


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3", "qwen3moe", "gemma3", "qwen35", "qwen35moe", "qwen3next"])
def test_a_few_schedules_for_the_other_families(tiny_model, architecture: str) -> None:
    bench = tiny_bench(tiny_model, "Q4_0", architecture=architecture)
    for seed in range(200, 212):
        run_schedule(bench, seed)


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q5_1", "Q5_0", "Q4_0", "IQ4_NL", "MXFP4"])
def test_a_few_schedules_for_the_other_formats(tiny_model, kind: str) -> None:
    bench = tiny_bench(tiny_model, kind)
    for seed in range(100, 106):
        run_schedule(bench, seed)


@pytest.mark.parametrize(
    "cache_types",
    [("f32", "bf16"), ("bf16", "f32"), ("q8_0", "q8_0"), ("q4_0", "q4_0"), ("q8_0", "q4_0")],
    ids="-".join,
)
def test_a_few_schedules_for_the_other_types_of_the_cache(tiny_model, cache_types: tuple[str, str]) -> None:
    bench = tiny_bench(tiny_model, "Q4_1", cache_types)
    for seed in range(300, 305):
        run_schedule(bench, seed)


def test_a_few_schedules_for_blocks_of_256(tiny_model) -> None:
    path = tiny_model(type="Q4_K", width=256, heads=4, kv_heads=2, head_size=64, ffn=512, vocab=300)
    bench = Bench(path, 768, (1, 16, 65, 130, 513), (1, 17), plain=True)
    for seed in range(300, 306):
        run_schedule(bench, seed)


@pytest.mark.parametrize("kind", ["Q6_K", "Q5_K", "Q3_K", "Q2_K", "IQ4_XS", "IQ2_XXS", "NVFP4"])
def test_a_few_schedules_for_formats_that_are_only_read(kind: str, tmp_path: Path) -> None:
    """Nothing here writes them from numbers: random blocks."""
    path = tmp_path / "tiny.gguf"
    subprocess.run([sys.executable, str(SHAPED), "tiny", str(path), f"--type={kind}"], check=True)
    bench = Bench(path, 768, (1, 16, 65, 130, 513), (1, 17), plain=True)
    for seed in range(400, 404):
        run_schedule(bench, seed)


@pytest.fixture(scope="module")
def smol(demo_model: Path) -> Bench:
    return Bench(demo_model, 1536, (1, 5, 15, 33, 64, 200, 520, 900, 1300), (1, 6, 20), plain=False)


@pytest.mark.parametrize("seed", range(1000, 1004))
def test_any_schedule_on_the_demo_model(smol: Bench, seed: int) -> None:
    run_schedule(smol, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1004, 1048))
def test_more_schedules_on_the_demo_model(smol: Bench, seed: int) -> None:
    run_schedule(smol, seed)


@pytest.mark.slow
def test_plain_cpp_on_the_demo_model(smol: Bench) -> None:
    """One run on the plain path, which takes tens of milliseconds a token."""
    core = smol.core("plain", 2)
    for job in [job for job in smol.jobs if job.prompt.count(",") < 200]:
        driver = Driver(smol.limits(2), core)
        driver.send(job.start(1, 3))
        driver.send("SCHED_AUTO on")
        driver.end()
        assert events_of(driver.items, "end")[0]["logits_sha256"] == smol.alone(job)[1]
