"""Paceline's core against llama.cpp: the same file, the same threads, in turn, in one run: tokens per second, ratios.

    python scripts/bench_llama_cpp.py                       # the demo model
    python scripts/bench_llama_cpp.py --model M.gguf --threads 2 --rounds 7 --contexts 32 512 --json FILE

Needs the bench extra (llama-cpp-python, built for this machine). Each engine lives in a process of its own and is idle
while the other is timed. Sequences have separate prompts, the cache is f16, each decodes 32 tokens after its context;
we pick a token from the logits in our time, the peer only computes them. Medians of the rounds.
"""

import argparse
import ctypes
import json
import multiprocessing
import statistics
import time
from array import array
from collections.abc import Callable
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from paceline.native.machine import describe_machine
from paceline.native.weights import find_model

GENERATED = 32
SEQUENCES = (1, 2, 4, 8, 16)
PROMPT = 512

Prefill = Callable[[int, int], float]
Decode = Callable[[int, int], float]


def ids_of(sequence: int, count: int, vocab: int) -> list[int]:
    return np.random.default_rng(sequence).integers(10, vocab, count).tolist()


class Row(NamedTuple):
    slot: int
    tokens: list[int]
    position: int
    outputs: int
    table: array
    prompt_tokens: int = 0
    sampling: Any = None
    logits: bool = False


def open_paceline(model: str, threads: int, capacity: int) -> tuple[Prefill, Decode]:
    from paceline.native.core import PAGE, open_core

    core = open_core(Path(model), slots=max(SEQUENCES), context=capacity, threads=threads)
    pages = -(-capacity // PAGE)
    tables = [array("i", range(slot * pages, (slot + 1) * pages)) for slot in range(max(SEQUENCES))]

    def prefill(sequences: int, count: int) -> float:
        begun = time.perf_counter()
        for slot in range(sequences):
            core.commit(slot, 0)
            core.step([Row(slot, ids_of(slot, count, core.vocab), 0, 1, tables[slot])])
            core.commit(slot, count)
        return time.perf_counter() - begun

    def decode(sequences: int, context: int) -> float:
        pending = [ids_of(slot, 1, core.vocab)[0] for slot in range(sequences)]
        begun = time.perf_counter()
        for position in range(context, context + GENERATED):
            rows = [Row(slot, [pending[slot]], position, 1, tables[slot]) for slot in range(sequences)]
            results, _ = core.step(rows)
            pending = [tokens[0] for tokens, _ in results]
            for slot in range(sequences):
                core.commit(slot, position + 1)
        return time.perf_counter() - begun

    return prefill, decode


def open_peer(model: str, threads: int, capacity: int) -> tuple[Prefill, Decode]:
    import llama_cpp as lib

    quiet = lib.llama_log_callback(lambda level, text, data: None)
    lib.llama_log_set(quiet, ctypes.c_void_p(0))
    lib.llama_backend_init()
    loaded = lib.llama_model_load_from_file(model.encode(), lib.llama_model_default_params())
    vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(loaded))
    options = lib.llama_context_default_params()
    options.n_ctx = capacity * max(SEQUENCES)
    options.n_seq_max = max(SEQUENCES)
    options.n_batch = options.n_ubatch = 512
    options.n_threads = options.n_threads_batch = threads
    context_handle = lib.llama_init_from_model(loaded, options)
    memory = lib.llama_get_memory(context_handle)

    def run(tokens: list[tuple[int, int, int, bool]]) -> None:
        """(id, position, sequence, wants logits)"""
        batch = lib.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for index, (token, position, sequence, wanted) in enumerate(tokens):
            batch.token[index] = token
            batch.pos[index] = position
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = sequence
            batch.logits[index] = wanted
        if lib.llama_decode(context_handle, batch):
            raise RuntimeError("llama_decode failed")
        lib.llama_synchronize(context_handle)
        lib.llama_batch_free(batch)

    def prefill(sequences: int, count: int) -> float:
        begun = time.perf_counter()
        for sequence in range(sequences):
            lib.llama_memory_seq_rm(memory, sequence, -1, -1)
            ids = ids_of(sequence, count, vocab)
            for first in range(0, count, 512):
                piece = ids[first : first + 512]
                last = count - 1 - first
                run([(token, first + i, sequence, i == last) for i, token in enumerate(piece)])
        return time.perf_counter() - begun

    def decode(sequences: int, context: int) -> float:
        begun = time.perf_counter()
        for position in range(context, context + GENERATED):
            run([(1000 + sequence, position, sequence, True) for sequence in range(sequences)])
        return time.perf_counter() - begun

    return prefill, decode


OPENERS = {"paceline": open_paceline, "llama.cpp": open_peer}


def worker(name: str, model: str, threads: int, capacity: int, pipe: Connection) -> None:
    prefill, decode = OPENERS[name](model, threads, capacity)
    pipe.send("ready")
    while isinstance(task := pipe.recv(), tuple):
        kind, sequences, context = task
        if kind == "decode":
            prefill(sequences, context)
            pipe.send(decode(sequences, context))
        else:
            pipe.send(prefill(sequences, context))


def measure(arguments: argparse.Namespace, model: Path) -> list[dict[str, Any]]:
    capacity = max(*arguments.contexts, PROMPT) + GENERATED
    spawn = multiprocessing.get_context("spawn")
    pipes = {}
    for name in OPENERS:
        pipes[name], theirs = spawn.Pipe()
        spawn.Process(target=worker, args=(name, str(model), arguments.threads, capacity, theirs), daemon=True).start()
        assert pipes[name].recv() == "ready"
    tasks = [("prefill", 1, PROMPT), *(("decode", n, context) for context in arguments.contexts for n in SEQUENCES)]
    results = []
    for kind, sequences, context in tasks:
        times: dict[str, list[float]] = {name: [] for name in OPENERS}
        for turn in range(arguments.rounds + 1):
            for name, pipe in pipes.items():
                time.sleep(0.05)  # the other's threads go to sleep
                pipe.send((kind, sequences, context))
                seconds = pipe.recv()
                if turn:  # the first is a warm-up
                    times[name].append(seconds)
        tokens = context if kind == "prefill" else sequences * GENERATED
        rates = {name: round(tokens / statistics.median(seconds), 1) for name, seconds in times.items()}
        ratio = statistics.median(peer / own for own, peer in zip(times["paceline"], times["llama.cpp"], strict=True))
        results.append({"kind": kind, "sequences": sequences, "context": context, **rates, "ratio": round(ratio, 2)})
        print(
            f"{kind:8}{sequences:4}{context:6}{rates['paceline']:12.1f}{rates['llama.cpp']:12.1f}{ratio:8.2f}",
            flush=True,
        )
    for pipe in pipes.values():
        pipe.send(None)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a GGUF file; default: the demo model")
    parser.add_argument("--threads", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--contexts", type=int, nargs="+", default=[32, 512])
    parser.add_argument("--json", type=Path, help="write the results here")
    arguments = parser.parse_args()
    model = find_model(arguments.model)
    print(f"{model.name}, {arguments.threads} threads, tokens per second")
    print(f"{'':8}{'seqs':>4}{'ctx':>6}{'paceline':>12}{'llama.cpp':>12}{'ratio':>8}")
    results = measure(arguments, model)
    if arguments.json:
        record = {
            "benchmark": "bench_llama_cpp",
            "date": time.strftime("%Y-%m-%d"),
            "model": model.name,
            "threads": arguments.threads,
            "rounds": arguments.rounds,
            "machine": describe_machine() | {"llama-cpp-python": version("llama-cpp-python")},
            "unit": "tokens per second",
            "results": results,
        }
        arguments.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
