"""`paceline bench`, `models` and `completion`."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from gguf import GGUFWriter
from paceline.clients.cli import COMMANDS, main

COMMAND = [sys.executable, "-m", "paceline.clients.cli"]
HEADS = ["tokens", "per", "second", "median", "slowest", "fastest", "per", "row"]
DEMO = ["SmolLM2-135M-Instruct.Q4_1", "98", "MB", "GGUF"]
SMALL = ["--context", "70", "--rows", "1,3", "--tokens", "4", "--rounds", "2"]


def test_bench(tiny_model: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    model = str(tiny_model())
    assert main(["bench", model, *SMALL]) == 0
    out, err = capsys.readouterr()
    title, _, head, *rows = out.splitlines()
    assert (
        title.startswith(Path(model).name) and "prompts of 70 tokens" in title and head.split() == HEADS and err == ""
    )
    assert [row[:20].strip() for row in rows] == ["prefill", "1 row", "3 rows"]
    for row in rows:
        median, slowest, fastest, *_ = (float(word.replace(",", "")) for word in row[20:].split())
        assert 0 < slowest <= median <= fastest
    assert main(["bench", model, *SMALL, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["context"], told["tokens"], told["rounds"], told["path"]) == (70, 4, 2, model)
    assert [(figure["rows"], len(figure["speeds"])) for figure in told["figures"]] == [(0, 2), (1, 2), (3, 2)]


@pytest.mark.parametrize("words", [["--rows", "1,x"], ["--context", "0"], ["a", "b"]])
def test_bench_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["bench", *words])
    assert left.value.code == 2 and "usage: paceline" in capsys.readouterr().err


def test_models(
    tmp_path: Path,
    tiny_model: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["models"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == [
        *DEMO,
        "not",
        "here",
        "yet:",
        "paceline",
        "models",
        "fetch",
        DEMO[0],
    ]
    cache = tmp_path / "paceline"
    (cache / "half.gguf.fetching").mkdir(parents=True)
    (cache / "half.gguf.fetching" / "half.gguf").write_bytes(b"GGUF")
    (cache / "bad.gguf").write_bytes(b"no model")
    (cache / "mine").mkdir()
    shutil.copy(tiny_model(), cache / "mine" / "tiny.gguf")
    assert main(["models"]) == 0
    head, bad, tiny, demo = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head == ["NAME", "SIZE", "FORMAT", "PATH"] and demo[0] == DEMO[0]
    assert bad == ["bad", "0", "MB", "unreadable", str(cache / "bad.gguf")]
    assert (tiny[0], tiny[2], tiny[3], tiny[-1]) == ("tiny", "MB", "GGUF", str(cache / "mine" / "tiny.gguf"))
    assert tiny[-2] == "llama"


def test_a_model_in_several_files_is_one_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "paceline" / "mine[x]"
    folder.mkdir(parents=True)
    for number in range(3):
        write_part(folder / f"big-{number + 1:05}-of-00003.gguf", number)
    write_part(folder / "late-00002-of-00003.gguf", 1)
    assert main(["models"]) == 0
    _, big, late, _ = (line.split() for line in capsys.readouterr().out.splitlines())
    assert big == ["big-00001-of-00003", "6", "MB", "GGUF", "empty,", "llama", str(folder / "big-00001-of-00003.gguf")]
    assert late[:4] == ["late-00002-of-00003", "2", "MB", "unreadable"]  # its first part is missing


def write_part(path: Path, number: int) -> None:
    """Of a model of three; all it holds is two megabytes that nobody reads."""
    writer = GGUFWriter(path, "llama")
    writer.add_uint16("split.no", number)
    writer.add_uint16("split.count", 3)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.truncate(path, 2_000_000)


def test_models_fetch(demo_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], [DEMO[0]]):
        assert main(["models", "fetch", *words]) == 0
        assert capsys.readouterr().out == f"{demo_model}\n"
    assert main(["models", "fetch", "gpt-9"]) == 2
    assert capsys.readouterr().err == f"paceline models: gpt-9: no such name, expected {DEMO[0]}\n"
    assert main(["models", "list", "x"]) == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in (*COMMANDS, "--max-ctx", "--api-key", "avx512", "--top-p"))
    if shutil.which(shell):
        path = tmp_path / "script"
        path.write_text(script)
        subprocess.run([shell, "-n", str(path)], check=True, timeout=20)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("paceline r", ["run"]),
        ("paceline daemon --isa avx", ["avx512", "avxvnni", "avx2"]),
        ("paceline bench --con", ["--context"]),
        ("paceline run --model some", ["some.gguf"]),
    ],
)
def test_completion_in_bash(line: str, expected: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["completion", "bash"]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)
    (tmp_path / "some.gguf").touch()
    words = line.split()
    program = f"""
source ./script
COMP_WORDS=({line}) COMP_CWORD={len(words) - 1} COMP_LINE='{line}' COMP_POINT={len(line)}
complete -p paceline > used
[[ $(< used) =~ -F\\ ([^ ]+) ]] && "${{BASH_REMATCH[1]}}" paceline {words[-1]} {words[-2]}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=20)
    assert (done.stdout.split(), done.stderr) == (expected, "")


def test_starting_up_needs_no_event_loop_and_no_model_library() -> None:
    program = "import sys, paceline.clients.cli; print({'asyncio', 'numpy', 'tokenizers', 'tqdm'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, env=os.environ)
    assert done.stdout == "set()\n", done.stderr
