"""Whatever is written to stdin: a clear reply, or none for what is no command, and the other requests unharmed."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from paceline.protocol import CODES, DONE, LineReader, Message

from ..procfs import resident_bytes
from .process import Process
from .test_conversation import expected


def replies(daemon: Process) -> list[dict[str, object]]:
    return [item.body for item in daemon.items if isinstance(item, Message) and "re" in item.body]


def test_binary_garbage() -> None:
    garbage = random.Random(7).randbytes(300_000) + b"\n"
    owed = [line.number for line in LineReader().feed(garbage)]
    with Process() as daemon:
        daemon.send("REQ 1 START ids:1,2 300 5 ", "SCHED_DRAIN")
        daemon.write(garbage)
        assert daemon.finish() == 0
        bodies = replies(daemon)
        assert [body["re"] for body in bodies] == [1, 2, *(number + 2 for number in owed)]
        assert all(body["ok"] is False and body["code"] in CODES for body in bodies[2:])
        assert daemon.tokens(1) == expected([1, 2], 300)
        assert daemon.log() == ""


def test_a_line_of_ten_mebibytes() -> None:
    with Process() as daemon:
        daemon.send("REQ 1 START ids:1,2 50")
        for piece in (b"REQ 2 START ids:", b"1," * (5 << 20), b"1 5\n"):
            daemon.write(piece)
        daemon.send("PING after")
        reply = daemon.reply(2)
        assert (reply["ok"], reply["code"]) == (False, "line_too_long")
        assert daemon.reply(3)["pong"] == "after"
        assert resident_bytes(daemon.popen.pid) < 80 << 20
        assert daemon.finish() == 0
        assert daemon.tokens(1) == expected([1, 2], 50)


LINES = [
    ("SING", "bad_command", "'SING'"),
    ("\x00\x01", "bad_command", "no command"),
    ("REQ 1", "bad_command", "no command"),
    ("REQUESTING 1 PING", "bad_command", "'REQUESTING'"),
    ("REQ 0 PING", "bad_argument", "'0'"),
    ("REQ 1073741824 PING", "bad_argument", "'1073741824'"),
    ("REQ -1 CANCEL", "bad_argument", "'-1'"),
    ("REQ 99999999999999999999999999 PING", "bad_argument", "99999"),
    ("START ids:1 5", "bad_argument", "REQ"),
    ("REQ 1 START ids:1", "bad_argument", "too early"),
    ("REQ 1 START ids:1 0", "bad_argument", "'0'"),
    ("REQ 1 START ids:1 5 0", "bad_argument", "'0'"),
    ("REQ 1 START ids:1 5 5 5", "bad_argument", "'5'"),
    ("REQ 1 START ids:1 5 tmp=1", "bad_argument", "'tmp=1'"),
    ("REQ 1 START ids:1 5 temp=1 temp=1", "bad_argument", "second time"),
    ("REQ 1 START ids:1 5 temp=nan", "bad_argument", "nan"),
    ("REQ 1 START ids:1,,2 5", "prompt_bad_token", "token 1"),
    ("REQ 1 START ids:-4 5", "prompt_bad_token", "'-4'"),
    ("REQ 1 START ids:32000 5", "prompt_bad_token", "32000"),
    ("REQ 1 START ids:3000000000 5", "prompt_bad_token", "3000000000"),
    ("REQ 1 START ids: 5", "prompt_empty", "no token ids"),
    ("REQ 1 START ids:1 5000", "context_overflow", "5001: the context is 4096"),
    ("REQ 1 SLOT 4 START ids:1 5", "no_such_slot", "slot 4"),
    ("SLOT 1024 REQ 1 CONTINUE 5", "no_such_slot", "slot 1024"),
    ("REQ 1 CONTINUE 5", "not_active", "request 1"),
    ("CONTINUE 5", "bad_argument", "REQ"),
    ("CANCEL", "bad_argument", "names no request"),
    ("SCHED_BATCH_PEEK 0", "bad_argument", "'0'"),
    ("SCHED_AUTO maybe", "bad_argument", "'maybe'"),
    ("HELP ME", "bad_argument", "'ME'"),
    ("QUIT NOW", "bad_argument", "'NOW'"),
    ("SLOT 1 LIST_SLOTS", "bad_argument", "SLOT"),
]


def test_lines_that_are_wrong() -> None:
    with Process() as daemon:
        daemon.send(*(line for line, _, _ in LINES), "REQ 1 START ids:1 5")
        for number, (line, code, word) in enumerate(LINES, 1):
            reply = daemon.reply(number)
            assert (reply["ok"], reply["code"]) == (False, code), line
            assert word in reply["error"], line
        assert daemon.finish() == 0
        assert daemon.tokens(1) == expected([1], 5)


def test_a_refusal_is_tagged_with_the_request_that_was_named() -> None:
    with Process() as daemon:
        daemon.send("REQ 77 SING", "REQ 78 START /no/such/file 5", "REQ 79 CONTINUE 4")
        daemon.reply(3)
        assert [item.req_id for item in daemon.items[1:]] == [77, 78, 79]


def test_bytes_that_are_no_text_and_a_line_without_its_end() -> None:
    with Process() as daemon:
        daemon.write(b"PING \xff\xfe\nREQ 1 START ids:1 5")
        assert daemon.finish() == 0
        assert [body["code"] for body in replies(daemon)] == ["bad_utf8", "unfinished_line"]


def test_a_longer_line_may_be_allowed_or_a_shorter_one() -> None:
    with Process("--max-line", "40") as daemon:
        daemon.send("PING " + "x" * 35, "PING " + "x" * 36)
        assert daemon.reply(1)["ok"]
        assert daemon.reply(2)["code"] == "line_too_long"


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    (tmp_path / "good").write_bytes(struct.pack("<3i", 6403, 1980, 253))
    (tmp_path / "empty").touch()
    (tmp_path / "odd").write_bytes(b"12345")
    (tmp_path / "negative").write_bytes(struct.pack("<2i", 5, -1))
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 36)
    (tmp_path / "long").write_bytes(bytes(4 * 4000))
    return tmp_path


FILES = [
    ("missing", "prompt_unreadable", "No such file"),
    ("empty", "prompt_empty", "is empty"),
    ("odd", "prompt_unreadable", "5 bytes are no whole number"),
    ("negative", "prompt_bad_token", "prompt token 1 is -1"),
    ("folder", "prompt_unreadable", "no regular file"),
    ("fifo", "prompt_unreadable", "no regular file"),
    ("good/more", "prompt_unreadable", "Not a directory"),
    ("huge", "context_overflow", "17179869184 ids, and the context holds 4096"),
    ("long", "context_overflow", "4000 tokens of prompt and 100 to come make 4100"),
    ("x" * 5000, "prompt_unreadable", "name too long"),
    ("a\x00b", "bad_argument", "control character"),
]


def test_prompt_files(prompts: Path) -> None:
    with Process() as daemon:
        daemon.send(*(f"REQ 1 START {prompts / name} 100" for name, _, _ in FILES))
        daemon.send("REQ 1 START /dev/zero 100", f"REQ 1 START {prompts / 'good'} 5")
        for number, (name, code, word) in enumerate(FILES, 1):
            reply = daemon.reply(number)
            assert (reply["ok"], reply["code"]) == (False, code), name
            assert word in reply["error"], name
            assert len(reply["error"]) < 600
        assert daemon.reply(len(FILES) + 1)["code"] == "prompt_unreadable"
        assert daemon.reply(len(FILES) + 2)["prompt_tokens"] == 3
        assert daemon.finish() == 0
        assert daemon.tokens(1) == expected([6403, 1980, 253], 5)
        assert daemon.terminals(1) == [DONE]
        assert daemon.log() == ""


@pytest.mark.parametrize("content", ["empty", "text", "magic", "truncated"])
def test_a_model_that_is_none(content: str, tmp_path: Path) -> None:
    header = struct.pack("<4sIQQ", b"GGUF", 3, 5, 5)
    contents = {"empty": b"", "text": b"# a readme\n" * 99, "magic": b"GGUF", "truncated": header + bytes(40)}
    path = tmp_path / "model.gguf"
    path.write_bytes(contents[content])
    with Process(str(path), engine="cpu") as daemon:
        daemon.send("REQ 1 START ids:1 5")
        assert daemon.read_to_end() == 66
        log = daemon.log()
        assert daemon.items == []
        assert log.startswith("paceline: cannot read the model") and log.count("\n") == 1
        assert str(path) in log


def test_what_the_reference_cannot_do_is_refused_at_once(tiny_model: Callable[..., Path]) -> None:
    with Process(str(tiny_model()), engine="reference") as daemon:
        daemon.send("REQ 1 START ids:1,2 3 temp=1", "REQ 1 START ids:1,2 3 logprobs=2", "REQ 1 START ids:1,2 3 hash=1")
        assert [daemon.reply(line).get("code") for line in (1, 2, 3)] == ["unsupported", "unsupported", None]
        assert daemon.finish() == 0
        assert daemon.terminals(1) == [DONE]


def test_the_reference_has_no_pages_to_share(tiny_model: Callable[..., Path]) -> None:
    prompt = "ids:" + ",".join(map(str, range(40)))
    with Process(str(tiny_model()), engine="reference") as daemon:
        daemon.send(f"REQ 1 START {prompt} 3", f"REQ 2 START {prompt} 3")
        assert daemon.finish() == 0
        assert len(daemon.tokens(1)) == 3 and daemon.tokens(1) == daemon.tokens(2)
        ends = [item.body for item in daemon.items if isinstance(item, Message) and item.body.get("event") == "end"]
        assert [end["cached_tokens"] for end in ends] == [0, 0]


def test_a_bad_line_is_answered_with_its_tag() -> None:
    with Process("--max-line", "50") as daemon:
        daemon.write(b"REQ 3 PING " + b"x" * 90 + b"\nREQ 4 PING \xff\nREQ 5 PING x")
        assert daemon.finish() == 0
        refusals = [item for item in daemon.items if isinstance(item, Message) and "re" in item.body]
        tags = [(item.req_id, item.body["code"]) for item in refusals]
        assert tags == [(3, "line_too_long"), (4, "bad_utf8"), (5, "unfinished_line")]
