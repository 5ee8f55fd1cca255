"""Draws a trace: a lane per slot, a colour per request, the queue above, cancels marked. Needs the bench extra.

python scripts/plot_trace.py TRACE.json OUT.png|svg|pdf [--from MS] [--to MS] [--width INCHES]

TRACE.json is what `TRACE on <path>` has written; it may lack its end. Dark blocks are prefill, light ones decoding.
"""

import argparse
import json
from math import isfinite
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

Event = dict[str, Any]
MARKS = {
    "end: cancelled": ("X", "#c00000", "cancelled"),
    "end: failed": ("P", "#000000", "failed"),
    "yield": ("|", "#303030", "yield"),
}
ENDED = ("D", "#ffffff", "ended by itself")
HEIGHT = 0.72  # of a lane, in lanes
MOST_LABELS = 60
NEEDED = {"ph", "pid", "tid", "ts"}  # of an event; NAMED of one that begins or lasts, too
NAMED = {"cat", "name"}
LEAST = 8  # bytes: a trace that was cut off before its first event
MOST_INCHES = 400  # a picture of 60,000 dots


def read(path: Path) -> list[Event]:
    """The events; of a truncated trace, those in complete lines."""
    text = path.read_text(encoding="utf-8")
    try:
        return json.loads(text)  # type: ignore[no-any-return]
    except json.JSONDecodeError:
        whole = []
        for line in text.splitlines()[1:]:
            try:
                whole.append(json.loads(line.rstrip(",")))
            except json.JSONDecodeError:
                continue
        return whole


def is_trace(events: Any) -> bool:
    """Whether this is what a daemon writes."""
    return isinstance(events, list) and all(
        isinstance(event, dict) and event.keys() >= (NEEDED | NAMED if event.get("ph") in ("B", "X") else NEEDED)
        for event in events
    )


def colour_of(request: int, order: dict[int, int], light: bool) -> tuple[float, ...]:
    base = to_rgb(plt.get_cmap("tab10")(order[request] % 10))
    return tuple(1 - (1 - part) * 0.45 for part in base) if light else tuple(part * 0.85 for part in base)


def merged(rows: list[Event], gap: float) -> list[tuple[float, float]]:
    """(begin, length) of runs of rows without visible gaps between them, in ms."""
    spans: list[list[float]] = []
    for row in sorted(rows, key=lambda row: float(row["ts"])):
        begin, end = row["ts"] / 1e3, (row["ts"] + row["dur"]) / 1e3
        if spans and begin - spans[-1][1] < gap:
            spans[-1][1] = end
        else:
            spans.append([begin, end])
    return [(begin, end - begin) for begin, end in spans]


def waits(events: list[Event], end: float) -> list[tuple[int, float, float]]:
    """(request, begin, end) of each wait in the queue, in ms."""
    closed = {event["id"]: event["ts"] / 1e3 for event in events if event["ph"] == "e"}
    begun = [event for event in events if event["ph"] == "b"]
    return [(event["args"]["req"], event["ts"] / 1e3, closed.get(event["id"], end)) for event in begun]


def stack(spans: list[tuple[int, float, float]]) -> list[int]:
    """The lane of each, as low as possible without overlap."""
    free: list[float] = []
    lanes = []
    for _, begin, end in spans:
        lane = next((lane for lane, until in enumerate(free) if until <= begin), len(free))
        free[lane : lane + 1] = [end]
        lanes.append(lane)
    return lanes


def draw(events: list[Event], begin: float, end: float, width: float) -> Any:
    lanes = {event["tid"]: event["args"]["name"] for event in events if event.get("name") == "thread_name"}
    rows = [event for event in events if event["ph"] == "X" and event["cat"] in ("prefill", "decode")]
    slots = [lane for lane in lanes if lanes[lane].startswith("slot")]
    queue = [wait for wait in waits(events, end) if wait[2] >= begin and wait[1] <= end]
    stacked = stack(queue)
    requests = [row["args"]["req"] for row in rows] + [request for request, _, _ in queue]
    order = {request: place for place, request in enumerate(dict.fromkeys(requests))}
    place = {lane: len(slots) - 1 - number for number, lane in enumerate(slots)}
    queue_lanes = max(stacked, default=-1) + 1
    counted = [event for event in events if event["ph"] == "C" and event["name"] == "rows"]

    tall = 0.42 * (len(slots) + 0.5 * queue_lanes) + 2.3
    figure, (chart, below) = plt.subplots(
        2, 1, figsize=(width, tall), sharex=True, height_ratios=[max(1.5, tall - 2.0), 0.8], layout="constrained"
    )
    gap = (end - begin) / (width * 150)
    draw_rows(chart, rows, place, order, gap)
    waited: dict[tuple[int, float], float] = {}
    for (request, since, until), lane in zip(queue, stacked, strict=True):
        low = waited[request, until] = len(slots) - 0.2 + 0.5 * lane
        colour = colour_of(request, order, light=True)
        chart.barh(low, until - since, 0.36, since, color=colour, edgecolor="#404040", linewidth=0.5, hatch="////")
        if until - since > (end - begin) / 40:
            at = (max(since, begin), low)
            paper = {"facecolor": "#ffffff", "edgecolor": "none", "pad": 0.8}
            chart.annotate(
                f"{request}", at, (3, 0), textcoords="offset points", va="center", fontsize=7, bbox=paper, clip_on=True
            )
    marked = draw_marks(chart, events, place, waited)
    label(chart, events, place, order, (begin, end))

    chart.set_yticks([*place.values(), len(slots) - 0.45 + 0.25 * queue_lanes] if queue else list(place.values()))
    chart.set_yticklabels([lanes[lane] for lane in place] + (["queue"] if queue else []))
    chart.set_ylim(-0.6, len(slots) - 0.4 + (0.5 * queue_lanes if queue else 0.1))
    chart.grid(axis="x", color="#d0d0d0", linewidth=0.5)
    chart.set_axisbelow(True)
    shades = [Patch(color="#404040", label="prefill"), Patch(color="#b0b0b0", label="decode")]
    shades += [Patch(facecolor="#ffffff", edgecolor="#404040", hatch="////", label="waits")] if queue else []
    marks = [
        Line2D([], [], linestyle="", marker=shape, color=colour, markeredgecolor="#303030", label=name)
        for shape, colour, name in marked
    ]
    handles = shades + marks
    chart.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(handles), fontsize=7, frameon=False
    )
    times = [event["ts"] / 1e3 for event in counted]
    below.fill_between(times, [event["args"]["rows"] for event in counted], step="post", color="#808080", linewidth=0)
    below.set_ylabel("rows", fontsize=8)
    below.set_ylim(0, None)
    below.set_xlabel("milliseconds since the trace began")
    below.set_xlim(begin, end)
    for side in ("top", "right"):
        chart.spines[side].set_visible(False)
        below.spines[side].set_visible(False)
    return figure


def draw_rows(chart: Any, rows: list[Event], place: dict[int, int], order: dict[int, int], gap: float) -> None:
    groups: dict[tuple[int, int, str], list[Event]] = {}
    for row in rows:
        groups.setdefault((row["tid"], row["args"]["req"], row["cat"]), []).append(row)
    for (lane, request, kind), members in groups.items():
        colour = colour_of(request, order, light=kind == "decode")
        span = (place[lane] - HEIGHT / 2, HEIGHT)
        chart.broken_barh(merged(members, gap), span, facecolors=[colour], linewidth=0)


def draw_marks(
    chart: Any, events: list[Event], place: dict[int, int], waited: dict[tuple[int, float], float]
) -> list[tuple[str, str, str]]:
    """Returns the marks that occur, for the legend. An end without a slot is marked in the queue."""
    used: dict[tuple[str, str, str], None] = {}
    for event in events:
        if event["ph"] != "i" or not event["name"].startswith(("end:", "yield")):
            continue
        height = place.get(event["tid"], waited.get((event["args"]["req"], event["ts"] / 1e3)))
        if height is None:
            continue
        shape, colour, _ = mark = MARKS.get(event["name"], ENDED)
        used[mark] = None
        size = 5 if shape == "D" else 9 if shape == "|" else 8
        chart.plot(event["ts"] / 1e3, height, shape, color=colour, markersize=size, markeredgecolor="#303030", zorder=5)
    return list(used)


def label(
    chart: Any, events: list[Event], place: dict[int, int], order: dict[int, int], window: tuple[float, float]
) -> None:
    """Writes the id of a request where it enters its slot, as long as that is readable."""
    begin, end = window
    stays = [event for event in events if event["ph"] == "B" and event["cat"] == "request"]
    seen = [event for event in stays if begin <= event["ts"] / 1e3 <= end]
    if len(seen) > MOST_LABELS:
        return
    for event in seen:
        at = (event["ts"] / 1e3, place[event["tid"]] + HEIGHT / 2)
        chart.annotate(
            event["name"], at, xytext=(1, 1), textcoords="offset points", fontsize=7, va="bottom", clip_on=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--from", dest="begin", type=float, default=0.0, metavar="MS")
    parser.add_argument("--to", dest="end", type=float, metavar="MS")
    parser.add_argument("--width", type=float, default=10.0, metavar="INCHES")
    arguments = parser.parse_args()
    try:
        events = read(arguments.trace)
    except (OSError, UnicodeDecodeError) as error:
        parser.error(f"cannot read the trace {arguments.trace}: {error}")
    if not is_trace(events) or (not events and arguments.trace.stat().st_size > LEAST):
        parser.error(f"{arguments.trace} is no trace: expected what TRACE on <path> has written")
    if not 0 < arguments.width <= MOST_INCHES:
        parser.error(f"--width {arguments.width:g}: expected inches above 0, at most {MOST_INCHES}")
    last = max((event["ts"] + event.get("dur", 0) for event in events), default=0) / 1e3
    end = arguments.end if arguments.end is not None else last * 1.01
    if not (isfinite(arguments.begin) and isfinite(end) and arguments.begin < end):
        parser.error(f"nothing happened between {arguments.begin:g} and {end:g} ms")
    picture = draw(events, arguments.begin, end, arguments.width)
    try:
        picture.savefig(arguments.out, dpi=150)
    except (OSError, ValueError) as error:
        parser.error(f"cannot write the picture {arguments.out}: {error}")
    print(f"{arguments.out}: {len(events)} events, {last:.3f} ms")


if __name__ == "__main__":
    main()
