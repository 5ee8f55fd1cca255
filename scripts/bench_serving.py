"""Continuous against static batching on one engine and file, and llama.cpp's server: first tokens, gaps, throughput.

    python scripts/bench_serving.py --json benchmarks/serving.json      # the demo model; some minutes
    python scripts/bench_serving.py --quick [--model M.gguf --threads 2 --rounds 3 --batch 8 --llama-server FILE]

The peer needs the bench extra and a run of scripts/build_llama_server; without that it is left out, with a note. Real
processes with 16 slots and greedy decoding. Prompts of random ids, 16 to 256 tokens; totals evenly spread from 16 to
256; seeded, and the same for everyone. For what static means see bench_arrivals.py; its batches have up to --batch
members.

Patterns: 8 and 16 requests at once; Poisson arrivals at 70 % of the requests a second that Paceline serves when 32 come
at once, in rounds of 8 and of 48, and 24 at 70 % of what the peer serves; 15 that decode and a newcomer with 600
tokens; a second prompt that shares its first 1,000 tokens with the one before. Only in the last is a prompt reused.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench_arrivals import Served, Traffic, columns, play, served, spread, summary, wait_for_tokens
from bench_record import write_record
from bench_servers import SLOTS, Daemon, LlamaServer, Request, Server, find_llama_server
from paceline.native.machine import describe_machine, usable_cores
from paceline.native.weights import find_model

LOAD = 0.7  # of the capacity
INCUMBENT = (32, 160)  # prompt and total of the requests that a newcomer meets
NEWCOMER = (600, 64)
SETTLED = 16  # tokens of each incumbent before the newcomer comes
COMMON, REST, AFTER = 1000, 24, 8  # tokens that two prompts share, the rest of each, and those generated

Policies = dict[str, tuple[Server, int | None]]  # the server and the size of its static batches


def capacity(server: Server, traffic: Traffic, count: int) -> float:
    """Requests a second when `count` come at once."""
    return count / max(one.times[-1] for one in play(server, traffic.mixed(count)))


def pattern(
    name: str, policies: Policies, traffic: Traffic, draw: Callable[[], list[Request]], rounds: int, **facts: Any
) -> dict[str, Any]:
    """Each round's requests to each policy in turn, and in reverse order in the next: after the peer caches are cold,
    for each."""
    found: dict[str, list[list[Served]]] = {policy: [] for policy in policies}
    order = list(policies)
    for _ in range(rounds):
        requests = draw()
        for policy in order:
            server, batch = policies[policy]
            found[policy].append(play(server, traffic.again(requests), batch))
        order.reverse()
    results = {policy: summary(each) | {"first_round": columns(each[0])} for policy, each in found.items()}
    record = {"pattern": name, "requests": len(found["continuous"][0]), "rounds": rounds, **facts, "results": results}
    return record | {"ratios": ratios(results)}


def ratios(results: dict[str, Any]) -> dict[str, Any]:
    """The others' times to a first token over ours, and our tokens per second over theirs: more is better for us."""
    own = results["continuous"]
    return {
        policy: {
            "first_token_mean": round(other["first_token_ms"]["mean"] / own["first_token_ms"]["mean"], 2),
            "first_token_median": round(other["first_token_ms"]["median"] / own["first_token_ms"]["median"], 2),
            "tokens_per_second": round(own["tokens_per_second"] / other["tokens_per_second"], 2),
        }
        for policy, other in results.items()
        if policy != "continuous"
    }


def newcomer(policies: Policies, traffic: Traffic, rounds: int) -> dict[str, Any]:
    """One request joins 15 that decode: the time to its first token, and the others' gaps before it came and until
    then."""
    found: dict[str, list[tuple[float, list[float], list[float]]]] = {policy: [] for policy in policies}
    for _ in range(rounds):
        crowd = [traffic.request(traffic.ids(INCUMBENT[0]), INCUMBENT[1]) for _ in range(SLOTS - 1)]
        late = traffic.request(traffic.ids(NEWCOMER[0]), NEWCOMER[1])
        for policy, (server, batch) in policies.items():
            found[policy].append(join(server, traffic.again(crowd), traffic.again([late])[0], batch is not None))
    return {
        policy: {
            "first_token_ms": spread([first for first, _, _ in each]),
            "gap_before_ms": spread([gap for _, before, _ in each for gap in before]),
            "gap_until_first_token_ms": spread([gap for _, _, until in each for gap in until]),
        }
        for policy, each in found.items()
    }


def join(
    server: Server, crowd: list[Request], late: Request, must_wait: bool
) -> tuple[float, list[float], list[float]]:
    """The newcomer's time to a first token; the crowd's gaps before it came, and those from then to its first token."""
    begun = time.perf_counter()
    server.start(crowd)
    wait_for_tokens(server, crowd, SETTLED)
    late = replace(late, arrival=time.perf_counter() - begun)
    left = len(crowd) + 1
    if not must_wait:
        server.start([late])
    while left:
        item = server.ended.get()
        if isinstance(item, Exception):
            raise SystemExit(f"{server.name}: {item}")
        left -= 1
        if must_wait and left == 1:
            server.start([late])
    came = served(server, late, begun)
    before, until = list[float](), list[float]()
    for one in crowd:
        times = served(server, one, begun).times
        for earlier, later in pairwise(times):
            if later <= late.arrival:
                before.append(later - earlier)
            elif earlier < came.times[0]:
                until.append(later - earlier)
    return came.first, before, until


def prefix(daemon: Daemon, cold: Daemon, peer: Server | None, traffic: Traffic, rounds: int) -> dict[str, Any]:
    """Two prompts with a common prefix, one after the other; the second one also where nothing is reused."""
    times: dict[str, list[float]] = {}
    cached, equal = set(), True

    def first_token(name: str, server: Server, request: Request, **options: Any) -> None:
        times.setdefault(name, []).append(play(server, [request], **options)[0].first)

    for _ in range(rounds):
        common = traffic.ids(COMMON)
        pair = [traffic.request(common + traffic.ids(REST), AFTER) for _ in range(2)]
        first_token("first", daemon, pair[0], hash=1)
        first_token("second", daemon, pair[1], hash=1)
        first_token("second_without_reuse", cold, pair[1], hash=1)
        end = daemon.ends[pair[1].req_id]
        cached.add(end["cached_tokens"])
        equal &= end["logits_sha256"] == cold.ends[pair[1].req_id]["logits_sha256"]
        if peer:
            first_token("llama.cpp_first", peer, pair[0], cache_prompt=True)
            first_token("llama.cpp_second", peer, pair[1], cache_prompt=True)
    spreads = {f"{name}_ms": spread(seconds) for name, seconds in times.items()}
    ratio = spreads["first_ms"]["median"] / spreads["second_ms"]["median"]
    return {
        "common_tokens": COMMON,
        "prompt_tokens": COMMON + REST,
        "cached_tokens": sorted(cached),
        "same_logits_sha256": equal,
        **spreads,
        "first_over_second": round(ratio, 2),
    }


def bench(model: Path, threads: int, binary: Path | None, rounds: int, batch: int, quick: bool) -> dict[str, Any]:
    with ExitStack() as servers:
        daemon = Daemon(model, threads, "--no-reuse", "--draft=0")  # the peer has none either
        servers.callback(daemon.close)
        reusing = Daemon(model, threads, "--draft=0")
        servers.callback(reusing.close)
        peer = LlamaServer(binary, model, threads) if binary else None
        if peer:
            servers.callback(peer.close)
        facts = {"model": model.name, "threads": threads}
        return facts | measure(daemon, reusing, peer, rounds, batch, quick)


def measure(
    daemon: Daemon, reusing: Daemon, peer: LlamaServer | None, rounds: int, batch: int, quick: bool
) -> dict[str, Any]:
    traffic = Traffic(daemon.facts["vocab"], 1)
    policies: Policies = {"continuous": (daemon, None), "static": (daemon, batch)}
    if peer:
        policies["llama.cpp"] = (peer, None)
    for server in (daemon, reusing, *([peer] if peer else [])):
        play(server, traffic.again(traffic.mixed(4)))  # warms up
    record: dict[str, Any] = {
        "benchmark": "bench_serving",
        "date": time.strftime("%Y-%m-%d"),
        "slots": SLOTS,
        "static_batch": batch,
        "machine": describe_machine() | ({"llama-cpp-python": version("llama-cpp-python")} if peer else {}),
    }
    rate = LOAD * capacity(daemon, traffic, 16 if quick else 32)
    long = 12 if quick else 48
    patterns = []

    def one(name: str, draw: Callable[[], list[Request]], rounds: int = rounds, **facts: Any) -> None:
        patterns.append(pattern(name, policies, traffic, draw, rounds, **facts))
        show(patterns[-1])

    one("8 at once", lambda: traffic.mixed(8))
    one("16 at once", lambda: traffic.mixed(16))
    one("8, Poisson", lambda: traffic.poisson(8, rate), 2 * rounds, requests_per_second=round(rate, 2))
    one(f"{long}, Poisson", lambda: traffic.poisson(long, rate), 1, requests_per_second=round(rate, 2))
    if peer:
        slow = LOAD * capacity(peer, traffic, 8 if quick else 16)
        slow_name = f"{long // 2}, Poisson at llama.cpp's rate"
        one(slow_name, lambda: traffic.poisson(long // 2, slow), 1, requests_per_second=round(slow, 2))
    record |= {"patterns": patterns, "newcomer": newcomer(policies, traffic, rounds)}
    print("\na newcomer with 600 tokens into 15", json.dumps(record["newcomer"], indent=1), sep="\n")
    record["prefix"] = prefix(reusing, daemon, peer, traffic, 2 * rounds)
    print("\na prompt whose first 1,000 tokens are known", json.dumps(record["prefix"], indent=1), sep="\n")
    return record


def show(found: dict[str, Any]) -> None:
    print(f"\n{found['pattern']}: first token ms mean/median, gap ms median/p95/max, tokens per second")
    for policy, result in found["results"].items():
        first, gap = result["first_token_ms"], result["gap_ms"]
        times = f"{first['mean']:9.1f}{first['median']:9.1f}{gap['median']:9.1f}{gap['p95']:9.1f}{gap['max']:9.1f}"
        print(f"  {policy:12}{times}{result['tokens_per_second']:9.1f}  {found['ratios'].get(policy, '')}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a GGUF file; default: the demo model")
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=8, help="most members of a static batch")
    parser.add_argument("--llama-server", type=Path, help="default: what scripts/build_llama_server has built")
    parser.add_argument("--no-peer", action="store_true", help="Paceline alone")
    parser.add_argument("--quick", action="store_true", help="one round, few requests: to see that it works")
    parser.add_argument("--json", type=Path, help="write the results here")
    chosen = parser.parse_args()
    binary = None if chosen.no_peer else find_llama_server(chosen.llama_server)
    if not binary:
        print("no llama-server: the peer is left out (scripts/build_llama_server builds it)")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # the servers end too
    rounds = 1 if chosen.quick else chosen.rounds
    record = bench(find_model(chosen.model), chosen.threads, binary, rounds, chosen.batch, chosen.quick)
    if chosen.json:
        write_record(record, chosen.json)


if __name__ == "__main__":
    main()
