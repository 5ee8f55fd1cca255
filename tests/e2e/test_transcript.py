"""The transcript of SPEC.md, run as printed: `> ` lines are typed once everything above them has come."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SPEC = Path(__file__).parent.parent.parent / "protocol" / "SPEC.md"


def transcript() -> list[str]:
    _, _, rest = SPEC.read_text(encoding="utf-8").partition("```transcript\n")
    block, end, _ = rest.partition("```\n")
    assert end
    return block.splitlines()


def matches(expected: str, found: str) -> bool:
    """`…` stands for anything that varies."""
    return re.fullmatch(".*?".join(map(re.escape, expected.split("…"))), found) is not None


@pytest.mark.timeout(60)
def test_the_transcript_of_the_specification() -> None:
    command = [sys.executable, "-m", "paceline.daemon.main", "--engine", "null", "--stream", "text"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as daemon:
        assert daemon.stdin and daemon.stdout
        for number, line in enumerate(transcript(), 1):
            if line.startswith("> "):
                daemon.stdin.write(line[2:] + "\n")
                daemon.stdin.flush()
            else:
                found = daemon.stdout.readline().rstrip("\n")
                assert matches(line, found), f"line {number} of the transcript: expected {line}, found {found}"
        assert daemon.stdout.read() == ""
        daemon.stdin.close()
        assert daemon.wait(10) == 0
