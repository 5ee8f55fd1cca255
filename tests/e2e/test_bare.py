"""`--stream bare` as a parent of the original uses it: prompts in files, int32 values back."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

from .test_conversation import expected


class Parent:
    """Writes lines, reads values; the messages go where they are told to."""

    def __init__(self, messages: Path, *flags: str) -> None:
        command = [sys.executable, "-m", "paceline.daemon.main", "--engine", "null", "--stream", "bare", *flags]
        with messages.open("wb") as log:
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
            self.popen = subprocess.Popen(command, bufsize=0, **pipes)

    def ask(self, line: str) -> list[int]:
        """The values up to the first negative one."""
        assert self.popen.stdin and self.popen.stdout
        self.popen.stdin.write(f"{line}\n".encode())
        values = list[int]()
        while not values or values[-1] >= 0:
            values += struct.unpack("<i", self.popen.stdout.read(4))
        return values

    def finish(self) -> bytes:
        rest, _ = self.popen.communicate(timeout=20)
        assert self.popen.returncode == 0
        return rest


def test_the_originals_conversation(tmp_path: Path) -> None:
    prompt, messages = tmp_path / "prompt.bin", tmp_path / "messages"
    prompt.write_bytes(struct.pack("<3i", 5, 6, 7))
    parent = Parent(messages, "--target-cache-slots=2", "--max-ctx=256")
    whole = expected([5, 6, 7], 8)
    assert parent.ask(f"{prompt} 8") == [*whole, -1]
    assert parent.ask(f"{prompt}\t8") == [*whole, -1]
    assert parent.ask(f"REQ 4 START {prompt} 8 3") == [*whole[:3], -4]
    assert parent.ask(f"REQ 5 START {prompt} 8 3") == [-1]
    assert parent.ask(f"{prompt} 8") == [-1]
    assert parent.ask("REQ 4 CONTINUE 2") == [*whole[3:5], -4]
    assert parent.ask("LIST_REQUESTS") == [-1]
    assert parent.ask("SCHED_STEP") == [*whole[5:], -1]
    assert parent.ask("SCHED_STEP") == [-1]
    assert parent.ask(f"REQ 5 START {prompt} 8 3") == [*whole[:3], -4]
    assert parent.ask("REQ 5 CANCEL") == [-1]
    assert parent.ask("REQ 5 CANCEL") == [-1]
    assert parent.ask(f"{tmp_path}/nowhere 8") == [-1]
    assert parent.ask("compress /tmp/a.bin 500 /tmp/b.gguf") == [-1]
    assert parent.finish() == b""
    lines = messages.read_text().splitlines()
    assert lines[0].startswith('-3 0 {"event":"ready"')
    assert all(line.startswith("-3 ") for line in lines)
    assert sum('"code":"slot_busy"' in line for line in lines) == 2
    assert sum('{"event":"end"' in line for line in lines) == 4


def test_lines_written_at_once_and_a_stream_of_its_own(tmp_path: Path) -> None:

    ours, theirs = os.pipe()
    command = [sys.executable, "-m", "paceline.daemon.main", "--engine=null", "--stream=bare", f"--stream-fd={theirs}"]
    done = subprocess.run(
        command,
        input=b"ids:1,2 3\nPING\nWAIT\nids:9 2\nx\n",
        pass_fds=[theirs],
        capture_output=True,
        timeout=20,
        check=True,
    )
    os.close(theirs)
    with os.fdopen(ours, "rb") as stream:
        data = stream.read()
    values = struct.unpack(f"<{len(data) // 4}i", data)
    assert values == (*expected([1, 2], 3), -1, *expected([9], 2), -1, -1)
    assert done.stdout == b"" and b'"pong"' in done.stderr
