"""What scripts/gpu_check.py runs (no command of its own): several processes at once, each with a limit of its own.

A job is a process group, and all of it is killed at its limit: a kernel that hangs, or a daemon that a killed script
leaves behind, would hold the GPU for whatever comes next. A test run that broke off is continued in a new process with
the tests that were not begun: an error in a kernel spoils everything that its process does afterwards.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_RUNS = 6  # of one job
LOOK_SECONDS = 5.0


@dataclass
class Result:
    name: str
    state: str  # ok, failed, skipped
    seconds: float
    about: str
    failures: list[str] = field(default_factory=list)  # tests, with the reason
    log: str = ""  # its end, if it failed


class Job:
    def __init__(
        self, name: str, words: list[str], log: Path, limit: float, tests: bool = False, summary: str = ""
    ) -> None:
        """`limit`: seconds from its start. `summary`: the text before the number of faults that a checker found."""
        self.name, self.words, self.log, self.limit, self.summary = name, words, log, limit, summary
        self.told = log.with_suffix(".tests") if tests else None  # what scripts/gpu_plugin.py writes
        self.begun = self.ended = 0.0
        self.runs = 0
        self.code: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, env: dict[str, str], processors: Sequence[int]) -> None:
        """Starts it, or restarts it: then what its files hold already is kept."""
        if self.runs == 0:
            self.begun = time.monotonic()
            for path in (self.log, self.told):
                if path:
                    path.unlink(missing_ok=True)
        self.runs += 1
        env = env | ({"PACELINE_TOLD": str(self.told)} if self.told else {})

        def stay() -> None:
            with suppress(OSError):  # a machine that knows no such thing
                os.sched_setaffinity(0, processors)

        with self.log.open("ab") as out:
            try:
                # A process group but no session of its own: whoever kills our whole session must reach it.
                self._process = subprocess.Popen(
                    self.words,
                    cwd=ROOT,
                    env=env | {"OMP_NUM_THREADS": str(len(processors))},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    process_group=0,
                    preexec_fn=stay,
                )
            except OSError as error:
                out.write(f"{error}\n".encode())
                self.code = 127

    def over(self, until: float) -> bool:
        """Whether this run is over; one that is past its limit, or past `until`, is ended."""
        if self._process is not None:
            self.code = self._process.poll()
        late = self.code is None and time.monotonic() > min(self.begun + self.limit, until)
        if late:
            self.kill()
        self.ended = time.monotonic()
        return late or self.code is not None

    def kill(self) -> None:
        if self._process is None:
            return
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass  # it is gone, or stuck in the driver for ever

    def told_of(self, *states: str) -> list[tuple[str, str, str]]:
        """A state, a test and perhaps a reason: the lines that begin with one of `states`."""
        if self.told is None or not self.told.exists():
            return []
        lines = [line.partition("\t") for line in self.told.read_text().splitlines()]
        told = [(*about.split(" ", 1), why) for about, _, why in lines]
        return [(state, test, why) for state, test, why in told if state in states]

    def tests(self) -> dict[str, tuple[str, str]]:
        """For each test that was begun its state (passed, failed, skipped, or just begun) and why."""
        return {test: (state, why) for state, test, why in self.told_of("begun", "passed", "failed", "skipped")}

    def unfinished(self) -> bool:
        """Whether tests are left that a new process could run."""
        if not self.told_of("all") or self.code is None or self.runs >= MOST_RUNS:
            return False
        begun = [state for state, _ in self.tests().values()].count("begun")
        return len(self.told_of("lost")) + begun >= self.runs  # each run broke off with one of these

    def lines(self) -> list[str]:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return [line for line in text.splitlines() if line.strip()]

    def result(self) -> Result:
        if self.runs == 0:
            return Result(self.name, "failed", 0.0, "not begun: no time was left")
        seconds, lines, tests = self.ended - self.begun, self.lines(), self.tests()
        bad = {test: found for test, found in tests.items() if found[0] in ("failed", "begun")}
        failures = [f"{test} ({state}{why and ': '}{why})" for test, (state, why) in bad.items()]
        code = f"stopped after {seconds:.0f} s" if self.code is None else f"exit status {self.code}"
        found = [line.partition(self.summary)[2] for line in lines if self.summary and self.summary in line]
        clean = not self.summary or (bool(found) and all(one.split()[:1] == ["0"] for one in found))
        good = self.code == 0 and not failures and self.runs == 1 and clean
        if tests:
            states = [state for state, _ in tests.values()]
            about = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
            about = f"{self.told_of('all')[0][1]} tests: {about}"
            about += f"; {self.runs} processes" if self.runs > 1 else "" if self.code in (0, 1) else f"; {code}"
        else:
            said = lines[-1][:120] if lines else self.log.name
            about = said if good else f"{code}: {said}"
        if self.summary:
            about += f"; {self.summary.strip()} {found[-1].strip() if found else 'is missing'}"
        log = "" if good else "\n".join(line[:200] for line in lines[-60:])
        return Result(self.name, "ok" if good else "failed", seconds, about, failures, log)


def run_jobs(
    jobs: list[Job],
    at_once: int,
    env: dict[str, str],
    ended: Callable[[Job], None],
    meanwhile: Callable[[], None] = lambda: None,
    until: float = inf,
) -> None:
    """Runs all of them, in their order, at most `at_once` at a time; `ended` is called for each, and `meanwhile` every
    few seconds. At `until`, by the monotonic clock, those that run are ended, and no more are begun."""
    processors = sorted(os.sched_getaffinity(0))
    at_once = max(1, min(at_once, len(processors), len(jobs)))
    share = len(processors) // at_once
    free = [processors[i * share : (i + 1) * share] for i in range(at_once)]
    waiting, running = list(jobs), list[tuple[Job, list[int]]]()
    looked = time.monotonic()
    try:
        while waiting or running:
            while waiting and time.monotonic() > until:
                ended(waiting.pop(0))
            while waiting and free:
                own = free.pop()
                running.append((waiting.pop(0), own))
                running[-1][0].start(env, own)
            time.sleep(0.05)
            if time.monotonic() > looked + LOOK_SECONDS:
                meanwhile()
                looked = time.monotonic()
            for job, own in list(running):
                if not job.over(until):
                    continue
                if job.unfinished() and time.monotonic() < until:
                    job.start(env, own)
                    continue
                running.remove((job, own))
                free.append(own)
                ended(job)
    finally:
        for job, _ in running:
            job.kill()
