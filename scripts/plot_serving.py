"""Draws benchmarks/serving.svg from benchmarks/serving.json: who waited, who was served, and the means.

    python scripts/plot_serving.py [--results FILE.json] [--out FILE.svg]

Needs the bench extra (matplotlib). Above, the same eight Poisson arrivals by policy: pale from a request's arrival to
its first token, full until its last. Below, means of all rounds by pattern.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")

from bench_serving_table import NAMES, RESULTS
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, ScalarFormatter

COLOURS = {"continuous": "#0072b2", "static": "#d55e00", "llama.cpp": "#009e73"}
TIMELINE = "8, Poisson"
BARS = {  # title -> the value of a result
    "first token, mean, ms": lambda result: result["first_token_ms"]["mean"],
    "gap between tokens, 95th percentile, ms": lambda result: result["gap_ms"]["p95"],
    "tokens per second": lambda result: result["tokens_per_second"],
}


def timeline(axes: Axes, policy: str, served: dict[str, list[float]]) -> None:
    """A lane for each request of a round, the first that came on top."""
    lanes = range(len(served["arrival_ms"]))
    arrival = [at / 1e3 for at in served["arrival_ms"]]
    first = [wait / 1e3 for wait in served["first_token_ms"]]
    rest = [(whole - wait) / 1e3 for whole, wait in zip(served["whole_ms"], served["first_token_ms"], strict=True)]
    begin = [at + wait for at, wait in zip(arrival, first, strict=True)]
    axes.barh(lanes, first, left=arrival, color=COLOURS[policy], alpha=0.25, height=0.7)
    axes.barh(lanes, rest, left=begin, color=COLOURS[policy], height=0.7)
    axes.set_title(NAMES[policy], fontsize=9)
    axes.set_yticks([])
    axes.set_xlabel("seconds")
    axes.invert_yaxis()


def bars(axes: Axes, name: str, patterns: list[dict[str, Any]], policies: list[str]) -> None:
    width = 0.8 / len(policies)
    for place, policy in enumerate(policies):
        heights = [BARS[name](found["results"][policy]) for found in patterns]
        lefts = [at + (place - (len(policies) - 1) / 2) * width for at in range(len(patterns))]
        axes.bar(lefts, heights, width, color=COLOURS[policy], label=NAMES[policy])
    axes.set_xticks(range(len(patterns)), [found["pattern"].replace(", ", ",\n") for found in patterns], fontsize=7)
    axes.set_title(name, fontsize=9)
    axes.grid(axis="y", alpha=0.3)
    if "ms" in name:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(ScalarFormatter())
        axes.yaxis.set_minor_formatter(NullFormatter())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--out", type=Path, default=RESULTS.with_suffix(".svg"))
    arguments = parser.parse_args()
    patterns = json.loads(arguments.results.read_text())["patterns"]
    mpl.rcParams.update({"svg.hashsalt": "paceline", "svg.fonttype": "none"})  # the same results give the same file
    shown = next(found for found in patterns if found["pattern"] == TIMELINE)["results"]
    figure = pyplot.figure(figsize=(12.6, 6.8), layout="constrained")
    upper, lower = figure.subfigures(2, 1)
    lanes = upper.subplots(1, len(shown), sharex=True, squeeze=False)
    for axes, (policy, result) in zip(lanes.flat, shown.items(), strict=True):
        timeline(axes, policy, result["first_round"])
    panels = lower.subplots(1, len(BARS))
    for axes, name in zip(panels, BARS, strict=True):
        bars(axes, name, patterns, list(shown))
    panels[-1].legend(fontsize=8)
    figure.savefig(arguments.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
