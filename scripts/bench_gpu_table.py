"""What scripts/bench_gpu.py prints: a line for each figure, and at the end the figures beside the peers'."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

PEERS = ("transformers", "transformers continuous", "llama.cpp")

KEY = ("model", "format", "context", "rows")
MOST_KERNELS = 6  # of a line

Found = dict[str, Any]


def line(found: Found) -> str:
    name = f"{found.get('peer', found['kind']):24} {found.get('model', ''):18} {found.get('format', ''):8}"
    sizes = (
        f"{found['rows']:3} rows" + (f" at {found['context']}" if "context" in found else "") if "rows" in found else ""
    )
    if "tokens" in found:
        sizes = f"prompt of {found['tokens']}"
    if "skipped" in found:
        return f"{name} {sizes:16} {found['skipped']}"
    if found["kind"] == "kernels":
        most = [f"{kind['kernel']} {kind['us']:.0f} us" for kind in found["kernels"][:MOST_KERNELS]]
        return f"{name} {sizes:16} {', '.join(most)}"
    host = f"  host {1e3 * found['host_ms']:6.0f} us" if "host_ms" in found else ""
    speed = f"  {found['tokens_per_s']:9.1f} tokens/s" if "tokens_per_s" in found else ""
    share = f"  {found['bytes_per_s'] / 1e9:7.1f} GB/s  {found['share']:4.0%} of a copy" if "share" in found else ""
    return f"{name} {sizes:16} {found['ms']:9.4f} ms{share}{speed}{host}"


def speeds(results: list[Found], kind: str) -> Iterator[tuple[tuple[Any, ...], Found]]:
    """The figures of one kind that have tokens per second, each with the key by which it can be compared."""
    for found in results:
        if found["kind"] == kind and "tokens_per_s" in found:
            yield (found["model"], found["format"], found["context"], found["rows"], found.get("tokens", 1)), found


def ratios(results: list[Found]) -> list[Found]:
    """Our tokens per second over a peer's, wherever both have the model, the format, the context, the rows, and the
    tokens of a prompt."""
    ours = dict(speeds(results, "step"))
    pairs = [(ours[key], peer) for key, peer in speeds(results, "peer") if key in ours]
    return [
        {key: peer[key] for key in ("peer", *KEY, "tokens") if key in peer}
        | {"ours_tokens_per_s": own["tokens_per_s"], "peer_tokens_per_s": peer["tokens_per_s"]}
        | {"ratio": own["tokens_per_s"] / peer["tokens_per_s"]}
        for own, peer in pairs
    ]


def ratio_line(one: Found) -> str:
    sizes = f"prompt of {one['tokens']}" if "tokens" in one else f"{one['rows']:3} rows at {one['context']:5}"
    where = f"{one['model']:18} {one['format']:8} {sizes:17}"
    return f"{where}: {one['ratio']:6.2f} times the tokens per second of {one['peer']}"


def table(results: list[Found]) -> Iterator[str]:
    """Steps of rows that decode: tokens per second, the share of a copy's bandwidth, times one row's, times each
    peer's."""
    steps = dict(sorted((pair for pair in speeds(results, "step") if "share" in pair[1]), key=lambda pair: pair[0]))
    if not steps:
        return
    decoding = (one for one in ratios(results) if "tokens" not in one)
    beside = {(one["peer"], *(one[name] for name in KEY)): one for one in decoding}
    titles = [f"{'step':18} {'format':8} {'context':>7} {'rows':>4} {'tokens/s':>9} {'of a copy':>9} {'/ one row':>9}"]
    titles += [f"{'/ ' + peer.replace('transformers c', 'c'):>16}" for peer in PEERS]
    yield "".join(titles)
    for (model, kind, context, rows, _), found in steps.items():
        one = steps.get((model, kind, context, 1, 1))
        cells = [f"{found['tokens_per_s'] / one['tokens_per_s']:9.2f}" if one else f"{'':9}"]
        for peer in PEERS:
            ratio = beside.get((peer, model, kind, context, rows))
            cells.append(f"{ratio['ratio']:16.2f}" if ratio else f"{'':16}")
        about = f"{model:18} {kind:8} {context:7} {rows:4} {found['tokens_per_s']:9.1f} {found['share']:9.0%} "
        yield (about + "".join(cells)).rstrip()
