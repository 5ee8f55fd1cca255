"""README.md's shell and Python blocks, each run as it is printed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
from paceline.clients import Client

ROOT = Path(__file__).parents[2]
SECONDS = 100
QUESTION = [{"role": "user", "content": "Name three rivers."}]


def blocks(heading: str) -> list[tuple[str, str]]:
    """The language and the text of each block below a heading."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [
        (kind, block) for kind, block in re.findall(r"^```(sh|python)\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    ]


WAYS = blocks("Four ways in")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """With this interpreter as `python`, and our command as `paceline`."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (folder / "paceline").write_text(f'#!/bin/sh\nexec {sys.executable} -m paceline.clients.cli "$@"\n')
    for path in folder.iterdir():
        path.chmod(0o755)
    return os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}


def run(kind: str, block: str, folder: Path, environment: dict[str, str]) -> str:
    """What it prints. Nothing that it started outlives it."""
    command = ["bash", "-e", "-o", "pipefail", "-c", block] if kind == "sh" else ["python", "-c", block]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            out, _ = process.communicate(timeout=SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0
    return out


@pytest.fixture(scope="module")
def answer(demo_model: Path) -> str:
    with Client.spawn([str(demo_model)]) as client:
        return "".join(piece.text for piece in client.generate(QUESTION, max_tokens=24))


def test_there_are_four_ways_in() -> None:
    assert [kind for kind, _ in WAYS] == ["sh", "python", "sh", "sh"]


@pytest.mark.timeout(SECONDS + 20)
def test_a_pipe(tmp_path: Path, environment: dict[str, str], demo_model: Path) -> None:
    text, end = run(*WAYS[0], tmp_path, environment).rsplit("\n", 2)[:2]
    assert text.startswith("req 1 │ ") and len(text) > 60
    assert end.startswith("req 1 ■ length · 32 tokens · ")


@pytest.mark.timeout(SECONDS + 20)
def test_python(tmp_path: Path, environment: dict[str, str], answer: str) -> None:
    assert run(*WAYS[1], tmp_path, environment) == answer


@pytest.mark.timeout(SECONDS + 20)
def test_http(tmp_path: Path, environment: dict[str, str], answer: str) -> None:
    if not shutil.which("curl"):
        pytest.skip("there is no curl")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    out = run(*WAYS[2], tmp_path, environment | {"PORT": str(port)})
    assert out.endswith("data: [DONE]\n\n")
    texts = re.findall(r'"delta":\{"content":"(.*?)"\}', out)
    assert len(texts) > 5 and "".join(texts) == answer.replace("\n", "\\n")


@pytest.mark.timeout(SECONDS + 20)
def test_an_experiment(tmp_path: Path, environment: dict[str, str], demo_model: Path) -> None:
    first, second = (
        [line for line in run(*WAYS[3], tmp_path, environment).splitlines() if line.startswith("-2 ")] for _ in "12"
    )
    assert first == second
    assert sum(line.startswith("-2 1 ") and "-" not in line[5:] for line in first) == 12
    assert "-2 1 -1" in first and "-2 2 -5" in first and first.index("-2 2 -5") < first.index("-2 1 -1")


@pytest.mark.timeout(SECONDS + 20)
def test_timed_experiments(tmp_path: Path, environment: dict[str, str]) -> None:
    """In a checkout; what it draws with is an extra."""
    for name in ("scripts", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    ((kind, block),) = blocks("Experiments")
    lines = block.splitlines()
    if find_spec("matplotlib") is None:
        lines.pop()
    assert "-2 2 -5" in run(kind, "\n".join(lines), tmp_path, environment).splitlines()
    assert (tmp_path / "run.txt").stat().st_size and (tmp_path / "run.json").stat().st_size
