"""The scripts for the day that has a GPU run here too, tiny and on the emulated device."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from array import array
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from paceline.daemon.plan import Row
from paceline.native.device_memory import EmulatedMemory

from .emulated import _emulator

ROOT = Path(__file__).parents[2]
assert _emulator


def bench(record: Path, *words: str | Path) -> dict[str, Any]:
    """What a tiny run on the emulated device writes."""
    script = ROOT / "scripts" / "bench_gpu.py"
    all_words = [sys.executable, script, "--device", "emulator", "--tiny", "--json", record, *words]
    done = subprocess.run([str(word) for word in all_words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(record.read_text())
    return found


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """script(name): a module of scripts/."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return import_module


@pytest.mark.parametrize("model", ["tiny", "tiny hybrid"])
def test_the_benchmark_runs(model: str, tmp_path: Path) -> None:
    words = ["--models", model, "--rows", "1,2", "--contexts", "64", "--prompts", "16,80"]
    words += ["--formats", "Q4_K", "--no-peer"]
    found = bench(tmp_path / "bench.json", *words)
    assert found["copy_bytes_per_s"] > 0
    assert found["ratios"] == []
    kinds = [(result["kind"], result["rows"], result.get("tokens")) for result in found["results"]]
    decoded = [("product", 1, None), ("product", 2, None), ("step", 1, None), ("step", 2, None)]
    assert kinds == decoded + [("step", 1, tokens) for tokens in (16, 80)]
    assert all(result["ms"] > 0 and ("tokens" in result or result["share"] > 0) for result in found["results"])


def test_what_a_short_run_leaves_out_is_in_its_record(tmp_path: Path) -> None:
    found = bench(tmp_path / "bench.json", "--seconds", "0", "--formats", "Q4_K")
    assert [result["kind"] for result in found["results"]] == ["product", "step", "peer", "step", "peer"]
    assert {result["skipped"] for result in found["results"]} == {"the 0 seconds are over"}


def test_what_was_asked_for_first_comes_first(script: Any) -> None:
    measure, order, worker = (script(f"bench_gpu_{name}") for name in ("measure", "order", "worker"))
    models = ("Qwen3-8B", "Qwen3.5-27B hybrid", "Qwen3-30B-A3B")
    formats = ("Q4_K", "Q8_0", "BF16", "NVFP4", "IQ2_XXS")
    own, clock = worker.Worker(measure.Device("emulator", True)), measure.Clock(240)
    plan = order.Plan("emulator", own, models, formats, (1, 8), (512, 8192), (64,), 1.0, clock, True, True, None)
    works = [work.about for work in plan.works()]
    assert [about["format"] for about in works[:5]] == list(formats)
    assert [(about["model"], about["format"]) for about in works[5:9]] == list(order.FIRST)
    assert (works[9]["kind"], works[9]["model"]) == ("peer", "Qwen3-8B")
    timed = [work.about for work in replace(plan, kernels=True).works()]
    assert [about["kind"] for about in timed[9:12]] == ["kernels", "kernels", "peer"]
    assert [about for about in timed if about["kind"] != "kernels"] == works
    steps = [(about["model"], about["format"]) for about in works if about["kind"] == "step"]
    assert set(steps) == {(model, kind) for model in models for kind in formats}
    assert len(steps) == len(set(steps)) + len(order.FIRST)  # those, at the other context
    assert sum(about["kind"] == "peer" for about in works) == 2 * len(models)


def test_a_kernel_is_given_the_time_that_only_it_took(script: Any) -> None:
    """Kernels overlap: what counts is by how much each ends later than all before it."""
    module, measure = script("bench_gpu_kernels"), script("bench_gpu_measure")
    product, attention = "void paceline::cuda::(anonymous namespace)::", "paceline::cuda::attend_token"
    product += "integer_product<(paceline::Format)13, 0>(paceline::cuda::Product, paceline::cuda::Turns)"
    timeline = [(product, 1000, 6000), (attention, 2000, 9000), (product, 8000, 21000), (attention, 9000, 22000)]

    def record(run: Any) -> list[tuple[str, int, int]]:
        run()
        return timeline

    asked = (measure.Device("emulator", True), "tiny", "Q4_K", (1, 2), 64, measure.Clock(120))
    found = list(module.kernels(*asked, record=record))
    assert [one["rows"] for one in found] == [1, 2]
    expected = [
        {"kernel": "integer_product<13, 0>", "count": 0.4, "us": (5 + 12) / 5},
        {"kernel": "attend_token", "count": 0.4, "us": (3 + 1) / 5},
    ]
    assert found[0]["kernels"] == expected
    assert "integer_product<13, 0> 3 us, attend_token 1 us" in script("bench_gpu_table").line(found[0])
    assert module.times_of([], 5) == []


def test_a_process_that_fails_hangs_or_dies_costs_one_figure(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    measure, module = script("bench_gpu_measure"), script("bench_gpu_worker")
    worker, clock = module.Worker(measure.Device("emulator", True)), measure.Clock(120)

    def copies() -> bool:
        (found,) = worker.run("roof", clock=clock)
        return found["device"] == "emulator" and found["copy_bytes_per_s"] > 0

    try:
        with pytest.raises(RuntimeError, match="KeyError: 'no model'"):
            list(worker.run("steps", "no model", "Q4_K", (1,), (64,), (), 1.0, clock=clock))
        assert copies()
        os.kill(worker.process.pid, signal.SIGKILL)
        with pytest.raises(RuntimeError, match="ended with -9"):
            copies()
        assert copies()
        os.kill(worker.process.pid, signal.SIGSTOP)
        with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="it hangs"):
            patch.setattr(module, "MOST", 0.2)
            copies()
        assert copies()
    finally:
        worker.close()


def test_experts_beyond_the_first_piece_are_copies(script: Any) -> None:
    """Of 17 MiB of experts 16 are packed; what nobody filled would be no number on the emulated device."""
    models = script("bench_gpu_models")
    shape = replace(models.TINY_MOE, experts=128, expert_ffn=512)
    stepper, _ = models.synthetic(shape, "Q8_0", 64, 8, lambda: (_emulator, EmulatedMemory()))
    stepper.make_room(8, 8)
    stepper.take_pages(8)
    rows = [Row(0, slot, 0, [7 + 5 * slot], 0, 1, None, 1, array("i", [slot]), False) for slot in range(8)]
    assert all(tokens[0] >= 0 for tokens, *_ in stepper.step(rows)[0])


def test_ratios_are_of_equal_sizes_and_formats(script: Any) -> None:
    table = script("bench_gpu_table")
    sizes = {"model": "m", "context": 512}
    own = [
        sizes | {"kind": "step", "format": kind, "rows": rows, "tokens_per_s": speed, "share": 0.5}
        for kind, rows, speed in (("BF16", 1, 30.0), ("BF16", 8, 180.0), ("Q4_K", 8, 240.0))
    ]
    peers = [
        sizes | {"kind": "peer", "peer": "transformers", "format": "BF16", "rows": 8, "tokens_per_s": 60.0},
        sizes | {"kind": "peer", "peer": "transformers", "format": "BF16", "rows": 16, "tokens_per_s": 60.0},
        sizes | {"kind": "peer", "peer": "llama.cpp", "format": "Q4_K", "rows": 8, "tokens_per_s": 160.0},
        sizes | {"kind": "peer", "peer": "llama.cpp", "format": "Q8_0", "rows": 8, "skipped": "no room"},
    ]
    prompt = {"model": "m", "format": "Q4_K", "context": 0, "rows": 1, "tokens": 512}
    own.append(prompt | {"kind": "step", "ms": 50.0, "tokens_per_s": 10240.0})
    peers.append(prompt | {"kind": "peer", "peer": "llama.cpp", "tokens_per_s": 5120.0})
    own.append(prompt | {"kind": "step", "tokens": 128, "ms": 20.0, "tokens_per_s": 6400.0})
    found = [(one["peer"], one["format"], one["rows"], one["ratio"]) for one in table.ratios([*own, *peers])]
    assert found == [("transformers", "BF16", 8, 3.0), ("llama.cpp", "Q4_K", 8, 1.5), ("llama.cpp", "Q4_K", 1, 2.0)]
    assert "prompt of 512" in table.ratio_line(table.ratios([*own, *peers])[2])
    assert "prompt of 128" in table.line(own[-1])
    lines = list(table.table([*own, *peers]))
    assert len(lines) == 4
    assert lines[2].split() == ["m", "BF16", "512", "8", "180.0", "50%", "6.00", "3.00"]


def test_a_peer_that_stops_or_fails_says_what_is_missing(script: Any) -> None:
    child = script("bench_gpu_child")
    expected = [{"kind": "peer", "rows": rows} for rows in (1, 8)]

    def missing(code: str, limit: float) -> list[dict[str, Any]]:
        words = [sys.executable, "-c", code]
        return list(child.with_missing(child.json_lines(words, limit), expected, "the time is over"))

    first = 'print(\'hello\'); print(\'{"kind": "peer", "rows": 1}\', flush=True);'
    assert missing(f"{first} import time; time.sleep(60)", 5) == [
        expected[0], expected[1] | {"skipped": "the time is over (stopped after 5 seconds)"}
    ]  # fmt: skip
    assert missing(f"{first} import sys; sys.exit('no such model')", 60) == [
        expected[0], expected[1] | {"skipped": "exit status 1: no such model"}
    ]  # fmt: skip
    assert missing("import nothing_of_this_name", 60) == [
        {"kind": "peer", "skipped": "exit status 1: ModuleNotFoundError: No module named 'nothing_of_this_name'"}
    ]


def test_only_steps_in_which_all_decode_are_counted(script: Any) -> None:
    continuous = script("bench_gpu_continuous")
    early = [0.1 * step for step in range(60)]  # alone, then together with the other
    late = [1.0 + 0.1 * step + 1e-6 for step in range(60)]
    seconds, steps = continuous.steady([early, late])
    assert seconds == pytest.approx(0.1)
    assert steps == 44  # of late's tokens 4 to 48: its 49th comes a moment after early's last
    with pytest.raises(ValueError, match="8 steps in which all decode, expected 16 or more"):
        continuous.steady([early, [moment + 3.6 for moment in late]])
    with pytest.raises(ValueError, match="22 tokens in 44 steps, expected one a step"):
        continuous.steady([[*early[:10], *early[10::2], early[-1]], late])


def test_llama_cpp_reads_a_file_of_the_shape_and_its_lines_are_read(script: Any, tmp_path: Path) -> None:
    llama = script("bench_gpu_llama")
    fake = tmp_path / "llama-batched-bench"
    fake.write_text(
        f"""#!{sys.executable}
import sys
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert open(words["-m"], "rb").read(4) == b"GGUF"
assert (words["-npp"], words["-c"], words["-ngl"], words["-mg"]) == ("32", "768", "999", "1")
for at, rows in enumerate(words["-npl"].split(",")):
    times = (100, 100) if at == 0 else (0.64 * int(rows), 0.016)
    print('{{"pl": %s, "pp": 32, "tg": 64, "t_tg": %s, "t_pp": %s}}' % (rows, *times))
"""
    )
    fake.chmod(0o755)
    assert llama.program(tmp_path, "cuda:1", 1) == fake
    beside = llama.LlamaCpp(fake, "cuda:1")
    found = list(beside.steps("tiny", "Q4_K", (1, 8), 32, 60, "the time is over"))
    prompt = found.pop(1)
    assert (prompt["tokens"], prompt["context"], prompt["tokens_per_s"]) == (32, 0, pytest.approx(2000))
    assert [(one["rows"], one["ms"]) for one in found] == [(1, pytest.approx(10)), (8, pytest.approx(80))]
    assert all(one["tokens_per_s"] == pytest.approx(100) for one in found)
    file = beside.file("tiny", "Q4_K")
    assert file.exists()
    beside.close()
    assert not file.exists()


def test_llama_cpp_that_is_not_there_is_a_line(tmp_path: Path) -> None:
    words = ["--rows", "1", "--contexts", "64", "--prompts", "9", "--formats", "Q4_K", "--no-peer", "--no-products"]
    found = bench(tmp_path / "bench.json", *words, "--llama-cpp", tmp_path)
    assert "expected a folder of llama.cpp's sources" in found["results"][0]["skipped"]
    assert found["results"][1]["ms"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("model", ["tiny", "tiny MoE", "tiny hybrid"])
def test_transformers_decodes_beside_it(model: str, tmp_path: Path) -> None:
    rows = [1] if model == "tiny hybrid" else [1, 8]
    words = ["--models", model, "--rows", ",".join(map(str, rows)), "--contexts", "64", "--prompts", "9"]
    words += ["--formats", "BF16"]
    found = bench(tmp_path / "bench.json", *words, "--no-products")
    peers = [one for one in found["results"] if one["kind"] == "peer"]
    given = [(one["peer"], one["rows"]) for one in peers if "skipped" not in one]
    continuous = [] if model == "tiny hybrid" else rows  # it has no paged cache for recurrent layers
    assert given == [
        *(("transformers", number) for number in rows),
        *(("transformers continuous", number) for number in continuous),
    ]
    for one in (one for one in peers if "skipped" not in one):
        assert one["tokens_per_s"] == pytest.approx(1e3 * one["rows"] / one["ms"])
        assert one["steps"] >= 16
    assert [(one["peer"], one["rows"]) for one in found["ratios"]] == given
