"""The transcripts of SPEC.md and README.md, run as printed: `> ` lines are typed once all above them has come."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def transcripts(document: str) -> list[list[str]]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return [block.splitlines() for block in re.findall(r"^```transcript\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)]


def matches(expected: str, found: str) -> bool:
    """`…` stands for anything that varies."""
    return re.fullmatch(".*?".join(map(re.escape, expected.split("…"))), found) is not None


def run_as_printed(transcript: list[str], *flags: str) -> None:
    command = [sys.executable, "-m", "paceline.daemon.main", "--stream", "text", *flags]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as daemon:
        assert daemon.stdin and daemon.stdout
        for number, line in enumerate(transcript, 1):
            if line.startswith("> "):
                daemon.stdin.write(line[2:] + "\n")
                daemon.stdin.flush()
            else:
                found = daemon.stdout.readline().rstrip("\n")
                assert matches(line, found), f"line {number} of the transcript: expected {line}, found {found}"
        daemon.stdin.close()
        assert daemon.stdout.read() == ""
        assert daemon.wait(10) == 0


@pytest.mark.timeout(60)
@pytest.mark.parametrize("transcript", transcripts("protocol/SPEC.md"), ids=["requests", "snapshots"])
def test_the_transcripts_of_the_specification(transcript: list[str]) -> None:
    run_as_printed(transcript, "--engine", "null")


@pytest.mark.timeout(60)
def test_the_transcript_of_the_readme(demo_model: Path) -> None:
    (transcript,) = transcripts("README.md")
    run_as_printed(transcript, str(demo_model))
