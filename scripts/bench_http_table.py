"""Writes the results in benchmarks/http.json into the table of docs/http.md, between its two markers.

python scripts/bench_http_table.py [--check]      # --check: exit 1 if the table there is not that of the results
"""

import json
import sys
from typing import Any

from paceline.native.machine import processor_words
from page_table import ROOT, only_check, write

RESULTS = ROOT / "benchmarks" / "http.json"
PAGE = ROOT / "docs" / "http.md"
NAMES = {"paceline": "`paceline serve`", "llama.cpp": "llama.cpp's server"}


def proxy_rows(proxy: dict[str, Any]) -> list[str]:
    rows = [
        f"{proxy['streams']} streams of chat completions on the null engine, which computes next to nothing; the load "
        f"generator is a process of its own; medians of {proxy['rounds']} rounds:\n",
        "| engine | tokens per second, SSE | daemon's pipe | median inter-token latency, SSE | daemon's pipe | "
        "proxy's CPU time per token |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in proxy.items():
        if not isinstance(found, dict):
            continue
        http, pipe = found["http"], found["pipe"]
        title = "at full speed" if name == "full_speed" else name.replace("_", " ")
        gaps = ["", ""] if name == "full_speed" else [f"{one['gap_ms']['median']:.2f} ms" for one in (http, pipe)]
        rates = f"{http['tokens_per_second']:,.0f} | {pipe['tokens_per_second']:,.0f}"
        rows.append(f"| {title} | {rates} | {gaps[0]} | {gaps[1]} | {http['proxy_us_per_token']:.0f} µs |")
    return rows


def peer_rows(peer: dict[str, Any], version: str) -> list[str]:
    least, most = peer["passage_characters"]
    rows = [
        f"\n{peer['model']}, {peer['threads']} threads, {peer['clients']} clients at once, each with a question about "
        f"a passage of {least} to {most} characters and an answer of {peer['answer_tokens']} tokens; llama.cpp's "
        f"server as in llama-cpp-python {version}; the servers take turns, medians of {peer['rounds']} rounds:\n",
        "| | tokens per second | time to first token, median | inter-token latency, median / 95th percentile |",
        "|---|---|---|---|",
    ]
    for name, found in peer["results"].items():
        rate, first, gap = found["tokens_per_second"], found["first_token_ms"]["median"], found["gap_ms"]
        ratios = ["", ""]
        if name == "paceline" and "tokens_per_second_ratio" in peer:
            ratios = [f", {peer['tokens_per_second_ratio']:.1f}×", f", {1 / peer['first_token_median_ratio']:.2f}×"]
        gaps = f"{gap['median']:,.0f} / {gap['p95']:,.0f} ms"
        rows.append(f"| {NAMES[name]} | {rate:,.0f}{ratios[0]} | {first:,.0f} ms{ratios[1]} | {gaps} |")
    return rows


def table(record: dict[str, Any]) -> str:
    machine = record["machine"]
    where = f"On {machine['cores']} cores of an {processor_words(machine)}, {record['date']}.\n"
    rows = [where, *proxy_rows(record["proxy"])]
    return "\n".join([*rows, *peer_rows(record["peer"], machine.get("llama-cpp-python", "(not measured)"))]) + "\n"


def main() -> int:
    check = only_check(__doc__)
    if not RESULTS.exists():
        sys.exit(f"no {RESULTS}: run scripts/bench_http.py --json {RESULTS.relative_to(ROOT)} first")
    return write("http", table(json.loads(RESULTS.read_text())), check, PAGE)


if __name__ == "__main__":
    sys.exit(main())
