"""What a result was measured on, and what of it can be used: memory, cores."""

import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FLAGS = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "asimd", "asimddp")
GIB = 2**30
# Control groups v2 (no controller name) and v1: a controller's mount; for memory also the files of limit and usage.
CGROUPS = {
    "": ("sys/fs/cgroup", "memory.max", "memory.current"),
    "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
}
CPU_MOUNTS = {"": "sys/fs/cgroup", "cpu": "sys/fs/cgroup/cpu"}


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that this process could have, of the machine's or of its control group, whichever is less."""

    total: int
    free: int  # without swapping anything out


def read_memory(root: Path = Path("/")) -> Memory | None:
    """As Linux tells it below `root`; None where it does not."""
    try:
        lines = (line.split() for line in (root / "proc/meminfo").read_text().splitlines())
        sizes = {words[0]: 1024 * int(words[1]) for words in lines if len(words) > 1}
        memory = Memory(sizes["MemTotal:"], sizes["MemAvailable:"])
    except (OSError, ValueError, KeyError):
        return None
    limits = [memory, *_group_limits(root)]
    return Memory(min(limit.total for limit in limits), max(0, min(limit.free for limit in limits)))


def cache_pages(
    needed: int, least: int, page_bytes: int, memory: Memory | None, taken: int, keep_free: int | None
) -> int:
    """Pages of a cache without a given size: the `needed` ones, or as many as there is memory for.

    least: fewer are of no use: MemoryError. taken: bytes that the rest of the process will take. keep_free: bytes
    that stay free for everybody else; None: a tenth of the memory, at most a GiB.
    """
    if memory is None:
        return needed
    spared = min(GIB, memory.total // 10) if keep_free is None else keep_free
    room = memory.free - taken - spared
    pages = min(needed, max(0, room) // page_bytes)
    if pages < min(least, needed):
        raise MemoryError(
            f"{least} pages of cache take {least * page_bytes} bytes, and of the {memory.free} that are free the model "
            f"takes {taken} and {spared} stay free"
        )
    return pages


def check_cache(asked: int, memory: Memory | None, taken: int) -> None:
    """ValueError for a cache of `asked` bytes that could never be in memory beside the `taken` ones. Its pages take
    memory when they are written: the daemon would start, and be killed later. What others hold now, they may give back.
    """
    if memory is not None and asked + taken > memory.total:
        raise ValueError(
            f"a cache of {asked} bytes and a model of {taken} are more than the {memory.total} bytes of memory that "
            "there are"
        )


def usable_cores(root: Path = Path("/")) -> int:
    """Threads that can run at the same time: the cores that the process may run on, or fewer where its control group
    has a quota, as a container's may. With more threads than that, all of them wait for the rest of a quota period.
    """
    quotas = [quota for _, folder in _groups(root, CPU_MOUNTS) if (quota := _cpu_quota(folder))]
    return max(1, min([len(os.sched_getaffinity(0)), *map(int, quotas)]))


def _cpu_quota(folder: Path) -> float | None:
    """CPU time in cores; None: there is no limit."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        cores = int(quota) / int(period)  # "max" and -1 are none
    except (OSError, ValueError, ZeroDivisionError):
        return None
    return cores if cores > 0 else None


def _groups(root: Path, mounts: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """(controller, folder) of the process's control groups and those around them, for the controllers named."""
    try:
        groups = [line.split(":", 2) for line in (root / "proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return
    for _, controllers, path in (group for group in groups if len(group) == 3):
        own = Path(path.lstrip("/"))
        for controller in (name for name in controllers.split(",") if name in mounts):
            for folder in (own, *own.parents):
                yield controller, root / mounts[controller] / folder


def _group_limits(root: Path) -> Iterator[Memory]:
    """Memory limits, of the groups that have one."""
    for controller, folder in _groups(root, {name: mount for name, (mount, _, _) in CGROUPS.items()}):
        limit = _group_limit(folder, *CGROUPS[controller][1:])
        if limit:
            yield limit


def _group_limit(folder: Path, most: str, used: str) -> Memory | None:
    try:
        total = int((folder / most).read_text())  # "max" is none
        words = (folder / "memory.stat").read_text().split()
        stat = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        files = stat.get("total_inactive_file", stat.get("inactive_file", 0))
        return Memory(total, total - int((folder / used).read_text()) + files)
    except (OSError, ValueError):
        return None


def describe_machine() -> dict[str, Any]:
    """Processor, cores, vector instructions and memory, as Linux tells them."""
    lines = (line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines())
    fields = {key.strip(): value.strip() for key, _, value in lines}
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": fields.get("model name", platform.machine()),
        "family": fields.get("cpu family"),
        "model": fields.get("model"),
        "cores": usable_cores(),
        "flags": [flag for flag in FLAGS if flag in fields.get("flags", fields.get("Features", "")).split()],
        "memory_gib": round(pages * page_bytes / 2**30, 1),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
    }


def processor_words(machine: Mapping[str, Any]) -> str:
    """The processor in such a description, as in `AMD EPYC (family 26, avx2)`; ARM's have no family."""
    family = [f"family {machine['family']}"] if machine["family"] else []
    return f"{machine['processor']} ({', '.join([*family, *machine['flags']])})"
