"""Writes the results in benchmarks/serving.json into the table of README.md, between its two markers.

python scripts/bench_serving_table.py [--check]      # --check: exit 1 if the table there is not that of the results
"""

import json
import sys
from typing import Any

from paceline.native.machine import processor_words
from page_table import ROOT, only_check, write

RESULTS = ROOT / "benchmarks" / "serving.json"
NAMES = {"continuous": "Paceline", "static": "static batches", "llama.cpp": "llama.cpp's server"}


def row(name: str, policy: str, result: dict[str, Any], ratio: dict[str, float] | None) -> str:
    first, gap = result["first_token_ms"], result["gap_ms"]
    later = f", {ratio['first_token_mean']:.1f}×" if ratio else ""
    slower = f", {1 / ratio['tokens_per_second']:.2f}×" if ratio else ""
    gaps = " / ".join(f"{gap[key]:,.0f}" for key in ("median", "p95", "max"))
    return (
        f"| {name} | {NAMES[policy]} | {first['mean']:,.0f} ({first['median']:,.0f}){later} | {gaps} | "
        f"{result['tokens_per_second']:,.0f}{slower} |"
    )


def title(found: dict[str, Any]) -> str:
    rate = found.get("requests_per_second")
    rounds = f" ({found['rounds']} rounds)" if found["rounds"] > 1 else ""
    return found["pattern"] + (f", {rate:.1f} a second" if rate else "") + rounds


def newcomer(results: dict[str, Any]) -> str:
    words = []
    for policy, result in results.items():
        before, until = result["gap_before_ms"], result["gap_until_first_token_ms"]
        stall = f"{before['median']:,.0f}, then {until['median']:,.0f}, at most {until['max']:,.0f} ms"
        words.append(f"{NAMES[policy]} {result['first_token_ms']['median']:,.0f} ms ({stall})")
    return (
        "- A prompt of 600 tokens arrives while 15 requests decode (static: a batch of 15). Its time to first token, "
        "and in brackets the inter-token latency of the others (median before it arrives; median and maximum from then "
        f"to its first token): {'; '.join(words)}."
    )


def prefix(found: dict[str, Any]) -> str:
    text = (
        f"- Time to first token of a prompt of {found['prompt_tokens']:,} tokens: {found['first_ms']['median']:,.0f} "
        f"ms; of another with the same first {found['common_tokens']:,}: {found['second_ms']['median']:,.0f} ms "
        f"({found['first_over_second']:.1f}×)"
    )
    if "llama.cpp_first_ms" in found:
        first, second = (found[f"llama.cpp_{which}_ms"]["median"] for which in ("first", "second"))
        text += f"; llama.cpp's server {first:,.0f} and {second:,.0f} ms"
    bits = "have the same bits as" if found["same_logits_sha256"] else "DIFFER from those"
    return f"{text}. The second prompt's logits {bits} without reuse."


def table(record: dict[str, Any]) -> str:
    machine = record["machine"]
    peer = machine.get("llama-cpp-python")
    versions = f"llama.cpp's server as in llama-cpp-python {peer}" if peer else "llama.cpp's server was not measured"
    rows = [
        f"{record['model']}, {record['slots']} slots, {record['threads']} threads of an "
        f"{processor_words(machine)}, {versions}, {record['date']}. Prompts of 16 to 256 "
        "tokens, outputs of 16 to 256. Paceline is driven through its pipe, llama.cpp's server over HTTP, with as many "
        "slots and threads, without its prompt cache in RAM and else at its defaults. Static batches run on Paceline's "
        "engine: when a batch has ended, the next is formed of the requests that wait, up to "
        f"{record['static_batch']}, which is half of the slots (so 8 at once are one batch, and both policies run it "
        "alike). Poisson arrivals come at 70 % of the requests per second that Paceline can serve, or, where the row "
        "says so, llama.cpp; a server that cannot keep up has a queue, and a time to first token, that grow as long as "
        "requests arrive. Time to first token: from the arrival, mean (median). Inter-token latency: median / 95th "
        "percentile / maximum. ×: the ratio to Paceline's figure.\n",
        "| requests | | time to first token, ms | inter-token latency, ms | tokens per second |",
        "|---|---|---|---|---|",
    ]
    for found in record["patterns"]:
        for place, (policy, result) in enumerate(found["results"].items()):
            rows.append(row("" if place else title(found), policy, result, found["ratios"].get(policy)))
    rows += ["", newcomer(record["newcomer"]), prefix(record["prefix"])]
    rows.append("\n![Who waited for how long](benchmarks/serving.svg)")
    return "\n".join(rows) + "\n"


def main() -> int:
    check = only_check(__doc__)
    if not RESULTS.exists():
        sys.exit(f"no {RESULTS}: run scripts/bench_serving.py --json {RESULTS.relative_to(ROOT)} first")
    return write("serving", table(json.loads(RESULTS.read_text())), check)


if __name__ == "__main__":
    sys.exit(main())
