"""Paceline's core against llama.cpp: the same file, the same threads, in turn, in one run: tokens per second, ratios.

    python scripts/bench_llama_cpp.py                       # the demo model
    python scripts/bench_llama_cpp.py --model M.gguf --threads 2 --rounds 7 --contexts 32 512 --json FILE
    python scripts/bench_llama_cpp.py --isa avx2            # with fewer instructions than this machine has

Needs the bench extra (llama-cpp-python, built for this machine; beside --isa for those instructions: CMAKE_ARGS=
'-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON', for avxvnni with -DGGML_AVX_VNNI=ON).
Each engine lives in a process of its own and is idle while another is timed; the peer has two, with flash attention as
it chooses and without, and each time we are compared with the faster one. The prompt is computed once for each context
and copied to 16 sequences; the cache is f16; 32 given tokens are decoded after the context and cut off again. We pick a
token from the logits in our time, the peer only computes them. Rates come from the rounds' median seconds, after one
round of warm-up, and a ratio is the median of the rounds' ratios; the record holds the seconds of each.

The roofs are measured in the same run, before it and after each context: the bytes per second that all threads
together read from memory, and the products of 8-bit codes per second that they sum in registers. A step of one
sequence is compared with the first (its bytes: all matrices that it uses, the keys and values that it reads, and
twice what is recurrent, which it reads and writes), a step of 16 and the prefill with the second: only products with
weights, not those of attention; float weights count too, though no processor multiplies them as fast as 8-bit codes.
With AMX the second is that of instructions with 64 inputs, of which a block has 32; and 16 sequences have AVX-512's.
"""

import argparse
import multiprocessing
import statistics
import time
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench_engines import ENGINES, GENERATED, MOST, OURS, PEERS, Facts, serve
from bench_record import write_record
from paceline.native import _cpu
from paceline.native.machine import describe_machine, usable_cores
from paceline.native.weights import find_model

PROMPT = 512
WIDER = {"avx2": ("AVX512", "AVX_VNNI"), "avxvnni": ("AVX512",), "avx512": ("AMX_INT8",)}  # what a peer may not have
FEW = 4096  # from this context on, fewer sequence counts are measured


def sequence_counts(context: int) -> tuple[int, ...]:
    return (1, 4, 16) if context >= FEW else (1, 2, 4, 8, 16)


def roofs(threads: int, isa: str) -> dict[str, float]:
    return {
        "read_gb_per_second": round(_cpu.read_roof(threads, isa=isa) / 1e9, 1),
        "multiply_gmac_per_second": round(_cpu.multiply_roof(threads, isa=isa) / 1e9, 1),
    }


def shares(result: dict[str, Any], facts: Facts, roof: dict[str, float]) -> dict[str, float]:
    """Our shares of the roofs, at our tokens per second."""
    context, rate = result["context"], result["paceline"] / 1e9
    if result["kind"] == "decode" and result["sequences"] == 1:
        seen = context + GENERATED // 2
        layers = zip(facts.windows, facts.cache_bytes, strict=True)
        read = (
            facts.weight_bytes
            + 2 * facts.state_bytes
            + sum(min(seen, window or seen) * size for window, size in layers)
        )
        return {"read_share": round(read * rate / roof["read_gb_per_second"], 3)}
    if result["kind"] == "decode" and result["sequences"] < MOST:
        return {}
    logits = 1 / context if result["kind"] == "prefill" else 1  # per token; a prompt needs only its last one's
    products = facts.layer_products + facts.head_products * logits
    return {"multiply_share": round(products * rate / roof["multiply_gmac_per_second"], 3)}


def share_of(result: dict[str, Any]) -> list[float]:
    return [result[name] for name in ("read_share", "multiply_share") if name in result]


class Contest:
    """The engines, asked in turn."""

    def __init__(self, model: Path, threads: int, capacity: int, isa: str):
        spawn = multiprocessing.get_context("spawn")
        self.pipes: dict[str, Connection] = {}
        facts = {}
        for name in ENGINES:
            self.pipes[name], theirs = spawn.Pipe()
            arguments = (name, str(model), threads, capacity, isa, theirs)
            spawn.Process(target=serve, args=arguments, daemon=True).start()
            theirs.close()
            facts[name] = self.pipes[name].recv()
        self.facts = Facts(**facts[OURS])
        self.system_info = facts[PEERS["auto"]]["system_info"]

    def ask(self, name: str, method: str, *arguments: int) -> float:
        """The seconds that it took."""
        self.pipes[name].send((method, arguments))
        return self.pipes[name].recv()

    def time(self, name: str, kind: str, sequences: int, context: int) -> float:
        time.sleep(0.05)  # the others' threads go to sleep
        if kind == "prefill":
            return self.ask(name, "fill", context)
        seconds = self.ask(name, "decode", sequences, context)
        self.ask(name, "truncate", sequences, context)
        return seconds

    def close(self) -> None:
        for pipe in self.pipes.values():
            pipe.send(None)


def measure(contest: Contest, kind: str, sequences: int, context: int, rounds: int) -> dict[str, Any]:
    times: dict[str, list[float]] = {name: [] for name in ENGINES}
    for turn in range(rounds + 1):
        for name in ENGINES:
            seconds = contest.time(name, kind, sequences, context)
            if turn:  # the first warms up
                times[name].append(seconds)
    tokens = context if kind == "prefill" else sequences * GENERATED
    rates = {name: round(tokens / statistics.median(seconds), 1) for name, seconds in times.items()}
    flash = max(PEERS, key=lambda which: rates[PEERS[which]])
    ratio = statistics.median(peer / own for own, peer in zip(times[OURS], times[PEERS[flash]], strict=True))
    return {
        "kind": kind,
        "sequences": sequences,
        "context": context,
        OURS: rates[OURS],
        "llama.cpp": rates[PEERS[flash]],
        "flash_attention": flash,
        "ratio": round(ratio, 2),
        "seconds": {name: [round(taken, 5) for taken in seconds] for name, seconds in times.items()},
    }


def bench(model: Path, threads: int, rounds: int, contexts: list[int], isa: str = "auto") -> dict[str, Any]:
    """The record of one file; prints each result as it comes."""
    roof = roofs(threads, isa)
    print(f"{model.name}, {threads} threads, tokens per second")
    print(f"{'':8}{'seqs':>4}{'ctx':>6}{OURS:>12}{'llama.cpp':>12}{'ratio':>8}  its flash attention")
    contest = Contest(model, threads, max(*contexts, PROMPT) + GENERATED, isa)
    if isa in WIDER and (found := [word for word in WIDER[isa] if f"{word} = 1" in contest.system_info]):
        raise SystemExit(f"--isa {isa}: llama.cpp was built with {' and '.join(found)}")
    results = []

    def one(kind: str, sequences: int, context: int) -> None:
        result = measure(contest, kind, sequences, context, rounds)
        results.append(result)
        rates = f"{result[OURS]:12.1f}{result['llama.cpp']:12.1f}{result['ratio']:8.2f}"
        print(f"{kind:8}{sequences:4}{context:6}{rates}  {result['flash_attention']}", flush=True)

    one("prefill", 1, PROMPT)
    for context in contexts:
        for name in ENGINES:
            contest.ask(name, "fill", context)
            contest.ask(name, "copy", context)
        for sequences in sequence_counts(context):
            one("decode", sequences, context)
        again = roofs(threads, isa)  # other load may lower one of them, and bandwidth may change
        roof = {name: max(value, again[name]) for name, value in roof.items()}
    contest.close()
    results = [result | shares(result, contest.facts, roof) for result in results]
    print(
        roof, *(f"{r['kind']} {r['sequences']} {r['context']}: {s:.0%}" for r in results for s in share_of(r)), sep="\n"
    )
    return {
        "benchmark": "bench_llama_cpp",
        "date": time.strftime("%Y-%m-%d"),
        "model": model.name,
        "threads": threads,
        "isa": isa,
        "rounds": rounds,
        "machine": describe_machine() | {"llama-cpp-python": version("llama-cpp-python")},
        "llama.cpp": contest.system_info,
        "roofs": roof,
        "unit": "tokens per second",
        "results": results,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a GGUF file; default: the demo model")
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--contexts", type=int, nargs="+", default=[32, 512, 4096])
    parser.add_argument("--isa", default="auto", help="our instructions, as for the daemon")
    parser.add_argument("--json", type=Path, help="write the results here")
    arguments = parser.parse_args()
    record = bench(find_model(arguments.model), arguments.threads, arguments.rounds, arguments.contexts, arguments.isa)
    if arguments.json:
        write_record(record, arguments.json)


if __name__ == "__main__":
    main()
