"""What there is to take: pages of a cache that nobody gave a size, cores, on machines made up for it."""

import os
from pathlib import Path
from typing import Any

import pytest
from paceline.native import core as core_module
from paceline.native.core import native_shape, open_core
from paceline.native.machine import GIB, Memory, cache_pages, check_cache, processor_words, read_memory, usable_cores
from paceline.native.model import read_shape
from paceline.native.weights import ModelUnreadable, open_model

MIB = 2**20
PAGE_BYTES = 2 * MIB


def pages(**changes: Any) -> int:
    """Of 16 GiB, 12 free, with a model of 4: room for 7 GiB of cache."""
    given = {"needed": 1000, "least": 8, "page_bytes": PAGE_BYTES, "taken": 4 * GIB, "keep_free": None}
    return cache_pages(**{**given, "memory": Memory(16 * GIB, 12 * GIB), **changes})


def test_what_all_slots_need_where_there_is_room() -> None:
    assert pages() == 1000
    assert pages(needed=3584) == 3584
    assert pages(needed=3585) == 3584
    assert pages(needed=10**9, memory=None) == 10**9


def test_what_stays_free() -> None:
    assert pages(needed=10**6, keep_free=0) == 4096
    assert pages(needed=10**6, keep_free=3 * GIB) == 2560
    assert pages(needed=10**6, memory=Memory(5 * GIB, 5 * GIB)) == 256  # a tenth of 5 GiB is less than a GiB


def test_less_than_a_page_for_each_slot_is_no_memory() -> None:
    assert pages(memory=Memory(64 * GIB, 5 * GIB + 8 * PAGE_BYTES)) == 8
    with pytest.raises(MemoryError, match="8 pages of cache take 16777216 bytes, and of the"):
        pages(memory=Memory(64 * GIB, 5 * GIB + 8 * PAGE_BYTES - 1))
    with pytest.raises(MemoryError):
        pages(memory=Memory(64 * GIB, GIB))


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


MACHINE = "MemTotal:       16777216 kB\nMemFree:         1048576 kB\nMemAvailable:   12582912 kB\nHugePages_Total:  0\n"
STAT = "anon 100\ninactive_file {}\nactive_file 7\n"


def test_the_memory_of_the_machine(tmp_path: Path) -> None:
    assert read_memory(tmp_path) is None
    write(tmp_path, {"proc/meminfo": MACHINE})
    assert read_memory(tmp_path) == Memory(16 * GIB, 12 * GIB)
    write(tmp_path, {"proc/meminfo": "MemTotal: 5 kB\n"})
    assert read_memory(tmp_path) is None


def test_the_limits_of_control_groups(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/user/job/"
    write(tmp_path, {"proc/meminfo": MACHINE, "proc/self/cgroup": "0::/user/job\n"})
    write(tmp_path, {group + "memory.max": "max\n", group + "memory.current": "5\n", group + "memory.stat": STAT})
    assert read_memory(tmp_path) == Memory(16 * GIB, 12 * GIB)
    write(tmp_path, {group + "memory.max": str(4 * GIB), group + "memory.current": str(3 * GIB)})
    write(tmp_path, {group + "memory.stat": STAT.format(2 * GIB)})
    assert read_memory(tmp_path) == Memory(4 * GIB, 3 * GIB)
    outer = "sys/fs/cgroup/user/"
    write(tmp_path, {outer + "memory.max": str(8 * GIB), outer + "memory.current": str(7 * GIB)})
    write(tmp_path, {outer + "memory.stat": STAT.format(0)})
    assert read_memory(tmp_path) == Memory(4 * GIB, GIB)
    write(tmp_path, {outer + "memory.current": str(9 * GIB)})
    assert read_memory(tmp_path) == Memory(4 * GIB, 0)


def test_the_older_control_groups(tmp_path: Path) -> None:
    """As inside a container: its path is the host's, and what is mounted is its own group."""
    mount = "sys/fs/cgroup/memory/"
    write(tmp_path, {"proc/meminfo": MACHINE, "proc/self/cgroup": "9:pids:/a\n4:cpu,memory:/docker/12:3\n0::/\n"})
    write(tmp_path, {mount + "memory.limit_in_bytes": str(2 * GIB), mount + "memory.usage_in_bytes": str(GIB)})
    write(tmp_path, {mount + "memory.stat": f"inactive_file 1\ntotal_inactive_file {GIB // 2}\n"})
    assert read_memory(tmp_path) == Memory(2 * GIB, GIB + GIB // 2)


def test_a_core_takes_what_there_is(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tiny_model(type="F16")
    plenty = open_core(path, slots=4, context=640)
    assert plenty.pages == 40
    weights = path.stat().st_size + MIB + 640 * 4 * (16 + 4)  # tables of 16 and the ids of 4 slots, for each position

    def free(count: int) -> None:
        memory = Memory(GIB, weights + count * plenty.page_bytes)
        monkeypatch.setattr(core_module, "read_memory", lambda: memory)

    free(20)
    few = open_core(path, slots=4, context=640, keep_free=MIB).pages
    assert 20 <= few <= 20 + MIB // plenty.page_bytes
    monkeypatch.setattr(core_module, "read_memory", lambda: Memory(GIB, MIB))
    with pytest.raises(MemoryError, match="4 pages of cache"):
        open_core(path, slots=4, context=640)
    assert open_core(path, slots=4, context=640, cache_bytes=40 * plenty.page_bytes).pages == 40
    with pytest.raises(ValueError, match=f"a cache of {GIB} bytes and a model of .* the {GIB} bytes of memory"):
        open_core(path, slots=4, context=640, cache_bytes=GIB)
    assert open_core(path, slots=4, context=640, cache_bytes=GIB, kind="reference").pages == GIB // plenty.page_bytes


def test_a_cache_that_could_never_be_in_memory_is_refused() -> None:
    memory = Memory(4 * GIB, MIB)
    check_cache(3 * GIB, memory, GIB)  # though little is free just now
    check_cache(9 * GIB, None, GIB)
    with pytest.raises(
        ValueError, match=f"cache of {3 * GIB + 1} bytes and a model of {GIB} are more than the {4 * GIB}"
    ):
        check_cache(3 * GIB + 1, memory, GIB)


def test_what_recurrent_layers_hold_is_no_room_for_pages(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kept states and the updates of slots count, too, where rows may be committed in part."""
    path = tiny_model(architecture="qwen35", type="F16")
    shape = native_shape(read_shape(*open_model(path)), 64)
    held = 4 * shape.state_bytes + 2 * 8 * shape.update_bytes + 64 * (4 * shape.rope_size + 2 * 4)
    weights = sum(tensor.nbytes for tensor in open_model(path)[1])
    page = open_core(path, slots=2, context=64).page_bytes
    memory = Memory(GIB, weights + held + 3 * shape.state_bytes + 2 * page)
    monkeypatch.setattr(core_module, "read_memory", lambda: memory)
    assert open_core(path, slots=2, context=64, keep_free=0, states=3, replay=8).pages == 2
    assert open_core(path, slots=2, context=64, keep_free=2 * 8 * shape.update_bytes, states=3).pages == 2
    with pytest.raises(MemoryError, match="2 pages of cache"):
        open_core(path, slots=2, context=64, keep_free=1, states=3, replay=8)


def test_a_model_without_a_cache_is_refused(tiny_model: Any) -> None:
    path = tiny_model(architecture="qwen35", layers=2, interval=4)
    with pytest.raises(ModelUnreadable, match="none of its layers has attention, expected one at least"):
        open_core(path, slots=1)


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))


@pytest.mark.usefixtures("eight_cores")
def test_the_cores_of_the_machine_or_of_a_quota(tmp_path: Path) -> None:
    assert usable_cores(tmp_path) == 8
    group, outer = "sys/fs/cgroup/user/job/cpu.max", "sys/fs/cgroup/user/cpu.max"
    write(tmp_path, {"proc/self/cgroup": "0::/user/job\n", group: "max 100000\n"})
    assert usable_cores(tmp_path) == 8
    for quota, cores in (("1600000", 8), ("350000", 3), ("100000", 1), ("20000", 1)):
        write(tmp_path, {group: f"{quota} 100000\n"})
        assert usable_cores(tmp_path) == cores
    write(tmp_path, {group: "400000 100000\n", outer: "400000 200000\n"})  # of a group around it
    assert usable_cores(tmp_path) == 2


@pytest.mark.usefixtures("eight_cores")
def test_the_quota_of_the_older_control_groups(tmp_path: Path) -> None:
    mount = "sys/fs/cgroup/cpu/"
    write(tmp_path, {"proc/self/cgroup": "4:cpu,cpuacct:/docker/12\n0::/\n", mount + "cpu.cfs_quota_us": "-1\n"})
    write(tmp_path, {mount + "cpu.cfs_period_us": "100000\n"})
    assert usable_cores(tmp_path) == 8
    write(tmp_path, {mount + "cpu.cfs_quota_us": "250000\n"})
    assert usable_cores(tmp_path) == 2
    write(tmp_path, {mount + "cpu.cfs_period_us": "0\n"})
    assert usable_cores(tmp_path) == 8


def test_a_processor_in_words() -> None:
    machine = {"processor": "AMD EPYC", "family": "26", "flags": ["avx2", "avx512f"]}
    assert processor_words(machine) == "AMD EPYC (family 26, avx2, avx512f)"
    assert processor_words(machine | {"processor": "aarch64", "family": None}) == "aarch64 (avx2, avx512f)"
