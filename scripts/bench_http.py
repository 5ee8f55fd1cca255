"""What HTTP costs: `paceline serve` beside the daemon asked directly, and beside llama.cpp's server.

    python scripts/bench_http.py --json benchmarks/http.json            # the demo model; two minutes
    python scripts/bench_http.py --only proxy|peer [--rounds 3 --model M.gguf --threads 2 --llama-server FILE]

Needs the http extra, and for the peer the bench extra and a run of scripts/build_llama_server; without that the peer is
left out, with a note. With --only the other part of the JSON file stays as it is.

proxy: 16 streams of chat completions on the null engine, which computes next to nothing. At full speed: tokens per
second. At a given pace (an engine whose steps take so many milliseconds): the gaps between two tokens of a stream, over
HTTP and from the daemon's pipe. Server, daemon and this process, which makes the load, share the processors.

peer: the same model, 8 clients at once, each with a question about a passage of the contract, which is its prompt;
answers of 256 tokens, greedy, ends of sequence ignored; one token per event. The clients are the same for both.
"""

import argparse
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench_arrivals import spread
from bench_record import write_record
from bench_servers import LlamaServer, find_llama_server
from http_load import Answer, closed_loop, healthy
from paceline.clients.process import daemon_command
from paceline.native.machine import describe_machine, usable_cores
from paceline.native.weights import find_model
from paceline.protocol import TERMINALS, Frame, FrameReader, Message

STREAMS, TOKENS = 16, 2000
PACES = (1.0, 5.0)  # milliseconds that a step takes, besides its own work
CLIENTS, ANSWER = 8, 256
PASSAGE = (400, 1600)  # characters
SLOTS, CONTEXT = 16, 2048
PATIENCE = 120.0  # seconds until a server is ready
SPEC = Path(__file__).parent.parent / "protocol" / "SPEC.md"

Chats = Sequence[Sequence[dict[str, Any]]]


class Server:
    """A `paceline serve` with its daemon."""

    def __init__(self, *flags: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        command = [sys.executable, "-m", "paceline.clients.cli", "serve", f"--port={self.port}", *flags]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE
        while not healthy(self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise SystemExit(f"paceline serve is not ready; exit code {self.process.poll()}")
            time.sleep(0.05)

    def seconds(self) -> float:
        """Processor time of the proxy so far, without its daemon's."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)


@contextmanager
def closing(server: Any) -> Iterator[Any]:
    try:
        yield server
    finally:
        server.close()


def null_flags(pace: float | None) -> list[str]:
    return ["--engine=null", f"--slots={STREAMS}", *([] if pace is None else [f"--fault=slow:{pace}"])]


def streamed(pace: float | None, tokens: int) -> dict[str, Any]:
    """Sixteen streams at once over HTTP."""
    body = {"messages": [{"role": "user", "content": "Count."}], "max_tokens": tokens, "temperature": 0}
    body |= {"stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True, "model": "null"}
    with closing(Server(*null_flags(pace))) as server:
        closed_loop(server.port, [[body | {"max_tokens": 32}]] * STREAMS)
        before = server.seconds()
        begun = time.perf_counter()
        answers = closed_loop(server.port, [[body]] * STREAMS)
        wall = time.perf_counter() - begun
        used = server.seconds() - before
    counted = sum(answer.tokens for answer in answers)
    if counted != STREAMS * tokens:
        raise SystemExit(f"{counted} tokens came over HTTP, expected {STREAMS * tokens}")
    found = {"tokens_per_second": round(counted / wall, 1), "proxy_us_per_token": round(used / counted * 1e6, 1)}
    return found | {"gap_ms": gaps(answer.times for answer in answers)}


def asked_directly(pace: float | None, tokens: int) -> dict[str, Any]:
    """The same sixteen through the daemon's pipe."""
    command = daemon_command([*null_flags(pace), "--auto", "--stream=tagged"])
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin and process.stdout
    times: dict[int, list[float]] = {number: [] for number in range(1, STREAMS + 1)}
    lines = [f"REQ {number} START ids:67,111,117 {tokens} ignore_eos=1\n" for number in times]
    live, begun, wall, reader = len(times), 0.0, 0.0, FrameReader()
    while live:
        data = os.read(process.stdout.fileno(), 1 << 16)
        now = time.perf_counter()
        for item in reader.feed(data):
            match item:
                case Message(body={"event": "ready"}):
                    begun = time.perf_counter()
                    process.stdin.write("".join(lines).encode())
                    process.stdin.flush()
                case Frame(number, value) if value >= 0:
                    times[number].append(now)
                case Frame(_, value) if value in TERMINALS:
                    live, wall = live - 1, now - begun
    process.stdin.close()
    process.wait(PATIENCE)
    return {"tokens_per_second": round(STREAMS * tokens / wall, 1), "gap_ms": gaps(times.values())}


def gaps(streams: Any) -> dict[str, float]:
    return spread([after - before for times in streams for before, after in pairwise(times)])


def median_of(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Each number's median."""
    if isinstance(runs[0], dict):
        return {key: median_of([run[key] for run in runs]) for key in runs[0]}
    return statistics.median(runs)


def proxy(rounds: int, tokens: int) -> dict[str, Any]:
    """Full speed, then each pace, HTTP and pipe in turn."""
    found: dict[str, Any] = {"streams": STREAMS, "tokens": tokens, "rounds": rounds}
    for name, pace in (("full_speed", None), *((f"steps_of_{pace:g}_ms", pace) for pace in PACES)):
        fewer = tokens if pace is None else max(100, int(tokens / (1 + pace)))
        runs = [(streamed(pace, fewer), asked_directly(pace, fewer)) for _ in range(rounds)]
        over, direct = median_of([run for run, _ in runs]), median_of([run for _, run in runs])
        added = round(over["gap_ms"]["median"] - direct["gap_ms"]["median"], 3)
        found[name] = {"http": over, "pipe": direct, "added_to_median_gap_ms": added}
        print(name, json.dumps(found[name]), flush=True)
    return found


def conversations(seed: int) -> Chats:
    """Those of each client, with a passage of its own."""
    chance, text = random.Random(seed), SPEC.read_text()

    def body() -> dict[str, Any]:
        size = chance.randrange(*PASSAGE)
        start = chance.randrange(len(text) - size)
        messages = [
            {"role": "system", "content": "You answer questions about a text, in full sentences."},
            {"role": "user", "content": f"{text[start : start + size]}\n\nWhat does this passage say, and to whom?"},
        ]
        more = {"stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True, "model": "demo"}
        return {"messages": messages, "max_tokens": ANSWER, "temperature": 0, **more}

    return [[body()] for _ in range(CLIENTS)]


def load(port: int, chats: Chats) -> dict[str, Any]:
    begun = time.perf_counter()
    answers = closed_loop(port, chats)
    wall = time.perf_counter() - begun
    if any(answer.tokens != ANSWER for answer in answers):
        raise SystemExit(f"answers of {sorted(answer.tokens for answer in answers)} tokens, expected {ANSWER} each")
    return {
        "tokens_per_second": round(sum(answer.tokens for answer in answers) / wall, 1),
        "first_token_ms": spread([first(answer) for answer in answers]),
        "gap_ms": gaps(answer.times for answer in answers),
    }


def first(answer: Answer) -> float:
    return answer.times[0] - answer.begun


def peer(model: Path, threads: int, binary: Path | None, rounds: int) -> dict[str, Any]:
    """Rounds in turn, each with conversations that neither server has seen."""
    flags = [f"--slots={SLOTS}", f"--max-ctx={CONTEXT}", f"--threads={threads}", "--draft=0", str(model)]
    servers: dict[str, Callable[[], Any]] = {"paceline": lambda: Server(*flags)}
    if binary:
        servers["llama.cpp"] = lambda: LlamaServer(binary, model, threads)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in servers}
    for number in range(rounds):
        for name, start in servers.items():
            with closing(start()) as server:
                closed_loop(server.port, [[body | {"max_tokens": 8}] for (body,) in conversations(0)])
                runs[name].append(load(server.port, conversations(number + 1)))
            print(name, json.dumps(runs[name][-1]), flush=True)
    facts = {"model": model.name, "threads": threads, "slots": SLOTS, "context": CONTEXT, "clients": CLIENTS}
    facts |= {"answer_tokens": ANSWER, "passage_characters": list(PASSAGE), "rounds": rounds}
    found = facts | {"results": {name: median_of(each) for name, each in runs.items()}}
    if binary:
        ours, theirs = found["results"]["paceline"], found["results"]["llama.cpp"]
        found["tokens_per_second_ratio"] = round(ours["tokens_per_second"] / theirs["tokens_per_second"], 2)
        medians = [one["first_token_ms"]["median"] for one in (theirs, ours)]
        found["first_token_median_ratio"] = round(medians[0] / medians[1], 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["proxy", "peer"])
    parser.add_argument("--model", help="a GGUF file; default: the demo model")
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--llama-server", type=Path, help="default: what scripts/build_llama_server has built")
    parser.add_argument("--no-peer", action="store_true", help="Paceline alone")
    parser.add_argument("--quick", action="store_true", help="one round, little of everything: to see that it works")
    parser.add_argument("--json", type=Path, help="write the results here")
    chosen = parser.parse_args()
    rounds = 1 if chosen.quick else chosen.rounds
    record: dict[str, Any] = {}
    if chosen.json and chosen.json.exists() and chosen.only:
        record = json.loads(chosen.json.read_text())
    binary = None if chosen.no_peer else find_llama_server(chosen.llama_server)
    if not binary and chosen.only != "proxy":
        print("no llama-server: the peer is left out (scripts/build_llama_server builds it)")
    names = ["uvicorn", "httptools", *(["llama-cpp-python"] if binary else [])]
    machine = describe_machine() | {name: version(name) for name in names}
    record |= {"benchmark": "bench_http", "date": time.strftime("%Y-%m-%d"), "machine": machine}
    if chosen.only != "peer":
        record["proxy"] = proxy(rounds, 200 if chosen.quick else TOKENS)
    if chosen.only != "proxy":
        record["peer"] = peer(find_model(chosen.model), chosen.threads, binary, rounds)
    if chosen.json:
        write_record(record, chosen.json)


if __name__ == "__main__":
    main()
