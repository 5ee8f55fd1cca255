"""Peers of scripts/bench_gpu.py run in processes of their own: what they hold of the device is released with them."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from typing import Any


def json_lines(words: list[str], limit: float, variables: Mapping[str, str] | None = None) -> Iterator[dict[str, Any]]:
    """What a process prints as lines of JSON; other lines are skipped.

    After them raises TimeoutError, if it took more than `limit` seconds, or RuntimeError, with the last line of its
    standard error, if it failed. The process ends with the generator.
    """
    late = threading.Event()
    with (
        tempfile.TemporaryFile("w+", errors="replace") as errors,
        subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ | dict(variables or {})
        ) as process,
    ):

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(min(limit, threading.TIMEOUT_MAX), end)
        timer.daemon = True
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("{"):
                    yield json.loads(line)
            code = process.wait()
        finally:
            timer.cancel()
            process.kill()
        if late.is_set():
            raise TimeoutError(f"stopped after {limit:.0f} seconds")
        if code:
            errors.seek(0)
            said = [line.strip() for line in errors if line.strip()]
            raise RuntimeError(f"exit status {code}: {(said or ['it says nothing'])[-1][:200]}")


def with_missing(
    found: Iterator[dict[str, Any]], expected: list[dict[str, Any]], over: str
) -> Iterator[dict[str, Any]]:
    """What a child gives, then what of `expected` it did not give, with the reason, which is `over` if it was
    stopped."""
    given: list[dict[str, Any]] = []
    reason = "it gave no figure"
    try:
        for one in found:
            given.append(one)
            yield one
    except TimeoutError as error:
        reason = f"{over} ({error})"
    except (RuntimeError, OSError) as error:
        reason = str(error)
    if not given:
        first = expected[0].items()
        yield {key: value for key, value in first if all(about.get(key) == value for about in expected)} | {
            "skipped": reason
        }
        return
    for about in expected:
        if not any(about.items() <= one.items() for one in given):
            yield about | {"skipped": reason}
