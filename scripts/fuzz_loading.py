"""How the daemon handles a damaged model, for fuzz.py: it is loaded in a child process, and stepped if it loads."""

import os
import resource
import signal
import tempfile
import traceback
import warnings
from array import array
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from paceline.daemon import replies
from paceline.daemon.config import Config
from paceline.daemon.engine import CannotOpen, Engine, open_engine
from paceline.daemon.plan import Row, RowFailure
from paceline.protocol import Sampling, encode_tagged

SECONDS = 10  # for one model
MEMORY = 512 << 20  # bytes a child may have beyond what it starts with
LONGEST = 1000  # characters of a sentence, without its path
BATCH = 64

Write = Callable[[int, Path], Path]  # mutant `index` into a folder; the path to open


def attempt(path: Path) -> str:
    """ "loaded" or the refusal; anything else raises."""
    try:
        engine, limits = open_engine(Config(model=str(path), slots=1, threads=1))
    except CannotOpen as refusal:
        sentence = str(refusal).replace(str(path), "PATH")
        assert refusal.code == 66, f"exit code {refusal.code}: {sentence}"
        assert sentence.startswith(("cannot read the model", "cannot use the model")), sentence
        assert "\n" not in sentence and len(sentence) < LONGEST, f"no short sentence: {sentence[:LONGEST]!r}"
        return sentence
    encode_tagged([replies.ready(engine.info, limits, "0")])
    step(engine)
    return "loaded"


def step(engine: Engine) -> None:
    """Three tokens greedily, then one sampled."""
    vocab = engine.info.vocab
    table = array("i", range(-(-engine.info.context // 64)))
    first = [0, vocab - 1, vocab // 2][: engine.info.context]
    sampled = Sampling(temp=0.8, top_k=20, top_p=0.9, min_p=0.02, rep_penalty=1.2, freq_penalty=0.1, seed=1)
    rows = [Row(1, 0, 1, first, 0, 1, None, len(first), table, False)]
    if engine.info.context > len(first):
        rows.append(Row(1, 0, 1, [vocab - 1], len(first), 1, sampled, len(first), table, False))
    for row in rows:
        (outcome,), _ = engine.step([row])
        if isinstance(outcome, RowFailure):  # weights that give no numbers
            return
        assert all(0 <= token < vocab for token in outcome.tokens), outcome.tokens
        engine.commit(0, row.position + len(row.tokens))


def run(count: int, jobs: int, write: Write) -> tuple[Counter[str], dict[int, str]]:
    """Mutants 0 to count - 1: how often each outcome occurred, and what went wrong for which."""
    outcomes: Counter[str] = Counter()
    failures: dict[int, str] = {}
    waiting = [(begin, min(begin + BATCH, count)) for begin in range(0, count, BATCH)][::-1]
    running: dict[int, tuple[Path, int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < jobs:
                begin, end = waiting.pop()
                log = Path(folder, f"log-{begin}")
                running[_start(begin, end, log, write, Path(folder))] = (log, end)
            child, status = os.wait()
            log, end = running.pop(child)
            done = begun = -1
            for line in log.read_text(encoding="utf-8").splitlines():
                word, number, outcome = line.split(" ", 2)
                begun = int(number)
                if word == "end":
                    done = begun
                    outcomes[outcome.partition(":")[0]] += 1
                    if outcome.startswith("failed"):
                        failures[done] = outcome.encode().decode("unicode_escape")
            if status:
                failures[begun] = _death(status)
                outcomes["failed"] += 1
                if begun + 1 < end:
                    waiting.append((begun + 1, end))
    return outcomes, failures


def _death(status: int) -> str:
    number = os.waitstatus_to_exitcode(status)
    if number == -signal.SIGALRM:
        return f"failed: it took longer than {SECONDS} s"
    return f"failed: {signal.Signals(-number).name}" if number < 0 else f"failed: exit code {number}"


def _start(begin: int, end: int, log: Path, write: Write, folder: Path) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        _work(begin, end, log, write, folder)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _work(begin: int, end: int, log: Path, write: Write, folder: Path) -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("error")  # a warning would be printed beside the sentence
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    own = folder / str(os.getpid())
    own.mkdir()
    for index in range(begin, end):
        os.write(out, f"begin {index} -\n".encode())
        path = write(index, own)
        signal.alarm(SECONDS)
        try:
            found = attempt(path)
            outcome = "loaded" if found == "loaded" else f"refused: {found}"
        except BaseException:
            outcome = "failed: " + traceback.format_exc().rstrip()
        signal.alarm(0)
        os.write(out, f"end {index} {outcome.encode('unicode_escape').decode()}\n".encode())
