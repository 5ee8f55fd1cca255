"""Draws benchmarks/llama_cpp/MACHINE.svg from the results in benchmarks/llama_cpp/MACHINE/: tokens per second over
llama.cpp's.

    python scripts/plot_bench.py [FOLDER ...]      # default: every machine's

Needs the bench extra (matplotlib). One panel a file, one line a context; dashes mark the targets.
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")

from bench_limits import limits
from bench_table import machines, records
from matplotlib import pyplot
from matplotlib.axes import Axes

COLOURS = {32: "#0072b2", 512: "#d55e00", 4096: "#009e73"}


def panel(axes: Axes, name: str, record: dict[str, Any]) -> None:
    decodes = [result for result in record["results"] if result["kind"] == "decode"]
    prefills = [result for result in record["results"] if result["kind"] == "prefill"]
    counts = sorted({result["sequences"] for result in decodes})
    places = {count: place for place, count in enumerate(counts, 1)}
    for context in sorted({result["context"] for result in decodes}):
        own = [result for result in decodes if result["context"] == context]
        axes.plot(
            [places[result["sequences"]] for result in own],
            [result["ratio"] for result in own],
            marker="o",
            color=COLOURS.get(context),
            label=f"context {context}",
        )
    axes.plot([0] * len(prefills), [result["ratio"] for result in prefills], "s", color="black", label="prefill of 512")
    for context in (512, 32):  # where both have the same limit, that of 32 is drawn over it
        for column, limit in limits(name, context).items():
            place = 0 if column == "prefill" else places.get(column)
            if place is not None:
                colour = "black" if column == "prefill" else COLOURS[context]
                axes.hlines(limit, place - 0.3, place + 0.3, colors=colour, linestyles="dashed", linewidth=1.5)
    axes.set_xticks([0, *places.values()], ["prefill", *(str(count) for count in counts)])
    axes.axhline(1, color="grey", linewidth=0.8)
    axes.set_ylim(bottom=0)
    axes.set_title(record["model"], fontsize=9)
    axes.set_xlabel("sequences")
    axes.grid(axis="y", alpha=0.3)


def draw(found: dict[str, dict[str, Any]], out: Path) -> None:
    mpl.rcParams.update({"svg.hashsalt": "paceline", "svg.fonttype": "none"})  # the same results give the same file
    columns = min(3, len(found))
    rows = -(-len(found) // columns)
    figure, grid = pyplot.subplots(rows, columns, figsize=(4.2 * columns, 3.4 * rows), squeeze=False)
    for axes, (name, record) in zip(grid.flat, found.items(), strict=False):
        panel(axes, name, record)
    for axes in grid.flat[len(found) :]:
        axes.axis("off")
    handles, labels = grid.flat[0].get_legend_handles_labels()
    handles.append(pyplot.Line2D([], [], color="grey", linestyle="dashed"))
    figure.legend(handles, [*labels, "asked for"], loc="lower right", ncols=1, fontsize=9)
    for axes in grid[:, 0]:
        axes.set_ylabel("times llama.cpp")
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*", metavar="FOLDER")
    for folder in parser.parse_args().folders or machines():
        draw(records(folder), folder.with_suffix(".svg"))


if __name__ == "__main__":
    main()
