"""What trying tokens ahead gains: tokens per second of answers with and without drafts, beside llama.cpp's own.

    python scripts/bench_drafts.py [--model MODEL.gguf] [--rounds N] [--json FILE]
    python scripts/bench_drafts.py --costs [--isa ISA]      # what a step of so many tokens takes; no peer

Nine questions are answered greedily, each alone and then four at a time, until the model ends or after 256 tokens:
three in free prose, three with a structure of their own, three about a text that is in the prompt. The servers take
turns in each round: Paceline with `--draft 0` and as it comes; llama.cpp's server (scripts/build_llama_server) as it
comes and with `--spec-type ngram-simple`, which also looks a draft up in the text, or, if a layer of the model drafts,
with `draft-mtp`, which asks that layer as we do. Its Q4_0 is faster than its Q4_1.
Tokens per second are those of decoding, from the first token of an answer to its last; of four at once all of their
tokens over the whole time. Small models repeat themselves more than large ones do, so the gain is that of this model
and these questions, no more.

With --costs, each step has rows of one token for up to 16 slots and then drafted ones behind them, at 128 used
positions; the median of 15 rounds in which the sizes take turns. daemon/drafts.py computes with a formula for that.
"""

import argparse
import signal
import statistics
import sys
import time
from array import array
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from bench_record import write_record
from bench_servers import Daemon, LlamaServer, Request, Server, find_llama_server
from paceline.clients.model_text import open_chat_template, open_tokenizer
from paceline.daemon.plan import Row
from paceline.native.core import PAGE, open_core
from paceline.native.drafting import JOIN
from paceline.native.machine import describe_machine, usable_cores
from paceline.native.weights import find_model, open_model

ROOT = Path(__file__).parent.parent
TOTAL = 256
TOGETHER = 4
CODE, PROSE = (ROOT / "daemon" / "spread.py").read_text()[:2600], (ROOT / "docs" / "http.md").read_text()[:3000]
QUESTIONS = {
    "story": "Write a short story about a fox and a lighthouse.",
    "explanation": "Explain how a bicycle stays upright.",
    "rivers": "Name ten rivers and say where they are.",
    "animals": "List 20 animals, one on a line, each with a short description.",
    "JSON": "Write a JSON array of five people with the fields name, age, city and email.",
    "class": "Write a Python class for a bank account with deposit, withdraw and transfer.",
    "renaming": f"Rename the class Spread to Distribution and print all of the code again:\n```python\n{CODE}\n```",
    "summary": f"Summarize this text:\n{PROSE}",
    "quotes": f"Here is a text:\n{PROSE}\nWhich fields does it mention? Quote the sentences.",
}
DRAFTED = ("drafted", "drafted_right")
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 20, 24, 25, 32, 40, 48)
Answer = tuple[int, float]
"""Tokens, and seconds from the first to the last."""


def wait(server: Server, count: int) -> None:
    for _ in range(count):
        ended = server.ended.get(timeout=600)
        if isinstance(ended, Exception):
            raise ended


def answers(server: Server, prompts: list[list[int]], together: int, first_id: int) -> Any:
    """Of each question alone its Answer; of `together` at a time all tokens and the whole time."""
    found, tokens, begun = [], 0, time.perf_counter()
    for begin in range(0, len(prompts), together):
        part = prompts[begin : begin + together]
        requests = [Request(first_id + begin + n, prompt, TOTAL) for n, prompt in enumerate(part)]
        server.start(requests, ignore_eos=False)
        wait(server, len(requests))
        for one in requests:
            times = server.times[one.req_id]
            found.append((len(times), times[-1] - times[0]))
            tokens += len(times)
    return found if together == 1 else (tokens, time.perf_counter() - begun)


def bench(model: Path, threads: int, rounds: int, binary: Path | None) -> dict[str, Any]:
    tokenizer, template = open_tokenizer(model), open_chat_template(model)
    prompts = [
        tokenizer.encode_rendered(template.render([{"role": "user", "content": question}]))
        for question in QUESTIONS.values()
    ]
    alone: dict[str, list[list[Answer]]] = {}
    at_once: dict[str, list[Answer]] = {}
    seen: dict[str, Any] = {}
    tried: dict[str, list[int]] = {}
    for turn in range(rounds):
        for name, opened in servers(model, threads, binary):
            server = opened()
            try:
                answers(server, prompts[:1], 1, 1)  # pages are touched, kernels warm
                alone.setdefault(name, []).append(answers(server, prompts, 1, 100))
                at_once.setdefault(name, []).append(answers(server, prompts, TOGETHER, 200))
                if isinstance(server, Daemon):
                    seen[name] = [tokens for tokens, _ in alone[name][-1]]
                    tried[name] = [sum(end.get(word, 0) for end in server.ends.values()) for word in DRAFTED]
            finally:
                server.close()
        print(f"round {turn + 1} of {rounds}", file=sys.stderr)
    if len({tuple(counts) for counts in seen.values()}) > 1:
        raise SystemExit(f"answers with and without drafts differ in length: {seen}")
    rates = {name: [[rate(one) for one in found] for found in each] for name, each in alone.items()}
    record = {
        "benchmark": "drafts",
        "date": time.strftime("%Y-%m-%d"),
        "machine": describe_machine() | ({"llama-cpp-python": version("llama-cpp-python")} if binary else {}),
        "model": model.name,
        "threads": threads,
        "rounds": rounds,
        "alone": {
            question: {name: round(statistics.median(found[n] for found in each), 1) for name, each in rates.items()}
            for n, question in enumerate(QUESTIONS)
        },
        "drafted": dict(zip(DRAFTED, tried["paceline"], strict=True)),
        "tokens": dict(zip(QUESTIONS, next(iter(seen.values())), strict=True)),
        "four_at_once": {
            name: round(statistics.median(tokens / seconds for tokens, seconds in each), 1)
            for name, each in at_once.items()
        },
    }
    show(record)
    return record


def rate(answer: Answer) -> float:
    tokens, seconds = answer
    return (tokens - 1) / seconds if seconds else 0.0


def servers(model: Path, threads: int, binary: Path | None) -> list[tuple[str, Callable[[], Server]]]:
    found: list[tuple[str, Callable[[], Server]]] = [
        ("paceline --draft 0", lambda: Daemon(model, threads, "--no-reuse", "--draft=0")),
        ("paceline", lambda: Daemon(model, threads, "--no-reuse")),
    ]
    if binary:
        found.append(("llama.cpp", lambda: LlamaServer(binary, model, threads)))
        kind = "draft-mtp" if drafts_itself(model) else "ngram-simple"
        found.append((f"llama.cpp {kind}", lambda: LlamaServer(binary, model, threads, "--spec-type", kind)))
    return found


def drafts_itself(model: Path) -> bool:
    """Whether a layer of it drafts."""
    return any(tensor.name.endswith(JOIN) for tensor in open_model(model, drafting=True)[1])


def show(record: dict[str, Any]) -> None:
    names = list(record["four_at_once"])
    print(f"{'tokens per second':24}" + "".join(f"{name:>24}" for name in names))
    for question, rates in record["alone"].items():
        print(f"{question:24}" + "".join(f"{rates[name]:24,.0f}" for name in names))
    print(f"{'four at once':24}" + "".join(f"{record['four_at_once'][name]:24,.0f}" for name in names))


def costs(model: Path, isa: str) -> dict[str, Any]:
    used, slots, context = 128, 16, 256
    core = open_core(model, slots=slots, context=context, replay=4, isa=isa)
    chance = np.random.RandomState(1)
    pages = context // PAGE
    tables = [array("i", range(slot * pages, (slot + 1) * pages)) for slot in range(slots)]
    ids = chance.randint(0, core.vocab, used).tolist()
    for slot in range(slots):
        core.step([Row(0, slot, 0, ids, 0, 0, None, used, tables[slot], False)])
        core.commit(slot, used)

    def step(size: int) -> float:
        rows = []
        for slot in range(min(size, slots)):
            count = size // slots + (slot < size % slots) if size > slots else 1
            tokens = chance.randint(0, core.vocab, count).tolist()
            rows.append(Row(0, slot, 0, tokens, used, count, None, used, tables[slot], False))
        begun = time.perf_counter()
        core.step(rows)
        return time.perf_counter() - begun

    times: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(15):
        for size in SIZES:
            times[size].append(step(size))
    usual = {size: statistics.median(taken) for size, taken in times.items()}
    relative = {str(size): round(taken / usual[1], 2) for size, taken in usual.items()}
    print(core.device, relative, f"formula: a column {core.column_cost}")
    return {"device": core.device, "column_cost": core.column_cost, "steps_of_one": relative}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a GGUF file with a chat template; default: the demo model")
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--llama-server", type=Path, help="default: what scripts/build_llama_server has built")
    parser.add_argument("--no-peer", action="store_true", help="Paceline alone")
    parser.add_argument("--costs", action="store_true", help="what a step of so many tokens takes")
    parser.add_argument("--isa", default="auto", help="with --costs")
    parser.add_argument("--json", type=Path, help="write the results here")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # the servers end too
    model = find_model(chosen.model)
    if chosen.costs:
        costs(model, chosen.isa)
        return
    binary = None if chosen.no_peer else find_llama_server(chosen.llama_server)
    if not binary:
        print("no llama-server: the peer is left out (scripts/build_llama_server builds it)")
    record = bench(model, chosen.threads, chosen.rounds, binary)
    record["costs"] = costs(model, chosen.isa)
    if chosen.json:
        write_record(record, chosen.json)


if __name__ == "__main__":
    main()
