"""SAVE and LOAD through the session: to a file and back, and files that cannot be."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from driver import alone, tokens_of
from paceline.daemon import snapshot_files
from paceline.daemon.plan import Seat
from paceline.protocol import Refusal
from snapshot_driver import LONG, driver, ids


@pytest.mark.parametrize("recurrent", [False, True])
def test_to_a_file_and_back(recurrent: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.snapshot"
    one = driver(recurrent)
    one.send(f"REQ 1 START ids:{LONG} 60 5")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    saved = one.reply(f"SAVE a {path}")
    assert saved["ok"] and saved["position"] == 154
    assert [file.name for file in tmp_path.iterdir()] == ["a.snapshot"]

    other = driver(recurrent)
    assert other.reply(f"LOAD b {path}") == {"re": 1, "ok": True, "position": 154, "bytes": saved["bytes"]}
    prompt = ids(LONG, [*tokens_of(one.items, 1), 7])
    other.send(f"REQ 2 RESTORE b ids:{prompt} 9")
    other.run()
    assert tokens_of(other.items, 2) == alone(f"REQ 1 START ids:{prompt} 9")
    assert not any(isinstance(move, Seat) for plan in one.plans for move in plan.moves)


def test_a_link_is_followed_and_a_mode_kept(tmp_path: Path) -> None:
    one = driver()
    one.send("REQ 1 START ids:1,2,3 9 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    link, target = tmp_path / "link", tmp_path / "folder" / "target"
    target.parent.mkdir()
    link.symlink_to(target)
    assert one.reply(f"SAVE a {link}")["ok"]
    target.chmod(0o600)
    old = target.read_bytes()
    assert one.reply(f"SAVE a {link}")["ok"]
    assert link.is_symlink() and target.read_bytes() == old
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    for path in (f"{target}/", f"{target}/.", f"{tmp_path}/new/", f"{tmp_path}/none/../new"):
        assert "expected a file that can be written" in one.reply(f"SAVE a {path}")["error"]
    assert target.read_bytes() == old and not (tmp_path / "new").exists()
    link.unlink()
    link.symlink_to(link)
    assert "Too many levels" in one.reply(f"SAVE a {link}")["error"]


def test_a_file_of_another_model_is_refused(tmp_path: Path) -> None:
    one, other = driver(), driver(recurrent=True)
    one.send("REQ 1 START ids:1,2,3 9 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    one.send(f"SAVE a {tmp_path}/a")
    reply = other.reply(f"LOAD a {tmp_path}/a")
    assert reply["code"] == "snapshot_mismatch" and "saved of another model" in reply["error"]


def test_an_engine_without_files(tmp_path: Path) -> None:
    one = driver()
    one.engine.info = replace(one.engine.info, fingerprint="")  # type: ignore[misc]
    one.session.info = one.engine.info
    one.send("REQ 1 START ids:1,2,3 9 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    assert one.reply(f"SAVE a {tmp_path}/a")["code"] == "unsupported"
    assert one.reply(f"LOAD a {tmp_path}/a")["code"] == "unsupported"


def test_files_that_cannot_be(tmp_path: Path) -> None:
    one = driver(slots=1, pages=4)
    one.send("REQ 1 START ids:1,2,3 9 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    for line, sentence in (
        (f"SAVE a {tmp_path}/no/a", "No such file or directory; expected a file that can be written"),
        (f"SAVE a {tmp_path}", "is no regular file"),
        (f"LOAD a {tmp_path}", "Is a directory; expected"),
        ("LOAD a /dev/null", "is no regular file"),
        (f"LOAD a {tmp_path}/no", "No such file or directory; expected a file that SAVE"),
    ):
        reply = one.reply(line)
        assert reply["code"] == "bad_argument" and sentence in reply["error"], line
    (tmp_path / "big").write_bytes(bytes(1 << 25))
    assert one.reply(f"LOAD a {tmp_path}/big")["code"] == "kv_budget"


def test_a_file_that_does_not_fit_now(tmp_path: Path) -> None:
    for recurrent in (False, True):
        one = driver(recurrent, slots=2, pages=4, states=1)
        one.send(f"REQ 1 START ids:{LONG} 2 1")
        one.run()
        one.send("SLOT 0 SNAPSHOT a")
        one.send(f"SAVE a {tmp_path}/a")
        one.send("REQ 2 START ids:9 2 1")
        one.run()
        reply = one.reply(f"LOAD b {tmp_path}/a")
        assert reply["code"] == "kv_budget" and "retry" in reply["error"]
        one.send("CANCEL 1")
        one.send("CANCEL 2")
        if recurrent:
            one.send("FREE_SNAPSHOT a")
            one.send("REQ 3 START ids:1 1 snap=1:b")
            one.run()
            assert "snapshots hold all" in one.reply(f"LOAD c {tmp_path}/a")["error"]
        one.session.check()


def test_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    one = driver()
    one.send("REQ 1 START ids:1,2,3 9 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    name = "n" * os.pathconf(tmp_path, "PC_NAME_MAX")
    assert one.reply(f"SAVE a {tmp_path}/{name}")["ok"]
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert one.reply(f"LOAD b {tmp_path}/{name}")["ok"]


@pytest.mark.parametrize("command", ["SAVE", "LOAD"])
def test_a_long_path_is_not_repeated_in_full(command: str) -> None:
    one = driver()
    one.send("REQ 1 START ids:1,2,3 9 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    error = one.reply(f"{command} a /{'n' * 5000}")["error"]
    assert error.startswith(f"path /{'n' * 199}…: File name too long; expected")


def test_a_path_that_the_system_cannot_spell(tmp_path: Path) -> None:
    one = driver()
    one.send("REQ 1 START ids:1,2,3 9 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    path = f"{tmp_path}/\ud800"  # to UTF-8 what most letters are to ASCII
    saved = snapshot_files.take_out(one.session.lifecycle.cache.snapshots.find("a"), one.engine)
    with pytest.raises(Refusal, match=r"bad_argument: .* can't encode .* a file that can be written"):
        snapshot_files.write_snapshot(path, saved, one.engine.info)
    with pytest.raises(Refusal, match=r"bad_argument: .* can't encode .* a file that SAVE has written"):
        snapshot_files.read_snapshot(path, one.engine.info, one.session.limits)
    assert not list(tmp_path.iterdir())


def test_what_a_file_held_does_not_wait_for_a_step(tmp_path: Path) -> None:
    one = driver()
    one.send(f"REQ 1 START ids:{LONG} 9 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    one.send(f"SAVE a {tmp_path}/a")
    assert one.reply(f"LOAD b {tmp_path}/a")["ok"]
    assert not one.session.lifecycle.cache.moves


def test_no_memory_for_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = driver()
    one.send("REQ 1 START ids:1,2,3 9 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    one.send(f"SAVE a {tmp_path}/a")

    def no_memory(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(one.engine, "read_page", no_memory)
    monkeypatch.setattr(snapshot_files, "decode", no_memory)
    for line in (f"SAVE a {tmp_path}/b", f"LOAD b {tmp_path}/a"):
        reply = one.reply(line)
        assert reply["code"] == "kv_budget" and "retry when there is" in reply["error"]
    assert [file.name for file in tmp_path.iterdir()] == ["a"]
