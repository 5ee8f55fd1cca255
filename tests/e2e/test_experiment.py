"""scripts/sched_experiment.py on the null engine: what it reads, and that its recording replays frame for frame."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from paceline.protocol import Frame, FrameReader, Item, parse

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"
sys.path.insert(0, str(SCRIPTS))

from experiment_file import BadScript, Timed, read_script  # noqa: E402

FLAGS = ("--engine", "null", "--slots", "2", "--fault", "slow:2")
TIMES = ("queue_ms", "ttft_ms", "prompt_tps", "tps", "ms", "version")


def play(script: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / "sched_experiment.py"), str(script), *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def replay(recording: Path) -> list[Item]:
    """What the daemon says to a recording, times aside."""
    command = [sys.executable, "-m", "paceline.daemon.main", *FLAGS, "--stream", "tagged"]
    with recording.open("rb") as lines:
        done = subprocess.run(command, stdin=lines, capture_output=True, timeout=60, check=True)
    items = FrameReader().feed(done.stdout)
    return [item if isinstance(item, Frame) else item._replace(body=timeless(item.body)) for item in items]


def timeless(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in TIMES}


def shown(output: str) -> list[str]:
    """The frames that the script has shown, as id:value."""
    words = [word for line in output.splitlines() if " ms  > " not in line for word in line.split()[2:]]
    return [word for word in words if word.partition(":")[0].isdigit() and ":" in word and '"' not in word]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("into", "code", "said"), [("| head -1", 0, ""), ("> /dev/full", 1, "No space left")])
def test_output_that_nobody_takes_ends_it(tmp_path: Path, into: str, code: int, said: str) -> None:
    words = [SCRIPTS / "sched_experiment.py", ROOT / "docs" / "experiment.txt", *FLAGS, "--record", tmp_path / "run"]
    script = shlex.join(map(str, words))
    command = f"set -o pipefail; {shlex.quote(sys.executable)} {script} {into}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=50)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert said in done.stderr
    assert (tmp_path / "run").read_text().startswith("# paceline daemon")  # what was applied until then


NAMES = {-4: "yield", -1: "done", -5: "cancelled", -6: "failed"}


@pytest.mark.timeout(120)
def test_a_recording_replays_frame_for_frame(tmp_path: Path) -> None:
    recording = tmp_path / "recording"
    done = play(ROOT / "docs" / "experiment.txt", *FLAGS, "--record", str(recording))
    assert done.returncode == 0, done.stderr
    first, second = replay(recording), replay(recording)
    assert first == second
    frames = [f"{item.req_id}:{NAMES.get(item.value, item.value)}" for item in first if isinstance(item, Frame)]
    assert frames == shown(done.stdout)
    assert {"2:cancelled", "1:done", "3:done", "4:done", "1:yield"} <= set(frames)
    lines = recording.read_text().splitlines()
    assert lines[0] == "# paceline daemon --engine null --slots 2 --fault slow:2"
    assert all(line.startswith("WAIT step=") for line in lines[1::2])
    steps = [int(line.removeprefix("WAIT step=")) for line in lines[1::2]]
    assert steps == sorted(steps) and steps[-1] > 0
    assert lines[-1] == "QUIT"
    seeded = [parse(line) for line in lines if "temp=" in line]
    assert len(seeded) == 2 and all(start.options.sampling.seed is not None for start in seeded)  # type: ignore[union-attr]
    replies = [item.body for item in first if not isinstance(item, Frame) and "re" in item.body]
    assert [body["re"] for body in replies] == list(range(2, len(lines) + 1))
    assert [body["step"] for body in replies[::2]] == steps


def test_a_device_that_is_lost_ends_a_recording_where_it_was(tmp_path: Path) -> None:
    script, recording = tmp_path / "script", tmp_path / "recording"
    pings = "\n".join(f"@{60 + 20 * n}ms PING {n}" for n in range(20))
    script.write_text(f"REQ 1 START ids:1,2,3 200\n{pings}\n")
    played = play(script, "--engine", "null", "--fault", "slow:10,lost@5", "--record", str(recording))
    assert "Traceback" not in played.stderr
    assert "REQ 1 START ids:1,2,3 200" in recording.read_text()


@pytest.mark.timeout(120)
def test_lines_of_all_kinds(tmp_path: Path) -> None:
    """Refused ones, long ones, steps by hand, a wait of their own, an id again, a trace."""
    prompt = ",".join(str(n % 500) for n in range(3000))
    script, recording = tmp_path / "script", tmp_path / "recording"
    script.write_text(
        f"""REQ 1 START ids:{prompt} 30 2 temp=1
REQ 2 START ids:1,2 5 samp=0.7,0.9,0,1.0,99 snap=1:early
REQ 2 START ids:9 3
NONSENSE
SCHED_BATCH_TARGET_STEP
WAIT
SLOT 1 SNAPSHOT kept
SCHED_AUTO on
REQ 1 CANCEL
REQ 1 START ids:{prompt} 8 2 temp=1
@+30ms REQ 3 RESTORE early ids:1,2,3 3000 3 temp=0.5
@+20ms CANCEL 3
@90ms STATS
WAIT
SCHED_AUTO off
REQ 4 START ids:8 5 2
REQ 9 QUIT
"""
    )
    trace = tmp_path / "trace.json"
    done = play(script, *FLAGS, "--record", str(recording), "--trace", str(trace))
    assert done.returncode == 0, done.stderr
    drawn = trace.read_bytes()
    first, second = replay(recording), replay(recording)
    assert [item for item in first if isinstance(item, Frame)] == [item for item in second if isinstance(item, Frame)]
    frames = [f"{item.req_id}:{NAMES.get(item.value, item.value)}" for item in first if isinstance(item, Frame)]
    assert frames == shown(done.stdout)
    assert {"1:cancelled", "1:done", "2:done", "3:cancelled", "4:cancelled"} <= set(frames)
    assert recording.read_text().count(" seed=") == 3
    assert recording.read_text().splitlines()[1:3] == ["#", f"# TRACE on {trace}"]
    assert drawn and trace.read_bytes() == drawn


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("PING\n@12 PING", "line 2: '@12' is no time; expected @120ms, @1.5s or @+10ms"),
        ("@5ms", "line 1: a time without a command"),
        ("@5ms # later", "line 1: a time without a command"),
        ("@50ms PING\n\n@0.01s PING", "line 3: @0.01s is before the line above it, which is due at 50 ms"),
        ("@9ms PING\n@8.9995ms PING", "line 2: @8.9995ms is before the line above it, which is due at 9 ms"),
        ("@99999999999999ms PING", "line 1: @99999999999999ms is later than 1000000 s after the start"),
        ("quit\nPING", "line 2: nothing is read after QUIT"),
        (f"REQ 1 START ids:{'1,' * 40000}1 2", "line 1 is longer than 60000 bytes; expected its prompt in a file"),
    ],
)
def test_what_cannot_be_played(text: str, words: str) -> None:
    with pytest.raises(BadScript) as caught:
        read_script(text.split("\n"))
    assert words in str(caught.value)


def test_times() -> None:
    lines = ["# a comment", "A", "@120ms B b", "C", "@+10ms\tD", "@1.5s E", "", "  @+0.5s F"]
    expected = [(0.0, "A"), (0.12, "B b"), (0.12, "C"), (0.13, "D"), (1.5, "E"), (2.0, "F")]
    found = read_script(lines)
    assert [text for _, text in found] == [text for _, text in expected]
    assert [due for due, _ in found] == pytest.approx([due for due, _ in expected])
    assert isinstance(found[0], Timed)


@pytest.mark.parametrize("start", range(1, 40))
def test_times_are_exact(start: int) -> None:
    """7 ms and twice 1 ms are 9 ms, which they are not as floats of seconds."""
    script = read_script([f"@{start}ms A", "@+1ms B", "@+1ms C", f"@{start + 2}ms D"])
    assert script[2].due == script[3].due


def test_a_file_that_cannot_be_played_and_a_daemon_that_cannot_start(tmp_path: Path) -> None:
    script = tmp_path / "script"
    assert play(script).returncode == 2
    script.write_text("PING\n")
    unwritable = play(script, "--engine", "null", "--record", str(tmp_path / "no" / "where"))
    assert unwritable.returncode == 2 and unwritable.stderr.endswith("no/where: No such file or directory\n")
    done = play(script, "--engine", "null", "--slots", "0")
    assert done.returncode == 2 and "expected a whole number from 1" in done.stderr


@pytest.mark.timeout(60)
def test_a_recording_survives_a_run_that_did_not_begin(tmp_path: Path) -> None:
    recording = tmp_path / "recording"
    recording.write_text("# kept\n")
    assert play(ROOT / "docs" / "experiment.txt", *FLAGS, "--bogus", "--record", str(recording)).returncode == 2
    assert recording.read_text() == "# kept\n"
