"""`paceline run` on the demo model: in a pipe, on a terminal, interrupted, and what it refuses."""

import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from paceline.clients import Client
from paceline.clients.cli import main

from ..procfs import children, is_running

RUN = [sys.executable, "-m", "paceline.clients.cli", "run"]
SECONDS = 60


def run(*words: str, data: bytes | None = None) -> tuple[int, str, str]:
    given = {"stdin": subprocess.DEVNULL} if data is None else {"input": data}
    done = subprocess.run([*RUN, *words], capture_output=True, timeout=SECONDS, **given)  # type: ignore[call-overload]
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture(scope="module")
def client(demo_model: Path) -> Iterator[Client]:
    with Client.spawn([str(demo_model)]) as client:
        yield client


def said(client: Client, *messages: tuple[str, str], **options: float) -> str:
    prompt = [{"role": role, "content": text} for role, text in messages]
    answer = "".join(piece.text for piece in client.generate(prompt, 16, **options))  # type: ignore[arg-type]
    return answer if answer.endswith("\n") else answer + "\n"


def test_in_a_pipe_there_is_the_answer_and_nothing_else(client: Client) -> None:
    assert run("-n", "16", "Name", "three rivers.") == (0, said(client, ("user", "Name three rivers.")), "")


def test_what_comes_through_a_pipe_is_the_prompt_or_goes_behind_it(client: Client) -> None:
    words = ["-n16", "--system", "Be brief.", "--temp", "0.8", "--seed", "3"]
    expected = said(client, ("system", "Be brief."), ("user", "Sum up:\n\nA cat sat.\n"), temp=0.8, seed=3)
    assert run(*words, "Sum up:", data=b"A cat sat.\n") == (0, expected, "")
    assert run(*words, data=b"Sum up:\n\nA cat sat.\n") == (0, expected, "")


def test_where_a_letter_cannot_be_written_the_answer_goes_on(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = "Un café à Paris, s’il vous plaît: l’été, la forêt, le garçon, "
    answer = "".join(piece.text for piece in client.generate(prompt, 12))
    assert not answer.isascii()
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    assert run("--raw", "-n12", prompt) == (0, answer.encode("ascii", "replace").decode() + "\n", "")


def test_a_text_goes_on_until_a_stop_string(client: Client) -> None:
    whole = "".join(piece.text for piece in client.generate("Once upon a time", 16))
    stop = whole[9:14]
    assert run("--raw", "--stop", stop, "Once upon a time") == (0, whole[: whole.index(stop)] + "\n", "")


def test_an_interrupt_cancels_and_leaves_no_process() -> None:
    with subprocess.Popen(
        [*RUN, "--raw", "--stop", "never said", "1, 2, 3,"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdout.read(1)  # it streams
        (child,) = children(process.pid)
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 130
        assert time.monotonic() - begun < 5
    assert not is_running(child)


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    line = " ".join(RUN) + " --raw 'Once upon a time' | head -c 5"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, timeout=SECONDS, text=True)
    assert (done.returncode, len(done.stdout), done.stderr) == (0, 5, "")


def test_on_a_terminal_there_are_bars_and_figures() -> None:
    ours, theirs = os.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    numbers = " ".join(map(str, range(700)))
    with subprocess.Popen([*RUN, "-n4", numbers], stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        text = b""
        while data := read(ours):
            text += data
    os.close(ours)
    assert process.returncode == 0
    shown = text.decode()
    assert "loading: " in shown and re.search(r"prefilling: +\d+%", shown)
    assert re.search(r"\d+ \+ 4 tokens · first token after \d+ ms · [\d.]+ tokens per second · length\r\n$", shown)


def test_a_server_on_a_terminal_shows_how_it_loads() -> None:
    ours, theirs = os.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    command = [*RUN[:-1], "serve", "--port", "0"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        text = b""
        while b": ready: " not in text and (data := read(ours)):
            text += data
        process.send_signal(signal.SIGINT)
        while read(ours):
            pass
    os.close(ours)
    assert b"loading: " in text and b": ready: " in text


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (signal.SIGTERM, b"cancelled: the daemon was told to end\n"),
        (signal.SIGKILL, b"its frame stream has ended; the daemon ended with exit code -9\n"),
    ],
)
def test_a_daemon_that_ends_is_no_short_answer(end: signal.Signals, said: bytes) -> None:
    with subprocess.Popen(
        [*RUN, "--raw", "1, 2, 3,"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout and process.stderr
        assert process.stdout.read(1)
        (child,) = children(process.pid)
        os.kill(child, end)
        assert process.wait(SECONDS) == 70
        assert process.stderr.read() == b"paceline run: " + said


def test_a_daemon_that_dies_while_its_progress_is_asked_for_is_one_sentence() -> None:
    ours, theirs = os.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    numbers = " ".join(map(str, range(700)))
    with subprocess.Popen([*RUN, "--raw", numbers], stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        text = b""
        while b"prefilling: " not in text and (data := read(ours)):
            text += data
        (child,) = children(process.pid)
        os.kill(child, signal.SIGSTOP)
        time.sleep(0.5)  # it is asked again, and does not answer
        os.kill(child, signal.SIGKILL)
        while data := read(ours):
            text += data
    os.close(ours)
    assert process.returncode == 70
    assert b"the daemon ended with exit code -9" in text and b"Task exception" not in text


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        ([], 2, "no prompt, expected PROMPT or a text on standard input"),
        (["--raw", "--system", "S", "x"], 2, "--system does not go with --raw"),
        (["-n", "0", "x"], 2, "--max-tokens: 0, expected at least 1"),
        (["--model", "/nowhere.gguf", "x"], 66, "/nowhere.gguf"),
        (["--temp", "-1", "x"], 2, "temp '-1.0' is no number from 0 up"),
        (["--max-ctx", "8", "-n", "99", "x"], 2, "context_overflow: "),
    ],
)
def test_what_is_wrong_is_one_sentence(words: list[str], code: int, error: str) -> None:
    found, out, err = run(*words)
    assert (found, out) == (code, "")
    assert error in err and err.count("\n") == 1
    assert err.startswith("paceline: cannot" if code == 66 else "paceline run: ")  # the first one is the daemon's
    assert "REQ <id>" not in err


def test_a_model_s_path_is_no_prompt(demo_model: Path) -> None:
    code, out, err = run(str(demo_model), "hello")
    assert (code, out, err) == (2, "", f"paceline run: {demo_model} is a file: expected --model before it\n")


def test_a_daemon_that_cannot_start_says_so_itself() -> None:
    code, out, err = run("--threads", "none", "x")
    assert (code, out) == (2, "") and "--threads" in err and "Traceback" not in err


def test_a_model_without_a_tokenizer(bare_model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--model", str(bare_model), "x"]) == 66
    assert "Traceback" not in capfd.readouterr().err


def test_a_model_without_a_template(silent_model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--model", str(silent_model), "-n1", "x"]
    assert main(words) == 66
    said = f"{silent_model} has no chat template, expected the key 'tokenizer.chat_template'"
    assert capfd.readouterr().err == f"paceline run: {said}\n"
    assert main([*words, "--raw"]) == 0
