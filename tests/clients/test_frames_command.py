"""`paceline frames` as a process: canned streams in any pieces, streams that are cut, readers and writers that go
away."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from paceline.protocol import DONE, Frame, Item, Message, encode_tagged, encode_text

COMMAND = [sys.executable, "-m", "paceline.clients.cli", "frames"]
ITEMS: list[Item] = [
    Message(0, {"event": "ready", "protocol": 1, "path": None, "vocab": 32000}),
    Message(1, {"re": 1, "ok": True, "slot": 0}),
    Message(2, {"re": 2, "ok": False, "code": "slot_busy", "error": "slot 0 is taken – é"}),
    *(Frame(1, token) for token in range(5, 9)),
    Message(1, {"event": "end", "req": 1, "reason": "length", "tokens": 4, "tps": 2.0, "ttft_ms": 1.5}),
    Frame(1, DONE),
]
STREAM = encode_tagged(ITEMS)
TEXT = """\
req 2 ✗ slot_busy: slot 0 is taken – é
req 1 │ 5 6 7 8 
req 1 ■ length · 4 tokens · 2.0 tok/s · first token after 1.5 ms
"""


def frames(data: bytes, *words: str) -> tuple[int, str, str]:
    done = subprocess.run([*COMMAND, *words], input=data, capture_output=True, timeout=20)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def started(*words: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen([*COMMAND, *words], stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)


def test_lines_and_text() -> None:
    assert frames(STREAM) == (0, encode_text(ITEMS).decode(), "")
    assert frames(STREAM, "--text") == (0, TEXT, "")
    assert frames(b"") == (0, "", "")


@pytest.mark.parametrize("words", [[], ["--text"]])
@pytest.mark.parametrize("size", [1, 3, 64])
def test_any_pieces_give_the_same(words: list[str], size: int) -> None:
    with started(*words) as process:
        assert process.stdin and process.stdout
        for begin in range(0, len(STREAM), size):
            process.stdin.write(STREAM[begin : begin + size])
        process.stdin.close()
        assert process.stdout.read().decode() == (TEXT if words else encode_text(ITEMS).decode())
    assert process.returncode == 0


def test_every_token_is_shown_at_once() -> None:
    with started("--text") as process:
        assert process.stdin and process.stdout
        process.stdin.write(encode_tagged([Frame(1, 11)]))
        assert process.stdout.read(100).decode() == "req 1 │ 11 "
        process.stdin.write(encode_tagged([Frame(1, 12)]))
        assert process.stdout.read(100) == b"12 "
        process.stdin.write(encode_tagged([Frame(2, 13)]))  # held back, but not for long
        assert process.stdout.read(100).decode() == "\nreq 2 │ 13 "
        process.stdin.close()
        assert process.stdout.read() == b"\n"


@pytest.mark.parametrize("words", [[], ["--text"]])
@pytest.mark.parametrize("data", [STREAM[:-1], STREAM[:-5], STREAM + b"\0", STREAM + b"no frame at all"])
def test_a_broken_stream_is_one_sentence_after_what_was_good(data: bytes, words: list[str]) -> None:
    code, out, err = frames(data, *words)
    assert code == 1
    assert err.startswith("paceline frames: the frame stream is broken at offset ")
    assert err.count("\n") == 1
    good = TEXT if words else encode_text(ITEMS[:-1]).decode()
    assert out.startswith(good)


def test_a_model_that_cannot_be_read_is_said_and_ids_follow(bare_model: Path) -> None:
    for data, words in (
        (STREAM, ["--model", str(bare_model)]),
        (encode_tagged([Message(0, {"event": "ready", "path": str(bare_model)}), *ITEMS[1:]]), []),
    ):
        code, out, err = frames(data, "--text", *words)
        assert (code, out) == (0, TEXT)
        assert "bare.gguf" in err and "token ids follow instead" in err and err.count("\n") == 1


def test_an_id_that_the_model_lacks_is_said_and_shown(demo_model: Path) -> None:
    items = [*(Frame(3, token) for token in (6403, 1980, 200000, 253, 300000)), Frame(3, DONE)]
    code, out, err = frames(encode_tagged(items), "--text", "--model", str(demo_model))
    assert (code, out) == (0, "req 3 │ Once upon[200000] a[300000]\n")
    assert "200000 is no token id, expected 0 to 49151" in err and str(demo_model) in err and err.count("\n") == 1


def test_the_model_of_the_stream_decodes_it(demo_model: Path) -> None:
    ready = Message(0, {"event": "ready", "path": str(demo_model)})
    ids = [6403, 1980, 253, 655]
    code, out, err = frames(encode_tagged([ready, *(Frame(3, token) for token in ids)]), "--text")
    assert (code, out, err) == (0, "req 3 │ Once upon a time\n", "")
    assert frames(encode_tagged([Frame(3, 655)]), "--text", "--model", str(demo_model))[1] == "req 3 │  time\n"


def test_a_reader_that_goes_away_is_no_error() -> None:
    with started() as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdout.close()
        process.stdin.write(STREAM)
        process.stdin.close()
        assert process.wait(10) == 0
        assert process.stderr.read() == b""


def test_the_first_interrupt_leaves_the_last_frames_to_be_read() -> None:
    with started("--text") as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(encode_tagged([Frame(1, 11)]))
        process.stdout.read(100)
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        process.stdin.write(encode_tagged(ITEMS[-2:]))
        assert process.stdout.read(200).decode().startswith("\nreq 1 ■ length")
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        assert process.stderr.read() == b""


def test_it_starts_quickly_and_without_array_libraries() -> None:
    code = "import sys, paceline.clients.cli as c; c.main(['frames']); "
    code += "print(*sorted({'numpy', 'gguf', 'tokenizers', 'jinja2'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, env=os.environ)
    assert done.stdout == b"\n"
