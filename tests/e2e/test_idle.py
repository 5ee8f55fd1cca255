"""Who has nothing to do costs nothing: no busy loop, no timer."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from paceline.protocol import YIELD, Frame

from ..procfs import cpu_seconds
from .process import Process, wait_until_asleep

SECONDS = 3.0


@pytest.mark.parametrize("what", ["nothing", "a parked request", "a queued request", "a trace"])
def test_idle_costs_nothing(what: str, tmp_path: Path) -> None:
    """Under 0.5 % of a core, as the kernel counts it: in ticks of 10 ms, of which noise may give one."""
    with Process("--slots", "1") as daemon:
        daemon.ready()
        if what == "a trace":
            daemon.send(f"TRACE on {tmp_path / 't'}")
        if what != "nothing":
            daemon.send("REQ 1 START ids:1,2,3 9 2")
            daemon.read_until(lambda item: item == Frame(1, YIELD))
        if what == "a queued request":
            daemon.send("REQ 2 START ids:1 9")
        wait_until_asleep(daemon.popen.pid)
        spent = cpu_seconds(daemon.popen.pid)
        time.sleep(SECONDS)
        assert cpu_seconds(daemon.popen.pid) - spent < 0.005 * SECONDS
        daemon.send("PING")
        assert daemon.read_until(lambda item: getattr(item, "body", {}).get("ok") and "pong" in item.body)  # type: ignore[union-attr]
        assert daemon.finish() == 0
