"""Writes the results in benchmarks/drafts.json into the table of README.md, between its two markers.

python scripts/bench_drafts_table.py [--check]      # --check: exit 1 if the table there is not that of the results
"""

import json
import sys
from typing import Any

from paceline.native.machine import processor_words
from page_table import ROOT, write

RESULTS = ROOT / "benchmarks" / "drafts.json"
KINDS = {
    "story": "a story",
    "explanation": "an explanation",
    "rivers": "ten names and places",
    "animals": "a list",
    "JSON": "JSON",
    "class": "a Python class",
    "renaming": "code of the prompt, one name changed",
    "summary": "a summary of the prompt",
    "quotes": "quotes from the prompt",
}
OURS, PLAIN, PEER, LOOKUP = "paceline", "paceline --draft 0", "llama.cpp", "llama.cpp ngram-simple"


def row(what: str, rates: dict[str, float]) -> str:
    peers = [f"{rates[name]:,.0f}" if name in rates else "" for name in (PEER, LOOKUP)]
    gained = f"{rates[OURS]:,.0f} ({rates[OURS] / rates[PLAIN]:.1f}×)"
    return f"| {what} | {' | '.join([f'{rates[PLAIN]:,.0f}', gained, *peers])} |"


def table(record: dict[str, Any]) -> str:
    machine = record["machine"]
    rows = [
        f"Tokens per second of {record['model']}, greedy, answers of up to 256 tokens, {record['threads']} threads of "
        f"an {processor_words(machine)}, {record['date']}, medians of {record['rounds']} rounds. In brackets: the "
        "ratio to Paceline without drafts. llama.cpp's server is that of llama-cpp-python "
        f"{machine.get('llama-cpp-python')}, as it comes and with `--spec-type ngram-simple`. Small models repeat "
        "themselves more than large ones do.\n",
        "| the answer is | Paceline, `--draft 0` | Paceline | llama.cpp | with lookup |",
        "|---|---|---|---|---|",
        *(row(KINDS[question], rates) for question, rates in record["alone"].items()),
        row("all of them, four at once", record["four_at_once"]),
    ]
    return "\n".join(rows) + "\n"


def main() -> int:
    return write("drafts", table(json.loads(RESULTS.read_text())), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
