"""A fixed transcript: tokens per second, step times, what the daemon adds to them, and one signature.

    python scripts/bench.py [--model MODEL] [--threads N] [--isa ISA] [--json FILE]         # default: the demo model

Sixteen requests of different lengths, greedy and seeded, through a real daemon. The signature is a SHA-256 over every
request's frames and logits, in the order of the request ids: it changes only when the engine's output does, and a
commit that changes it must say so ("Bench: <signature>").
"""

import argparse
import hashlib
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from paceline.clients import Client
from paceline.clients.model_text import open_tokenizer
from paceline.native.machine import describe_machine
from paceline.native.weights import find_model
from paceline.protocol import FrameReader, Message

REQUESTS = 16
TOTAL = 96
WINDOWS = 9
TEXT = (
    "A paceline is a line of riders who take fair turns at the front while everyone else moves in the draft. "
    "The rider at the head does the work of parting the air; the others save a third of their strength and wait. "
) * 6


def run(client: Client, ids: list[int]) -> str:
    """Runs the transcript; returns the signature."""
    streams = []
    for n in range(REQUESTS):
        options: dict[str, Any] = {"temp": 0.8, "top_p": 0.95, "seed": n} if n % 3 == 2 else {}
        prompt = ids[n : n + 8 + (37 * n) % 240]
        streams.append(client.start(prompt, TOTAL, 8 + n, req_id=n + 1, hash=1, ignore_eos=1, **options))
    digest = hashlib.sha256()
    for stream in streams:
        frames = list(stream.frames())
        digest.update(b"".join(struct.pack("<2i", frame.req_id, frame.value) for frame in frames))
        digest.update((stream.end or {})["logits_sha256"].encode())
    return digest.hexdigest()[:16]


def overhead(flags: list[str], ids: list[int]) -> dict[str, float]:
    """Milliseconds per step at 16 rows: the whole step by the daemon's clock, what Engine.step takes of it, the rest.

    Medians over the windows between two STATS, half a second each. The frames go to a file: a reader that runs while we
    measure would take its share of the cores.
    """
    lines = [f"REQ {n + 1} START ids:{','.join(map(str, ids[n : n + 16]))} 2000 ignore_eos=1" for n in range(REQUESTS)]
    with tempfile.TemporaryFile() as frames:
        command = [sys.executable, "-m", "paceline.daemon.main", *flags]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=frames, stderr=subprocess.DEVNULL) as daemon:
            assert daemon.stdin
            while not os.fstat(frames.fileno()).st_size:  # it is loading
                time.sleep(0.1)
            for text in ("\n".join(lines), *["STATS"] * (WINDOWS + 1)):
                daemon.stdin.write(text.encode() + b"\n")
                daemon.stdin.flush()
                time.sleep(0.5 if text == "STATS" else 3.0)  # the prompts go first
            daemon.terminate()
        frames.seek(0)
        items = FrameReader().feed(frames.read())
    stats = [item.body for item in items if isinstance(item, Message) and "rows_per_step" in item.body]
    pairs = list(pairwise(stats))
    if any(after["steps"] == before["steps"] for before, after in pairs):  # a slow core: one window out of all
        pairs = [(stats[0], stats[-1])]
    windows = []
    for before, after in pairs:
        steps = after["steps"] - before["steps"]
        assert after["rows_per_step"]["16"] - before["rows_per_step"]["16"] == steps, "not every step had 16 rows"
        native = (after["steps"] * after["step_ms"]["mean"] - before["steps"] * before["step_ms"]["mean"]) / steps
        windows.append(((after["seconds"] - before["seconds"]) * 1e3 / steps, native))
    wall, native = (statistics.median(column) for column in zip(*windows, strict=True))
    added = statistics.median(whole - inner for whole, inner in windows)
    return {"wall_ms": round(wall, 3), "native_ms": round(native, 3), "daemon_ms": round(added, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a GGUF file or a Hugging Face folder, default: the demo model")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--isa", default="auto")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    model = find_model(arguments.model)
    ids = open_tokenizer(model).encode(TEXT)
    flags = [f"--target-cache-slots={REQUESTS}", "--max-ctx=2048", "--auto", f"--isa={arguments.isa}"]
    flags += [f"--threads={arguments.threads}"] if arguments.threads else []
    with Client.spawn([*flags, str(model)]) as client:
        device = client.ready["device"]
        begun = time.perf_counter()
        signature = run(client, ids)
        seconds = time.perf_counter() - begun
        stats = client.command("STATS")
    added = overhead([*flags, "--draft=0", str(model)], ids)
    record = {
        "benchmark": "bench",
        "date": time.strftime("%Y-%m-%d"),
        "machine": describe_machine(),
        "device": device,
        "tokens_per_second": round(stats["tokens_out"] / seconds, 1),
        "step_ms": stats["step_ms"],
        "at_16_rows": added,
        "signature": signature,
    }
    print(f"{device}\n{record['tokens_per_second']} tokens/s, step {stats['step_ms']} ms")
    print(f"16 rows: {added['wall_ms']} ms a step, {added['native_ms']} native, {added['daemon_ms']} the daemon's")
    print(f"Bench: {signature}")
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
