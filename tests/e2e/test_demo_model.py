"""The original's validation on real weights, and what becomes of files that are no model."""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from paceline.native import _cpu
from paceline.protocol import CANCELLED, DONE, YIELD, Frame, Message

from .process import Process, is_end

STORY = "ids:6403,1980,253,655"
OTHER = "ids:504,3575,282,260,905,314,253,2096"
SECONDS = 60.0


@pytest.fixture(scope="module")
def alone(demo_model: Path) -> dict[str, list[int]]:
    """The tokens of each prompt when nobody else is there."""
    with Process(str(demo_model), "--max-ctx=512", engine="cpu") as daemon:
        for req_id, prompt in enumerate((STORY, OTHER), 1):
            daemon.send(f"REQ {req_id} START {prompt} 40", "WAIT")
        assert daemon.finish(SECONDS) == 0
        return {STORY: daemon.tokens(1), OTHER: daemon.tokens(2)}


def test_the_originals_validation(demo_model: Path, alone: dict[str, list[int]]) -> None:
    with Process(str(demo_model), "--max-ctx=512", engine="cpu") as daemon:
        assert daemon.ready()["architecture"] == "llama"
        # two slots, quantum 2, then a drain that closes both; a third request joins the drain
        daemon.send(f"REQ 4 SLOT 0 START {STORY} 40 2 hash=1", f"REQ 5 SLOT 1 START {OTHER} 30 2 hash=1", "WAIT")
        daemon.reply(3, SECONDS)
        assert len(daemon.tokens(4)) == len(daemon.tokens(5)) == 2
        # CONTINUE goes on without a prefill: nothing more is fed than one token for each token that comes
        daemon.send("STATS", "REQ 4 CONTINUE 3", "WAIT", "STATS")
        before, after = daemon.reply(4), daemon.reply(7, SECONDS)
        assert after["tokens_in"] == before["tokens_in"] == 4 + 8
        assert after["tokens_out"] == before["tokens_out"] + 3
        assert after["steps"] == before["steps"] + 3
        # the two stand at different positions now: a probe finds the same bits alone and together, and changes nothing
        daemon.send("SCHED_BATCH_PROBE")
        probe = daemon.reply(8, SECONDS)
        assert probe["mismatches"] == 0 and [row["equal"] for row in probe["rows"]] == [True, True]
        assert [row["position"] for row in probe["rows"]] == [4 + 5 - 1, 8 + 2 - 1]
        daemon.send("SCHED_BATCH_TARGET_STEP", "SCHED_DRAIN", f"REQ 6 START {STORY} 10 4")
        step = daemon.reply(9, SECONDS)
        assert [row["token"] for row in step["rows"]] == [alone[STORY][5], alone[OTHER][2]]
        assert step["weight_bytes"] > 90_000_000 and step["ms"] > 0
        daemon.read_until(lambda item: isinstance(item, Message) and item.body.get("event") == "drained", SECONDS)
        assert daemon.tokens(4) == alone[STORY]
        assert daemon.tokens(5) == alone[OTHER][:30]
        assert daemon.tokens(6) == alone[STORY][:10]
        assert [daemon.terminals(req_id) for req_id in (4, 5, 6)] == [[DONE]] * 3
        # a cancelled request is gone, also when another owns its slot
        daemon.send(f"REQ 7 SLOT 2 START {STORY} 20 2", "WAIT", "REQ 7 CANCEL", "REQ 7 CONTINUE 2")
        assert daemon.reply(15, SECONDS)["code"] == "not_active"
        daemon.send(
            f"REQ 8 SLOT 2 START {OTHER} 20 2",
            "REQ 7 CONTINUE 2",
            "REQ 7 SLOT 2 CONTINUE 2",
            "REQ 8 CONTINUE 1 epoch=1",
        )
        assert [daemon.reply(line)["code"] for line in (17, 18, 19)] == ["not_active", "not_active", "stale"]
        daemon.read_until(lambda item: item == Frame(8, YIELD), SECONDS)
        assert daemon.finish(SECONDS) == 0
        assert (daemon.terminals(7), daemon.terminals(8)) == ([CANCELLED], [CANCELLED])
        assert daemon.tokens(8) == alone[OTHER][:2]


@pytest.mark.parametrize("isa", _cpu.instruction_sets()[:2])
def test_every_isa_flag_gives_the_same_tokens(demo_model: Path, alone: dict[str, list[int]], isa: str) -> None:
    with Process(str(demo_model), "--max-ctx=128", "--isa", isa, "--threads=2", engine="cpu") as daemon:
        assert isa in daemon.ready()["device"]
        daemon.send(f"REQ 1 START {STORY} 8", f"REQ 2 START {OTHER} 8 temp=0")
        assert daemon.finish(SECONDS) == 0
        assert daemon.tokens(1) == alone[STORY][:8] and daemon.tokens(2) == alone[OTHER][:8]


def test_sigterm_in_a_long_prefill(demo_model: Path) -> None:
    with Process(str(demo_model), "--prefill-tokens=4", engine="cpu") as daemon:
        daemon.ready()
        daemon.send("REQ 1 START ids:" + ",".join(["504"] * 3000) + " 10")
        daemon.reply(1)
        time.sleep(0.2)
        daemon.popen.terminate()
        assert daemon.read_to_end(SECONDS) == 0
        assert daemon.tokens(1) == [] and daemon.terminals(1) == [CANCELLED]


def test_the_end_of_sequence_comes_from_the_model(demo_model: Path) -> None:
    with Process(str(demo_model), "--max-ctx=512", engine="cpu") as daemon:
        assert daemon.ready()["eos"] == [2, 0]
        question = "ids:1,4093,198,19556,2,198,1,520,9531,198"  # a greeting in the model's chat form
        daemon.send(f"REQ 1 START {question} 200")
        daemon.read_until(lambda item: is_end(item, 1), SECONDS)
        end = daemon.end_of(1)
        assert (end["reason"], end["stop_token"]) == ("eos", 2) and 2 not in daemon.tokens(1)
        assert end["tokens"] == len(daemon.tokens(1)) < 200


def broken_files(demo_model: Path, folder: Path) -> list[Path]:
    whole = demo_model.read_bytes()
    contents = {
        "half.gguf": whole[: len(whole) // 2],
        "header.gguf": whole[:5000],
        "text.gguf": b"not a model\n" * 99,
        "empty.gguf": b"",
    }
    contents["model.bin"] = whole[:-1]
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in contents] + [folder / "absent.gguf", folder]


def test_a_file_that_is_no_model_is_one_sentence(demo_model: Path, tmp_path: Path) -> None:
    for path in broken_files(demo_model, tmp_path):
        command = [sys.executable, "-m", "paceline.daemon.main", str(path)]
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
        assert result.returncode == 66, result.stderr
        assert result.stdout == ""
        assert result.stderr.count("\n") == 1 and "Traceback" not in result.stderr and str(path) in result.stderr


def test_turns_on_real_weights_are_fair(demo_model: Path) -> None:
    """Six requests, two seats, quantum 4: between two turns of one everybody who waits has had one."""
    with Process(
        str(demo_model), "--max-ctx=128", "--target-cache-slots=6", "--max-batch=2", "--auto", engine="cpu"
    ) as daemon:
        daemon.send(*(f"REQ {n} START ids:{500 + n},{600 + n} 24 4" for n in range(1, 7)))
        assert daemon.finish(SECONDS) == 0
        yields = [item.req_id for item in daemon.items if isinstance(item, Frame) and item.value in (YIELD, DONE)]
        for req_id in range(1, 7):
            places = [place for place, owner in enumerate(yields) if owner == req_id]
            assert len(places) == 6
            for one, next_one in pairwise(places):
                others = set(yields[one + 1 : next_one])
                assert len(others) >= 4, f"request {req_id} had two turns while others waited: {yields}"
