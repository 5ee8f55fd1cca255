"""For scripts/gpu_check.py: PACELINE_TOLD=FILE PYTHONPATH=scripts pytest -p gpu_plugin.

FILE gets a line for each test that begins and one for its outcome, at once: so it is known what a killed process did.
Tests that are in FILE already are left out. After a test that failed, the device is asked whether it still works; if
not, the run ends there, and gpu_check begins another for the rest.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def tell(state: str, test: str, why: str = "") -> None:
    with Path(os.environ["PACELINE_TOLD"]).open("a") as file:
        file.write(f"{state} {test}\t{why}\n")


@pytest.hookimpl(trylast=True)  # after -k
def pytest_collection_modifyitems(items: list[Any]) -> None:
    told = Path(os.environ["PACELINE_TOLD"])
    lines = told.read_text().splitlines() if told.exists() else []
    done = {line.partition("\t")[0].partition(" ")[2] for line in lines}
    if not done:
        tell("all", str(len(items)))
    items[:] = [item for item in items if item.nodeid not in done]


def lost() -> bool:
    """Whether the device that the tests of this process share repeats an error."""
    device = next((module for name, module in sys.modules.items() if name.endswith("native.emulated")), None)
    if device is None or device.KIND == "emulator":
        return False
    try:
        device.gpu()[1].fetch([])
    except Exception:
        return True
    return False


def pytest_runtest_logstart(nodeid: str) -> None:
    tell("begun", nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any) -> Iterator[None]:
    report = yield
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        tell("failed", item.nodeid, (str(crash.message).splitlines() or [""])[0][:160] if crash else "")
        if lost():
            tell("lost", item.nodeid)
            item.session.shouldstop = f"the device is lost in {item.nodeid}"
    elif report.when == "call" or report.skipped:
        tell("skipped" if report.skipped else "passed", item.nodeid)
    return report
