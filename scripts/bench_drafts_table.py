"""Writes the results in benchmarks/drafts.json and drafts_layer.json into the two tables of README.md, each between its
markers.

    python scripts/bench_drafts_table.py [--check]      # --check: exit 1 if a table there is not that of the results
"""

import json
import statistics
import sys
from typing import Any

from paceline.native.machine import processor_words
from page_table import ROOT, only_check, write

RESULTS, LAYER = ROOT / "benchmarks" / "drafts.json", ROOT / "benchmarks" / "drafts_layer.json"
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
OURS, PLAIN, PEER = "paceline", "paceline --draft 0", "llama.cpp"
LOOKUP, MTP = f"{PEER} ngram-simple", f"{PEER} draft-mtp"


def row(what: str, rates: dict[str, float], drafting: str = LOOKUP) -> str:
    peers = [f"{rates[name]:,.0f}" if name in rates else "" for name in (PEER, drafting)]
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


def layer_table(record: dict[str, Any]) -> str:
    """Of a made model all questions are alike."""
    machine, drafted = record["machine"], record["drafted"]
    alone = list(record["alone"].values())
    medians = {name: statistics.median(rates[name] for rates in alone) for name in alone[0]}
    rows = [
        "The same where a layer of the model drafts, and with `--spec-type draft-mtp`: a made model of Qwen 3.5's "
        "shape and 0.5 billion parameters (`scripts/make_drafting_model.py`), which says nothing about the drafts of "
        f"real ones; of Paceline's {100 * drafted['drafted_right'] / drafted['drafted']:.0f} % were right. "
        f"{record['threads']} threads of an {processor_words(machine)}, {record['date']}, llama.cpp as above.\n",
        "| | Paceline, `--draft 0` | Paceline | llama.cpp | with its layer |",
        "|---|---|---|---|---|",
        row("one answer at a time", medians, MTP),
        row("four at once, prompts included", record["four_at_once"], MTP),
    ]
    return "\n".join(rows) + "\n"


def main() -> int:
    check = only_check(__doc__)
    tables = {"drafts": table(json.loads(RESULTS.read_text())), "layer": layer_table(json.loads(LAYER.read_text()))}
    return max(write(name, made, check) for name, made in tables.items())


if __name__ == "__main__":
    sys.exit(main())
