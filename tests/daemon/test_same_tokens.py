"""The first promise, on real cores: whatever the schedule, a request's logits have the SHA-256 of its run alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from driver import Driver, events_of
from paceline.native.drafting import ARCHITECTURES
from paceline.native.files.model_file import MATRIX_TYPES
from schedules import Bench, run_schedule

SHAPED = Path(__file__).parents[2] / "scripts" / "make_shaped_model.py"


def tiny_bench(tiny_model, kind: str, cache_types: tuple[str, str] = ("f16", "f16"), **options: str | int) -> Bench:
    shape = {"width": 96, "heads": 6, "kv_heads": 2, "head_size": 32, "ffn": 608, "vocab": 300}
    path = tiny_model(type=kind, **shape, **options)
    return Bench(path, 768, (1, 3, 16, 17, 64, 65, 130, 513, 600), (1, 4, 17, 40), True, cache_types)


@pytest.fixture(scope="module", params=["Q4_1", "Q8_0", "F32"])
def tiny(request: pytest.FixtureRequest, tiny_model) -> Bench:
    return tiny_bench(tiny_model, request.param)


@pytest.mark.parametrize("seed", range(16))
def test_any_schedule_gives_the_bits_of_a_run_alone(tiny: Bench, seed: int) -> None:
    run_schedule(tiny, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16, 70))
def test_more_schedules_give_the_bits_of_a_run_alone(tiny: Bench, seed: int) -> None:
    run_schedule(tiny, seed)


FAMILIES = ["qwen2", "qwen3", "qwen3moe", "gpt-oss", "glm4moe", "gemma3", "lfm2", "qwen35", "qwen35moe", "qwen3next"]


@pytest.mark.parametrize("architecture", FAMILIES)
def test_a_few_schedules_for_the_other_families(tiny_model, architecture: str) -> None:
    bench = tiny_bench(tiny_model, "Q4_0", architecture=architecture)
    for seed in range(200, 204):
        run_schedule(bench, seed)
    assert 0 < bench.drafted_right < bench.drafted, "some drafted tokens are right, some wrong"


@pytest.mark.slow
@pytest.mark.parametrize(
    "architecture",
    [*FAMILIES, "granitehybrid", "nemotron_h_moe", "lfm2moe", "minimax-m2", "mistral3", "olmo2", "afmoe"],
)
def test_more_schedules_for_the_other_families(tiny_model, architecture: str) -> None:
    layers = {"layers": 3} if architecture == "nemotron_h_moe" else {}  # its third is the first that attends
    bench = tiny_bench(tiny_model, "Q4_0", architecture=architecture, **layers)
    for seed in range(204, 216):
        run_schedule(bench, seed)


def drafting_bench(tiny_model, architecture: str) -> Bench:
    return tiny_bench(tiny_model, "Q4_0", architecture=architecture, drafting=1)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_few_schedules_where_a_layer_drafts(tiny_model, architecture: str) -> None:
    bench = drafting_bench(tiny_model, architecture)
    for seed in range(400, 404):
        run_schedule(bench, seed)
    assert bench.asked > 0
    assert 0 < bench.drafted_right < bench.drafted


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_more_schedules_where_a_layer_drafts(tiny_model, architecture: str) -> None:
    bench = drafting_bench(tiny_model, architecture)
    for seed in range(404, 420):
        run_schedule(bench, seed)


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q5_1", "Q5_0", "Q4_0", "IQ4_NL", "MXFP4"])
def test_a_few_schedules_for_the_other_formats(tiny_model, kind: str) -> None:
    bench = tiny_bench(tiny_model, kind)
    for seed in range(100, 106):
        run_schedule(bench, seed)


@pytest.mark.parametrize(
    "cache_types",
    [("f32", "bf16"), ("bf16", "f32"), ("q8_0", "q8_0"), ("q4_0", "q4_0"), ("q8_0", "q4_0")],
    ids="-".join,
)
def test_a_few_schedules_for_the_other_types_of_the_cache(tiny_model, cache_types: tuple[str, str]) -> None:
    bench = tiny_bench(tiny_model, "Q4_1", cache_types)
    for seed in range(300, 305):
        run_schedule(bench, seed)


def test_a_few_schedules_for_blocks_of_256(tiny_model) -> None:
    path = tiny_model(type="Q4_K", width=256, heads=4, kv_heads=2, head_size=64, ffn=512, vocab=300)
    bench = Bench(path, 768, (1, 16, 65, 130, 513), (1, 17), plain=True)
    for seed in range(300, 306):
        run_schedule(bench, seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["Q6_K", "Q5_K", "Q3_K", "Q2_K", "NVFP4", *(name for name in MATRIX_TYPES if name.startswith("IQ"))]
)
def test_a_few_schedules_for_formats_that_are_only_read(kind: str, tmp_path: Path) -> None:
    """Nothing here writes them from numbers: random blocks."""
    path = tmp_path / "tiny.gguf"
    subprocess.run([sys.executable, str(SHAPED), "tiny", str(path), f"--type={kind}"], check=True)
    bench = Bench(path, 768, (1, 16, 65, 130, 513), (1, 17), plain=True)
    for seed in range(400, 404):
        run_schedule(bench, seed)


@pytest.fixture(scope="module")
def smol(demo_model: Path) -> Bench:
    return Bench(demo_model, 1536, (1, 5, 15, 33, 64, 200, 520, 900, 1300), (1, 6, 20), plain=False)


@pytest.mark.parametrize("seed", range(1000, 1004))
def test_any_schedule_on_the_demo_model(smol: Bench, seed: int) -> None:
    run_schedule(smol, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1004, 1048))
def test_more_schedules_on_the_demo_model(smol: Bench, seed: int) -> None:
    run_schedule(smol, seed)


@pytest.mark.slow
def test_plain_cpp_on_the_demo_model(smol: Bench) -> None:
    """One run on the plain path, which takes tens of milliseconds a token."""
    core = smol.core("plain", 2)
    for job in [job for job in smol.jobs if job.prompt.count(",") < 200]:
        driver = Driver(smol.limits(2), core)
        driver.send(job.start(1, 3))
        driver.send("SCHED_AUTO on")
        driver.end()
        assert events_of(driver.items, "end")[0]["logits_sha256"] == smol.alone(job)[1]
