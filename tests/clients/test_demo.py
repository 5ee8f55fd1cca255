"""scripts/demo.py on the null engine: in a pipe, on a terminal, and when something is not the same."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = str(Path(__file__).parents[2] / "scripts" / "demo.py")
COMMAND = [sys.executable, SCRIPT, "--engine", "null"]
NAMES = ["request 1", "request 2", "request 3", "request 4"]


def test_turns_are_fair_and_all_is_the_same() -> None:
    done = subprocess.run([*COMMAND, "--quantum", "5"], capture_output=True, timeout=60, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    turns = re.findall(r"^(request \d) +turn +(\d+) │ ((?:\d+ )+)$", done.stdout, re.MULTILINE)
    tokens = dict.fromkeys(NAMES, 0)
    for name, _, ids in turns:
        tokens[name] += len(ids.split())
    assert list(tokens.values()) == [24, 40, 56, 72]
    assert all(len(ids.split()) <= 5 for _, _, ids in turns)
    # All are in every step, so turns end at the same pace; those that end in one step may do so in any order. Hence two
    # turns of a request always have one of every other that decodes between them.
    for place, (name, number, _) in enumerate(turns):
        again = next((later for later, turn in enumerate(turns) if turn[:2] == (name, str(int(number) + 2))), None)
        others = {other for other, _, _ in turns[:place]} & {other for other, _, _ in turns[(again or 0) + 1 :]}
        assert again is None or others - {name} <= {other for other, _, _ in turns[place:again]}
    rows = re.findall(
        r"^(request \d) .* slot (\d) and (\d): same tokens, same logits \(\w{8}\)$", done.stdout, re.MULTILINE
    )
    assert [name for name, _, _ in rows] == NAMES
    assert all(first != second for _, first, second in rows)
    assert re.search(r"^192 tokens: together in \d", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(("columns", "lines"), [(100, 30), (84, 8)])
def test_on_a_terminal_columns_are_drawn_over_themselves(columns: int, lines: int) -> None:
    ours, theirs = os.openpty()
    env = os.environ | {"COLUMNS": str(columns), "LINES": str(lines)}
    with subprocess.Popen(COMMAND, stdout=theirs, env=env) as process:
        os.close(theirs)
        data = b""
        while piece := read(ours):
            data += piece
    os.close(ours)
    assert process.returncode == 0
    text = data.decode()
    drawn = re.findall(r"\r\x1b\[2K(.*)\r\n", text)
    ups = [int(rows) for rows in re.findall(r"\x1b\[(\d+)A", text)]
    assert ups and len(set(ups)) == 1 and ups[0] < lines
    assert {len(line) for line in drawn} == {columns - (columns - 9) % 4}
    assert drawn[-ups[0]].split(" │ ")[3].strip() == "request 4 (72/72)"


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.parametrize("name", ["alone", "alone_end"])
def test_a_difference_is_found(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    demo = runpy.run_path(SCRIPT)
    end: dict[str, Any] = {"prompt_tokens": 1, "ttft_ms": None, "tps": None, "logits_sha256": "a" * 64}
    other = {"alone": [1, 3], "alone_end": end | {"logits_sha256": "b" * 64}}[name]
    request = demo["Request"]("r", [1], 2, {}, None, tokens=[1, 2], end=end, alone=[1, 2], alone_end=end)
    assert demo["compare"]([request], 1.0, 1.0) is True
    setattr(request, name, other)
    assert demo["compare"]([request], 1.0, 1.0) is False
    assert ("OTHER tokens, same logits" if name == "alone" else "same tokens, OTHER logits") in capsys.readouterr().out


def test_the_width_of_a_column_counts_cells() -> None:
    fitted = runpy.run_path(SCRIPT)["fitted"]
    assert [fitted(text, 4) for text in ("abcdef", "ab", "你好吗", "e\u0301x", "a你b好")] == [
        "abcd",
        "ab  ",
        "你好",
        "e\u0301x  ",
        "a你b",
    ]


def test_a_daemon_that_cannot_start_is_one_message() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--model", "/nowhere.gguf"], capture_output=True, timeout=60, text=True
    )
    assert (done.returncode, done.stdout) == (1, "") and done.stderr.startswith("demo: ")
    done = subprocess.run([*COMMAND, "--threads", "none"], capture_output=True, timeout=60, text=True)
    assert done.returncode == 1 and "exit code 2" in done.stderr and "Traceback" not in done.stderr
