"""The `paceline` command: encode, help, version, and the pipeline of the README on the null engine."""

import os
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from paceline.clients.cli import COMMANDS, main

COMMAND = [sys.executable, "-m", "paceline.clients.cli"]


def paceline(*words: str | bytes, data: bytes = b"") -> tuple[int, str, str]:
    done = subprocess.run([*COMMAND, *words], input=data, capture_output=True, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture
def encoded(
    demo_model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """What `paceline encode` prints, without a process of its own."""

    def run(*words: str, data: str = "") -> str:
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(data.encode())))
        assert main(["encode", "--model", str(demo_model), *words]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return run


def test_encode_as_a_process(demo_model: Path) -> None:
    words = ["encode", "--model", str(demo_model)]
    assert paceline(*words, "Once upon a time") == (0, "6403,1980,253,655\n", "")
    assert paceline(*words, "-", data=b"Once upon a time") == (0, "6403,1980,253,655\n", "")


def test_encode(encoded: Callable[..., str]) -> None:
    assert encoded("Once", "upon", "a", "time") == "6403,1980,253,655\n"
    assert encoded("-", data="time\n").count(",") == 1
    assert encoded("") == "\n"
    assert encoded("<|im_end|>") == "2\n"
    assert "," in encoded("--plain", "<|im_end|>")


def test_encode_as_a_conversation(encoded: Callable[..., str]) -> None:
    spelled = "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi you<|im_end|>\n<|im_start|>assistant\n"
    assert encoded("--chat", "--system", "S", "Hi", "you") == encoded("-", data=spelled)
    assert encoded("--chat", "Hi").startswith("1,")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--system", "S", "x"], 2, "paceline encode: --system goes with --chat\n"),
        (["--plain", "--chat", "x"], 2, "paceline encode: --plain does not go with --chat: "),
        ([b"a\xff"], 2, "paceline encode: the text is not UTF-8: "),
        (["--chat", "--system", b"\xff", "x"], 2, "paceline encode: the text is not UTF-8: "),
        (["--model", "/nowhere.gguf", "x"], 66, "/nowhere.gguf"),
        (["--model", __file__, "x"], 66, "it is no GGUF file"),
    ],
)
def test_encode_says_what_is_wrong_in_one_sentence(words: list[str | bytes], code: int, said: str) -> None:
    found, out, err = paceline("encode", *words)
    assert (found, out) == (code, "")
    assert err.startswith("paceline encode: ") and said in err and err.count("\n") == 1


def closing(closed: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Of a shell that closes a descriptor, or turns one elsewhere."""
    line = ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, *words]
    return subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)


def test_what_a_shell_closes_or_cannot_hold(demo_model: Path) -> None:
    encode = ("encode", "--model", str(demo_model))
    assert closing("<&-", *encode, "-").returncode == 0
    without = closing("2>&-", *encode, "Once upon a time")
    assert (without.returncode, without.stdout) == (0, b"6403,1980,253,655\n")
    lost = closing(">&-", *encode, "Hi")
    assert (lost.returncode, lost.stderr) == (74, b"paceline: standard output is closed\n")
    full = closing(">/dev/full", *encode, "Hi")
    assert (full.returncode, full.stderr) == (74, b"paceline: [Errno 28] No space left on device\n")
    assert closing(">&-", "daemon", "--engine", "null").returncode == 74
    assert closing("2>&-", "daemon", "--engine", "null").returncode == 0


@pytest.mark.parametrize("opened", [os.pipe, os.openpty])
def test_errors_that_nobody_reads_do_not_change_the_exit_code(opened: Callable[[], tuple[int, int]]) -> None:
    """What could not be written waits in Python's buffer, is tried again at exit, and would make it 120."""
    code = "import sys\nfrom paceline.clients.cli import main\n"
    code += "try:\n print('unread', file=sys.stderr)\nexcept OSError:\n sys.exit(main(['completion', 'bash']))\n"
    source, target = opened()
    os.close(source)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    try:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=target, env=buffered, timeout=60)
    finally:
        os.close(target)
    assert done.returncode == 0
    assert b"paceline" in done.stdout


@pytest.mark.parametrize("words", [[], ["--chat"]])
def test_encode_without_a_tokenizer(bare_model: Path, words: list[str]) -> None:
    code, out, err = paceline("encode", "--model", str(bare_model), *words, "x")
    assert (code, out) == (66, "") and "its tokenizer model is 'none'" in err and err.count("\n") == 1


@pytest.mark.parametrize("words", [[], *([name] for name in COMMANDS)])
def test_help_has_examples(words: list[str]) -> None:
    code, out, err = paceline(*words, "--help")
    assert (code, err) == (0, "")
    assert "paceline" in out.partition("\n\n")[2]
    assert out.startswith("usage: " + " ".join(["paceline", *words]))


def test_version_and_usage() -> None:
    assert paceline("--version")[1].startswith("paceline ")
    for words in ([], ["fly"], ["frames", "--tex"], ["daemon", "--slotz", "4"]):
        code, out, err = paceline(*words)
        assert (code, out) == (2, "") and "usage: paceline" in err


def test_the_pipeline() -> None:
    run = " ".join(COMMAND)
    line = f"printf 'REQ 1 START ids:%s 5\\nREQ 1 WALK\\n' 1,2,3 | {run} daemon --engine null | {run} frames --text"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, timeout=60, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout.splitlines()
    assert said[0].startswith("req 1 ✗ bad_command: ")
    assert said[1].startswith("req 1 │ ") and len(said[1].split()) == 8
    assert said[2].startswith("req 1 ■ length · 5 tokens · ")


def test_daemon_passes_its_flags_and_its_exit_code_on() -> None:
    code, out, _ = paceline("daemon", "--engine", "null", "--slots", "3", "--stream", "text", data=b"QUIT\n")
    assert code == 0 and '"slots":3' in out
    assert paceline("daemon", "/nowhere.gguf")[0] == 66
