"""What a result was measured on."""

import os
import platform
from pathlib import Path
from typing import Any

FLAGS = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16")


def describe_machine() -> dict[str, Any]:
    """Processor, cores, vector instructions and memory, as Linux tells them."""
    lines = (line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines())
    fields = {key.strip(): value.strip() for key, _, value in lines}
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": fields.get("model name", platform.machine()),
        "family": fields.get("cpu family"),
        "model": fields.get("model"),
        "cores": len(os.sched_getaffinity(0)),
        "flags": [flag for flag in FLAGS if flag in fields.get("flags", "").split()],
        "memory_gib": round(pages * page_bytes / 2**30, 1),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
    }
