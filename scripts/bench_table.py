"""Writes the results in benchmarks/llama_cpp/ into that folder's README.md, a table for each machine and one of the
results for which both engines had fewer instructions than the machine (bench_files.py --isa), and what they come to
into the README.md of the project.

    python scripts/bench_table.py [--check]      # --check: exit 1 if a table there is not that of the results
"""

import json
import statistics
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

from bench_limits import LIMITS
from paceline.native.machine import processor_words
from page_table import ROOT, only_check, write

RESULTS = ROOT / "benchmarks" / "llama_cpp"
PAGE = RESULTS / "README.md"
COUNTS = (1, 4, 16)


Found = dict[str, dict[str, Any]]  # records by file


def machines(limited: bool = False) -> list[Path]:
    """The folders of results; limited: of those with fewer instructions than the machine has."""
    return sorted(path for path in RESULTS.glob("*") if path.is_dir() and (isa(records(path)) != "auto") == limited)


def isa(found: Found) -> str:
    return next((record.get("isa", "auto") for record in found.values()), "auto")


def records(folder: Path) -> Found:
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


def days(found: Found) -> str:
    """When it was measured: one day, two, or the first and the last."""
    dates = sorted({record["date"] for record in found.values()})
    return f"{dates[0]} to {dates[-1]}" if len(dates) > 2 else " and ".join(dates)


def roof(found: Found, name: str) -> str:
    values = [record["roofs"][name] for record in found.values()]
    return "–".join(f"{value:,.0f}" for value in sorted({min(values), max(values)}))


def spread(found: Found) -> str:
    """How far apart a cell's rounds were, where the record has them."""
    apart = []
    for record in found.values():
        for result in record["results"]:
            own = result.get("seconds", {}).get("paceline", [])
            if len(own) > 1:
                apart.append(max(own) / min(own) - 1)
    if not apart:
        return ""
    apart.sort()
    middle, most = apart[len(apart) // 2], apart[-1]
    return f"; the slowest round of a cell took {middle:.0%} longer than its fastest (median; at most {most:.0%})"


def both_ways(record: dict[str, Any]) -> bool:
    """Whether the peer ran with and without its flash attention; else as it comes."""
    return "llama.cpp" in record


def title(found: Found) -> str:
    """What was measured where, and how often."""
    first = next(iter(found.values()))
    machine = first["machine"]
    dates = days(found)
    flash = "the faster of automatic and off" if both_ways(first) else "automatic"
    fewer = first.get("rounds_from_4096")
    long = f" ({fewer} at a context of 4,096)" if fewer else ""
    return (
        f"**{processor_words(machine)}**, {first['threads']} threads, {dates}. llama-cpp-python "
        f"{machine['llama-cpp-python']}, flash attention: {flash}. {first['rounds']} rounds{long}{spread(found)}. "
        f"Measured peaks: {roof(found, 'read_gb_per_second')} GB/s, {roof(found, 'multiply_gmac_per_second')} GMAC/s.\n"
    )


def table(found: Found, plot: str) -> str:
    rows = [
        title(found),
        f"| file | context | prefill of 512 | {' | '.join(str(count) for count in COUNTS)} sequences |",
        f"|---|---|---|{'---|' * len(COUNTS)}",
    ]
    for record in found.values():
        results = record["results"]
        for place, context in enumerate(sorted({r["context"] for r in results if r["kind"] == "decode"})):
            name, prefill = ("", "") if place else (record["model"], cell(results, "prefill", 1))
            decodes = " | ".join(cell(results, "decode", count, context) for count in COUNTS)
            rows.append(f"| {name} | {context} | {prefill} | {decodes} |")
    rows.append(f"\n![Ratios to llama.cpp, and the required minimum]({plot})\n")
    return "\n".join(rows)


INSTRUCTIONS = {  # the narrowest first
    "plain": "plain C++",
    "neon": "NEON",
    "dotprod": "NEON with dot products",
    "avx2": "AVX2",
    "avxvnni": "AVX2 and AVX-VNNI",
    "avx512": "AVX-512",
    "amx": "AMX",
}
FLAGS = {
    "neon": "asimd",
    "dotprod": "asimddp",
    "avx2": "avx2",
    "avxvnni": "avx_vnni",
    "avx512": "avx512_vnni",
    "amx": "amx_int8",
}
CONTEXT = 512  # of the tables below


def limited_table(all_found: list[Found]) -> str:
    """Of one machine: a row for each file and instruction set."""
    everything = {f"{isa(found)} {name}": record for found in all_found for name, record in found.items()}
    first = next(iter(everything.values()))
    dates = days(everything)
    rows = [
        f"**Fewer instructions.** {processor_words(first['machine'])}, {first['threads']} threads, {dates}, at a "
        f"context of {CONTEXT}, with what most desktop processors have: llama.cpp was built for these instructions "
        f"alone. {first['rounds']} rounds{spread(everything)}. Measured peaks, by file: "
        f"{roof(everything, 'read_gb_per_second')} GB/s, {roof(everything, 'multiply_gmac_per_second')} GMAC/s.\n",
        f"| file | instructions | prefill of 512 | {' | '.join(str(count) for count in COUNTS)} sequences |",
        f"|---|---|---|{'---|' * len(COUNTS)}",
    ]
    for name in dict.fromkeys(name for found in all_found for name in found):
        records = [(isa(found), found[name]) for found in all_found if name in found]
        for place, (kind, record) in enumerate(records):
            results = record["results"]
            decodes = " | ".join(cell(results, "decode", count, CONTEXT) for count in COUNTS)
            file = "" if place else record["model"]
            rows.append(f"| {file} | {INSTRUCTIONS.get(kind, kind)} | {cell(results, 'prefill', 1)} | {decodes} |")
    return "\n".join([*rows, ""])


HEAD = (
    "Tokens per second, greedy, on files of up to 0.4 billion weights, and on shapes of larger models with random "
    "weights (qwen35: Qwen3.5 0.8B, lfm2: LFM2 1.2B; of others some layers: moe: 4 of Qwen3-30B-A3B, gpt-oss: 4 of "
    "gpt-oss-20b, glm-flash: 4 of GLM 4.7 Flash, gemma4: 10 of Gemma 4 E2B), these with a vocabulary of 49,152; "
    "the engines take turns, and medians of the rounds are shown. "
    "In brackets: the ratio to llama.cpp on the same file; for 1 sequence also the share of the memory "
    "bandwidth measured in the same run (above 100 % where part of a small file stays in the last-level cache, or "
    "where a virtual machine's bandwidth changed meanwhile); for 16 "
    "sequences and the prefill the share of the measured peak rate of 8-bit multiply-accumulates (those with weights "
    "are counted, those of attention are not; F16, and where the peak is AMX's 16 sequences too, are multiplied by "
    "slower instructions). llama.cpp's attention is slower on some processors than on others, so there is a table for "
    "each machine, with both engines as they were "
    "that day.\n"
)


SUMMARY_HEAD = (
    "How many times llama.cpp's tokens per second: the same file, machine and threads, the engines in turn, greedy, at "
    f"a context of {CONTEXT} tokens. The median of the files, and in brackets the lowest and the highest. The files "
    "have up to 0.4 billion weights, or the shapes of larger models and random weights; a machine has two cores. "
    "Tokens per second, each file, other contexts, and how near to the machine's own limits: "
    "[benchmarks/llama_cpp](benchmarks/llama_cpp/README.md). llama.cpp's flash attention was on or off, whichever was "
    "faster{starred}. The picture is of the machine with the most files.\n"
)


STARRED = ", but as it comes in the rows with a star"


def widest(found: Found) -> str:
    """The instructions that we had, by the daemon's name for them."""
    flags = next(iter(found.values()))["machine"]["flags"]
    had = [name for name in INSTRUCTIONS if FLAGS.get(name) in flags]
    return isa(found) if isa(found) != "auto" else had[-1] if had else "plain"


def span(found: Found, kind: str, sequences: int) -> str:
    """Of the files' ratios."""
    ratios = [
        result["ratio"]
        for record in found.values()
        for result in record["results"]
        if (result["kind"], result["sequences"], result["context"]) == (kind, sequences, CONTEXT)
    ]
    if not ratios:
        return "–"
    return f"{statistics.median(ratios):.1f}× ({min(ratios):.1f} to {max(ratios):.1f})"


def summary(all_found: list[Found], plot: str) -> str:
    starred = "" if all(both_ways(next(iter(found.values()))) for found in all_found) else STARRED
    rows = [
        SUMMARY_HEAD.format(starred=starred),
        f"| processor | with | files | prompt | {' | '.join(str(count) for count in COUNTS)} sequences |",
        f"|---|---|---|---|{'---|' * len(COUNTS)}",
    ]
    lines = []
    for found in all_found:
        first = next(iter(found.values()))
        machine = first["machine"]
        family = f", family {machine['family']}" if machine["family"] else ""
        spans = " | ".join([span(found, "prefill", 1), *(span(found, "decode", count) for count in COUNTS)])
        place = list(INSTRUCTIONS).index(widest(found))
        name = machine["processor"] + family + ("" if both_ways(first) else " \\*")
        lines.append((name, place, f"| {name} | {INSTRUCTIONS[widest(found)]} | {len(found)} | {spans} |"))
    rows += [line for *_, line in sorted(lines)]
    return "\n".join([*rows, f"\n![Ratios to llama.cpp, and the required minimum]({plot})", ""])


def main() -> int:
    check = only_check(__doc__)
    whole = {place.name: found for place in machines() if (found := records(place))}
    if not whole:
        sys.exit(f"no results in {RESULTS}: run scripts/bench_files.py first")
    fewer = {place.name: records(place) for place in machines(limited=True)}
    tables = [table(found, f"{name}.svg") for name, found in whole.items()]
    for _, names in groupby(fewer, key=lambda name: name.rpartition("-")[0]):
        tables.append(limited_table([fewer[name] for name in names]))
    written = write("results", "\n".join([HEAD, *tables]), check, PAGE)
    most = max(whole, key=lambda name: len(whole[name]))
    text = summary([*whole.values(), *fewer.values()], f"benchmarks/llama_cpp/{most}.svg")
    return max(written, write("speed", text, check))


if __name__ == "__main__":
    sys.exit(main())
