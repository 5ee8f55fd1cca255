"""Lines that arrive together are applied between the same two steps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from paceline.protocol import CANCELLED, Frame, FrameReader, Item


def served(lines: list[str], path: Path) -> list[Item]:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "paceline.daemon.main", "--engine", "null", "--stream", "tagged"]
    with path.open("rb") as commands:
        done = subprocess.run(command, stdin=commands, capture_output=True, timeout=60, check=True)
    return FrameReader().feed(done.stdout)


def frames(items: list[Item]) -> list[Frame]:
    return [item for item in items if isinstance(item, Frame)]


def test_a_start_and_its_cancel_after_many_lines(tmp_path: Path) -> None:
    items = served([*["PING"] * 1023, "REQ 1 START ids:1 9", "CANCEL 1"], tmp_path / "lines")
    assert frames(items) == [Frame(1, CANCELLED)]


def test_a_line_behind_a_wait_in_a_long_file(tmp_path: Path) -> None:
    """Lines of all lengths, so that a line begins at any place of a piece."""
    lines = [f"REQ {n} START ids:{n} 900\nWAIT step={3 * n}\nCANCEL {n}\n#{'x' * (n % 97)}" for n in range(1, 4000)]
    found = frames(served(["# all at once", *lines], tmp_path / "lines"))
    assert sum(frame.value == CANCELLED for frame in found) == 3999
    assert [frame.req_id for frame in found] == [n for n in range(1, 4000) for _ in range(4)]
