"""Snapshots from process to process, and files that are not what they were."""

from __future__ import annotations

import hashlib
import random
import resource
from pathlib import Path
from typing import Any

import pytest

from ..conftest import TinyModel
from .process import Process

PROMPT = ",".join(map(str, range(1, 101)))
MUTANTS = 1000
LIMIT = 4096


def test_a_snapshot_outlives_its_daemon(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with Process() as daemon:
        daemon.send(
            f"REQ 1 START ids:{PROMPT} 9 1",
            "WAIT",
            "SLOT 0 SNAPSHOT a",
            f"SAVE a {path}",
            f"REQ 2 START ids:{PROMPT},5 9",
        )
        assert daemon.finish() == 0
        expected = daemon.tokens(2)
    with Process() as daemon:
        daemon.send(f"LOAD b {path}", f"REQ 2 RESTORE b ids:{PROMPT},5 9", "WAIT", "LIST_SLOTS")
        assert daemon.reply(1)["position"] == 100
        assert daemon.reply(4)["snapshots"][0]["name"] == "b"
        assert daemon.finish() == 0
        assert daemon.tokens(2) == expected


@pytest.mark.parametrize("model", [{}, {"architecture": "gemma3"}, {"architecture": "qwen35", "layers": 4}])
def test_a_model_s_file_gives_the_same_logits(tiny_model: TinyModel, model: dict[str, Any], tmp_path: Path) -> None:
    path, saved, prompt = tiny_model(**model), tmp_path / "s", f"{PROMPT},5"
    with Process(str(path), engine="cpu") as daemon:
        daemon.send(f"REQ 1 START ids:{PROMPT} 9 1", "WAIT", "SLOT 0 SNAPSHOT a", f"SAVE a {saved}", "CANCEL 1", "QUIT")
        assert daemon.finish() == 0
    with Process(str(path), engine="cpu") as daemon:
        daemon.send(f"REQ 2 START ids:{prompt} 9 hash=1")
        assert daemon.finish() == 0
        alone = daemon.end_of(2)
    with Process(str(path), engine="cpu") as daemon:
        daemon.send(f"LOAD b {saved}", f"REQ 2 RESTORE b ids:{prompt} 9 hash=1")
        assert daemon.finish() == 0
        assert daemon.reply(1)["position"] == daemon.end_of(2)["cached_tokens"] == 100
        assert daemon.end_of(2)["logits_sha256"] == alone["logits_sha256"]
    with Process(str(path), "--max-ctx", "64", engine="cpu") as daemon:
        daemon.send(f"LOAD b {saved}", "PING")
        assert daemon.finish() == 0
        assert "it ends at position 100, past the context of 64" in daemon.reply(1)["error"]


def test_a_thousand_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with Process() as daemon:
        daemon.send(f"REQ 1 START ids:{PROMPT} 9 1", "WAIT", "SLOT 0 SNAPSHOT a", f"SAVE a {path}")
        assert daemon.reply(4)["ok"]
        whole, chance = path.read_bytes(), random.Random(5)
        for number in range(MUTANTS):
            data = bytearray(whole)
            if number % 3 == 0:
                del data[chance.randrange(len(data)) :]
            else:
                for _ in range(1 + number % 4):
                    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            (tmp_path / f"{number}").write_bytes(data)
        mutants = [f"LOAD m {tmp_path}/{number}" for number in range(MUTANTS)]
        for first in range(0, MUTANTS, 100):
            daemon.send(*mutants[first : first + 100])
            daemon.reply(first + 104)
        codes = {
            daemon.reply(number + 5)["code"]
            for number in range(MUTANTS)
            if (tmp_path / f"{number}").read_bytes() != whole
        }
        assert codes == {"snapshot_mismatch"}
        daemon.send(f"LOAD m {path}", f"REQ 2 RESTORE m ids:{PROMPT},5 3")
        assert daemon.reply(MUTANTS + 5)["ok"] and daemon.reply(MUTANTS + 6)["ok"]
        assert daemon.finish() == 0
        assert daemon.log() == ""


def test_files_with_a_right_checksum_and_anything_before_it(tmp_path: Path) -> None:
    """A header that cannot be true is refused; ids, pages or a state that are wrong are the request's to suffer."""
    path = tmp_path / "s"
    with Process() as daemon:
        daemon.send(f"REQ 1 START ids:{PROMPT} 9 1", "WAIT", "SLOT 0 SNAPSHOT a", f"SAVE a {path}", "CANCEL 1")
        assert daemon.reply(4)["ok"]
        whole, chance, line = path.read_bytes(), random.Random(6), 5
        outcomes = set()
        for number in range(MUTANTS):
            data = bytearray(whole[:-32])
            for _ in range(1 + number % 3):
                place = chance.randrange(16, len(data) if number % 4 == 0 else 400)
                match number % 5:
                    case 0:
                        del data[place:]
                    case 1:
                        data[place:place] = chance.randbytes(chance.randrange(1, 9))
                    case _:
                        data[place] ^= 1 << chance.randrange(8)
            (tmp_path / "m").write_bytes(data + hashlib.sha256(data).digest())
            daemon.send(f"LOAD m {tmp_path}/m", f"REQ 2 RESTORE m ids:{PROMPT},5 2", "WAIT")
            line += 3
            assert daemon.reply(line)["ok"]
            outcomes.add(daemon.reply(line - 2).get("code"))
        assert outcomes == {None, "snapshot_mismatch"}
        assert daemon.finish() == 0
        assert {line.partition(" (")[2].partition(":")[0] for line in daemon.log().splitlines()} == {"ValueError"}


def test_a_full_disk_refuses_a_save_and_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_bytes(b"before")

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))

    with Process("--max-ctx", "4096", preexec_fn=small_files) as daemon:
        ids = ",".join(["7"] * 1000)
        daemon.send(f"REQ 1 START ids:{ids} 9 1", "WAIT", "SLOT 0 SNAPSHOT a", f"SAVE a {path}", "REQ 1 CONTINUE 2")
        reply = daemon.reply(4)
        assert (reply["code"], reply["error"]) == (
            "bad_argument",
            f"path {path}: File too large; expected a file that can be written",
        )
        assert daemon.finish() == 0
        assert len(daemon.tokens(1)) == 3
    assert path.read_bytes() == b"before"
    assert [file.name for file in tmp_path.iterdir()] == ["s"]
