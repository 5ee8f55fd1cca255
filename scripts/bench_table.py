"""Writes the results in benchmarks/ into the table of README.md, between its two markers.

python scripts/bench_table.py [--check]      # --check: exit 1 if the table there is not that of the results
"""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- results: scripts/bench_table.py -->\n", "<!-- end of results -->"


def table(record: dict[str, Any]) -> str:
    machine = record["machine"]
    rows = [
        f"{record['model']}, {record['threads']} threads of an {machine['processor']} (family {machine['family']}, "
        f"{', '.join(machine['flags'])}), llama-cpp-python {machine['llama-cpp-python']}, {record['date']}; "
        f"{record['unit']}, "
        f"medians of {record['rounds']} rounds in turn:\n",
        "| | Paceline | llama.cpp | ratio |",
        "|---|---|---|---|",
    ]
    for result in record["results"]:
        if result["kind"] == "prefill":
            name = f"prefill of {result['context']}"
        else:
            plural = "s" if result["sequences"] > 1 else ""
            name = f"decode, {result['sequences']} sequence{plural}, context {result['context']}"
        rows.append(f"| {name} | {result['paceline']:,.0f} | {result['llama.cpp']:,.0f} | {result['ratio']:.1f}× |")
    return "\n".join(rows) + "\n"


def main() -> int:
    readme = ROOT / "README.md"
    text = readme.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    record = json.loads((ROOT / "benchmarks" / "llama_cpp.json").read_text())
    updated = f"{before}{BEGIN}{table(record)}{END}{after}"
    if "--check" in sys.argv[1:]:
        return int(updated != text)
    readme.write_text(updated)
    return 0


if __name__ == "__main__":
    sys.exit(main())
