"""Plays a file of timed commands to a daemon, shows the stream as it comes, and records what was applied at which step.

    python scripts/sched_experiment.py FILE [--model M] [--record OUT] [--trace T] [flags of the daemon]
    python scripts/sched_experiment.py docs/experiment.txt --engine null --fault slow:2 --record run.txt
    paceline daemon --engine null --fault slow:2 --stream text < run.txt                        # the same frames again

A line of FILE is a command, with its time in front if it has one: `@120ms REQ 3 CANCEL` and `@1.5s …` count from
`ready`, `@+10ms …` from the line before; without a time it goes at once after that one. Blank lines and those that
begin with # are for people. At the end of FILE a QUIT is sent, so grants already given finish; Ctrl-C sends it early.
--trace T writes a timeline of the run to T, as TRACE does.

Each command is sent after a `WAIT step=0` whose reply says how many steps have been made. Both are one write into a
pipe that has room for them; the daemon reads that as one piece, and lines that arrive together are applied between the
same two steps. The recording is a plain command file with `WAIT step=<n>` in those places, and with the seeds that were
drawn: playing it makes the same steps. Only times differ.

Exit code: the daemon's; 2 for a FILE that cannot be played, or an OUT that cannot be written; 1 if the stream cannot be
shown, and 0 if whoever read it has seen enough (`| head`): both end the daemon.
"""

import argparse
import json
import os
import select
import shlex
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from experiment_file import BadScript, Recording, Timed, parsed, read_script
from paceline.protocol import CANCELLED, DONE, FAILED, YIELD, Frame, FrameReader, Item, Quit

NAMES = {YIELD: "yield", DONE: "done", CANCELLED: "cancelled", FAILED: "failed"}
PER_LINE = 16  # frames shown on a line


class Player:
    """One daemon at the other end of two pipes. All times are seconds after its `ready`."""

    def __init__(self, flags: list[str], recording: Recording) -> None:
        command = [sys.executable, "-m", "paceline.daemon.main", *flags, "--stream", "tagged"]
        pipe = subprocess.PIPE  # a session of its own: Ctrl-C is for us, and becomes a QUIT
        self._daemon = subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0, start_new_session=True)
        assert self._daemon.stdin and self._daemon.stdout
        self._commands, self._frames = self._daemon.stdin, self._daemon.stdout
        self._reader = FrameReader()
        self._recording = recording
        self._ready: float | None = None
        self._alive = True
        self._write(f"{recording.header}\n".encode())

    def play(self, script: list[Timed]) -> None:
        """Writes each line when it is due and there is room; returns when all are written, or the daemon is gone."""
        for due, text in script:
            while self._alive and not (self._now() >= due and self._recording.has_room(text)):
                self._read(due - self._now() if self._recording.has_room(text) else None)
            if not self._alive:
                return
            self.send(text)

    def send(self, text: str, kept: bool = True) -> None:
        if not self._alive:
            return
        print(f"{self._now() * 1e3:10.1f} ms  > {text if len(text) < 100 else text[:99] + '…'}", flush=True)
        self._write(self._recording.add(text, kept))

    def finish(self) -> int:
        self._commands.close()
        while self._alive:
            self._read(None)
        return self._daemon.wait()

    def stop(self) -> None:
        self._daemon.terminate()

    @property
    def started(self) -> bool:
        return self._ready is not None

    def wait_until_ready(self) -> None:
        while self._alive and self._ready is None:
            self._read(None)

    def _now(self) -> float:
        return 0.0 if self._ready is None else time.monotonic() - self._ready

    def _write(self, data: bytes) -> None:
        with suppress(BrokenPipeError):  # the end of its frames will tell
            written = self._commands.write(data)
            assert written == len(data)

    def _read(self, seconds: float | None) -> None:
        """Reads what the daemon says; waits for it `seconds` at most."""
        if not select.select([self._frames], [], [], seconds and max(0.0, seconds))[0]:
            return
        data = os.read(self._frames.fileno(), 1 << 16)
        self._alive = bool(data)
        items = self._reader.feed(data)
        for item in items:
            if self._ready is None:
                self._ready = time.monotonic()
            self._recording.saw(item)
        show(items, self._now())


def show(items: list[Item], now: float) -> None:
    """Frames side by side, as id:token; a message on a line of its own; the steps of our WAITs as their replies
    come."""
    lines: list[str] = []
    frames: list[str] = []
    for item in items:
        if isinstance(item, Frame):
            frames.append(f"{item.req_id}:{NAMES.get(item.value, item.value)}")
        if frames and (not isinstance(item, Frame) or len(frames) == PER_LINE):
            lines.append(" ".join(frames))
            frames = []
        if not isinstance(item, Frame):
            lines.append(describe(item.req_id, item.body))
    lines += [" ".join(frames)] if frames else []
    for line in lines:
        print(f"{now * 1e3:10.1f} ms  {line}", flush=line is lines[-1])


def describe(req_id: int, body: dict[str, Any]) -> str:
    if "event" in body:
        rest = {key: value for key, value in body.items() if key not in ("event", "req")}
        return f"{req_id or ''} {body['event']} {json.dumps(rest)}".lstrip()
    if not body["ok"]:
        return f"= line {body['re']} refused, {body['code']}: {body['error']}"
    rest = {key: value for key, value in body.items() if key not in ("re", "ok")}
    if not body["re"] % 2:  # even lines are our WAITs
        return f"step {body['step']}"
    return f"= line {body['re']} {json.dumps(rest)}"


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form, allow_abbrev=False)
    parser.add_argument("file", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--trace")
    arguments, flags = parser.parse_known_args()
    try:
        script = read_script(arguments.file.read_text(encoding="utf-8").split("\n"))
    except (OSError, UnicodeDecodeError, BadScript) as error:
        print(f"sched_experiment: {arguments.file}: {error}", file=sys.stderr)
        return 2
    try:
        record = arguments.record and arguments.record.open("a", encoding="utf-8")
    except OSError as error:
        print(f"sched_experiment: --record {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    flags = [*([arguments.model] if arguments.model else []), *flags]
    recording = Recording(f"paceline daemon {shlex.join(flags)}")
    player = Player(flags, recording)
    try:
        code = run(player, script, arguments.trace)
    except OSError as error:  # our own output's
        player.stop()
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is left in the buffer, and comes yet
        player.finish()
        code = 0
        if not isinstance(error, BrokenPipeError):
            print(f"sched_experiment: standard output: {error.strerror}", file=sys.stderr)
            code = 1
    if record:
        with record:
            if not player.started:  # nothing was applied, and an earlier recording stays
                return code
            record.truncate(0)
            record.write(recording.text())
    return code


def run(player: Player, script: list[Timed], trace: str | None) -> int:
    """From `ready` to the daemon's exit code."""
    try:
        player.wait_until_ready()
        if trace:
            player.send(f"TRACE on {trace}", kept=False)
        player.play(script)
    except KeyboardInterrupt:
        script = []
    if not script or not isinstance(parsed(script[-1].text), Quit):
        player.send("QUIT")
    try:
        return player.finish()
    except KeyboardInterrupt:
        player.stop()
        return player.finish()


if __name__ == "__main__":
    sys.exit(main())
