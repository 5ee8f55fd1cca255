"""For sched_experiment.py: the file that it plays, and the recording that it makes."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from paceline.protocol import Command, Frame, Item, Quit, Refusal, Restore, Start, parse

TIME = re.compile(r"@(\+?)([0-9]+(?:\.[0-9]+)?)(ms|s)")
ROOM = 24_000
"""Bytes that may be on their way to the daemon. A pipe has 16 pages of 4096 bytes, and a write may leave up to half a
page unused, so this much always fits, and no write blocks or is split."""
MOST_LINES = 400  # that may be on their way; the daemon applies up to 1024 between two steps
LONGEST = 60_000  # bytes of one line, which then has the pipe to itself
LATEST = 10**6  # seconds


class Timed(NamedTuple):
    """A command and when it is due, in seconds after `ready`."""

    due: float
    text: str


@dataclass(slots=True)
class Sent:
    text: str
    command: Command | None  # None: the daemon will refuse it
    step: int | None = None
    seed: int | None = None
    kept: bool = True  # False: as a comment only


class BadScript(Exception):
    """A file that cannot be played; the message names the line."""


def read_script(lines: Iterable[str]) -> list[Timed]:
    script: list[Timed] = []
    due = Decimal(0)  # not a float, which would make @7ms @+1ms @+1ms later than @9ms
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if script and isinstance(parsed(script[-1].text), Quit):
            raise BadScript(f"line {number}: nothing is read after QUIT")
        if text.startswith("@"):
            word, *rest = text.split(maxsplit=1)
            match = TIME.fullmatch(word)
            if match is None:
                raise BadScript(f"line {number}: {word!r} is no time; expected @120ms, @1.5s or @+10ms")
            seconds = Decimal(match[2]) / (1000 if match[3] == "ms" else 1)
            if not match[1] and seconds < due:
                above = f"{float(due * 1000):g} ms"
                raise BadScript(f"line {number}: {word} is before the line above it, which is due at {above}")
            due = due + seconds if match[1] else seconds
            if due > LATEST:
                raise BadScript(f"line {number}: {word} is later than {LATEST} s after the start")
            text = rest[0] if rest else ""
        if not text or text.startswith("#"):
            raise BadScript(f"line {number}: a time without a command")
        if len(text.encode()) > LONGEST:
            raise BadScript(f"line {number} is longer than {LONGEST} bytes; expected its prompt in a file")
        script.append(Timed(float(due), text))
    return script


def parsed(text: str) -> Command | None:
    try:
        return parse(text)
    except Refusal:
        return None


class Recording:
    """What was sent, and what came of it. Line 1 is a comment; then come pairs of a WAIT and a command."""

    def __init__(self, header: str) -> None:
        self.header = f"# {header}"
        self.sent: list[Sent] = []
        self._started: dict[int, Sent] = {}  # live requests
        self._open: dict[int, int] = {}  # line not yet answered -> bytes of its pair

    def add(self, text: str, kept: bool = True) -> bytes:
        """The pair to write."""
        self.sent.append(Sent(text, parsed(text), kept=kept))
        pair = f"WAIT step=0\n{text}\n".encode()
        self._open[1 + 2 * len(self.sent)] = len(pair)
        return pair

    def has_room(self, text: str) -> bool:
        """Whether a pair may be written now."""
        size = len(text.encode()) + 13
        return not self._open or (sum(self._open.values()) + size <= ROOM and len(self._open) < MOST_LINES)

    def saw(self, item: Item) -> None:
        if isinstance(item, Frame):
            return
        body = item.body
        if "re" in body:
            index, is_command = divmod(body["re"] - 2, 2)
            if not is_command:
                self.sent[index].step = body.get("step")  # none after a fault
                return
            del self._open[body["re"]]
            if body["ok"] and isinstance(self.sent[index].command, Start | Restore):
                self._started[item.req_id] = self.sent[index]
        elif body["event"] == "end" and (sent := self._started.pop(body["req"], None)):
            assert isinstance(sent.command, Start | Restore)
            if sent.command.options.sampling.seed is None:
                sent.seed = body["seed"]

    def text(self) -> str:
        """The text up to the first line whose step is unknown: by then the daemon was gone."""
        lines = [self.header]
        for sent in self.sent:
            if sent.step is None:
                break
            text = sent.text if sent.seed is None else f"{sent.text} seed={sent.seed}"
            lines += [f"WAIT step={sent.step}" if sent.kept else "#", text if sent.kept else f"# {text}"]
        return "\n".join(lines) + "\n"
