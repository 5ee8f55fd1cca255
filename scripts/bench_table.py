"""Writes the results in benchmarks/llama_cpp/ into the table of README.md, between its two markers.

python scripts/bench_table.py [--check]      # --check: exit 1 if the table there is not that of the results
"""

import json
import sys
from pathlib import Path
from typing import Any

from bench_limits import LIMITS, LONG
from paceline.native.machine import processor_words
from page_table import ROOT, write

RESULTS = ROOT / "benchmarks" / "llama_cpp"
COUNTS = (1, 4, 16)


def records(folder: Path) -> dict[str, dict[str, Any]]:
    """The results of each file there is, by name, in the order of the limits."""
    names = [path.stem for path in folder.glob("*.json")]
    names.sort(key=lambda name: (list(LIMITS).index(name) if name in LIMITS else len(LIMITS), name))
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in names}


def cell(results: list[dict[str, Any]], kind: str, sequences: int, context: int | None = None) -> str:
    """Tokens per second and the ratio, and where it was measured the share of a roof."""
    for result in results:
        if (result["kind"], result["sequences"]) == (kind, sequences) and context in (None, result["context"]):
            share = result.get("read_share", result.get("multiply_share"))
            of_roof = "" if share is None else f", {share:.0%}"
            return f"{result['paceline']:,.0f} ({result['ratio']:.1f}×{of_roof})"
    return "–"


def roof(found: dict[str, dict[str, Any]], name: str) -> str:
    values = [record["roofs"][name] for record in found.values()]
    return "–".join(f"{value:,.0f}" for value in sorted({min(values), max(values)}))


def table(found: dict[str, dict[str, Any]]) -> str:
    first = next(iter(found.values()))
    machine = first["machine"]
    dates = " and ".join(sorted({record["date"] for record in found.values()}))
    peer = machine["llama-cpp-python"]
    rows = [
        f"Tokens per second with {first['threads']} threads of an {processor_words(machine)}, medians of "
        f"{first['rounds']} rounds in turn (one from a context of {LONG:,} on), {dates}. In brackets: "
        f"times those of llama.cpp (llama-cpp-python {peer}) on the same file; for 1 sequence the share of what "
        f"memory gave in the same run ({roof(found, 'read_gb_per_second')} GB/s; of a small file a part stays in "
        f"the L3 cache, so that it may be more than all), for 16 and the prefill of what the processor multiplies "
        f"({roof(found, 'multiply_gmac_per_second')} GMAC/s).\n",
        f"| file | context | prefill of 512 | {' | '.join(str(count) for count in COUNTS)} sequences |",
        f"|---|---|---|{'---|' * len(COUNTS)}",
    ]
    for record in found.values():
        results = record["results"]
        for place, context in enumerate(sorted({r["context"] for r in results if r["kind"] == "decode"})):
            name, prefill = ("", "") if place else (record["model"], cell(results, "prefill", 1))
            decodes = " | ".join(cell(results, "decode", count, context) for count in COUNTS)
            rows.append(f"| {name} | {context} | {prefill} | {decodes} |")
    rows.append("\n![The ratios beside what was asked for](benchmarks/llama_cpp.svg)")
    return "\n".join(rows) + "\n"


def main() -> int:
    found = records(RESULTS)
    if not found:
        sys.exit(f"no results in {RESULTS}: run scripts/bench_files.py first")
    return write("results", table(found), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
