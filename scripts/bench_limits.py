"""The targets of the speed table: at least so many times llama.cpp's tokens per second, on the same file."""

Limits = dict[str | int, float]  # "prefill", or a number of sequences


def row(prefill: float, one: float, four: float, sixteen: float) -> Limits:
    return {"prefill": prefill, 1: one, 4: four, 16: sixteen}


# By the file's name in scripts/bench_files.py. First the contexts that have a row of their own, then 0 for all others.
LIMITS: dict[str, dict[int, Limits]] = {
    "smollm2-q4_1": {32: row(4, 1.8, 4, 6), 512: row(4, 1.8, 3.5, 5)},
    "smollm2-q4_0": {0: row(1.5, 1.4, 2, 2.2)},
    "smollm2-q8_0": {0: row(1.5, 1.25, 1.8, 2)},
    "gemma3-270m": {0: row(1.5, 1.3, 2, 3)},
    "bench-q4_k": {0: row(1.5, 1.2, 2, 2.5)},
}


def limits(name: str, context: int) -> Limits:
    """Empty where there is no target."""
    own = LIMITS.get(name, {})
    return own.get(context, own.get(0, {}))
