"""Prompts in files: read whole, or refused with a reason and without a trace."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from paceline.daemon import prompts
from paceline.daemon.prompts import read_prompt
from paceline.protocol import Ids, Refusal


def write(folder: Path, data: bytes) -> str:
    path = folder / "prompt"
    path.write_bytes(data)
    return str(path)


def refused(path: str, context: int = 10) -> tuple[str, str]:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with pytest.raises(Refusal) as caught:
        read_prompt(path, context)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    return caught.value.code, caught.value.error


def test_ids_are_little_endian(tmp_path: Path) -> None:
    assert read_prompt(write(tmp_path, struct.pack("<3i", 1, -1, 1 << 30)), 3) == Ids((1, -1, 1 << 30))


def test_they_are_so_on_any_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.byteorder", "big")
    assert read_prompt(write(tmp_path, struct.pack(">2i", 7, 8)), 2) == Ids((7, 8))


def test_what_is_refused(tmp_path: Path) -> None:
    assert refused(write(tmp_path, b""))[0] == "prompt_empty"
    assert refused(write(tmp_path, b"123"))[1].endswith("3 bytes are no whole number of int32 ids")
    code, error = refused(write(tmp_path, bytes(44)))
    assert (code, error.partition(": ")[2]) == ("context_overflow", "it holds 11 ids, and the context holds 10")
    assert refused(str(tmp_path)) == ("prompt_unreadable", refused(str(tmp_path))[1])
    assert "No such file" in refused(str(tmp_path / "none"))[1]
    assert "embedded null" in refused("a\x00b")[1]
    assert len(refused("y" * 100_000)[1]) < 400


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert "no regular file" in refused(str(tmp_path / "fifo"))[1]


def test_a_file_that_becomes_a_pipe_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, bytes(8))
    os.mkfifo(tmp_path / "fifo")
    opened = os.open

    def swapped(_: str, flags: int) -> int:
        return opened(tmp_path / "fifo", flags)

    monkeypatch.setattr(prompts.os, "open", swapped)
    assert "no regular file any more" in refused(path)[1]


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = iter([bytes(4), bytes(2), b""])
    monkeypatch.setattr(prompts.os, "read", lambda descriptor, size: next(pieces))
    assert "6 bytes are no whole number" in refused(write(tmp_path, bytes(8)))[1]
