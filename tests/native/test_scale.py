"""A model that is too large to be in memory twice: what it takes, and that a long --max-ctx takes nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
# A process of its own, so that its peak memory is its own.
DECODE = """
import json, sys
from array import array
from pathlib import Path
from paceline.daemon.plan import Row
from paceline.native.core import PAGE, open_core

core = open_core(Path(sys.argv[1]), slots=4, context=int(sys.argv[2]), cache_bytes=8 << 30)
pages = -(-core.context // PAGE)
position, read = 0, []
for count in (1, 150, 1, 1):
    row = Row(0, 0, 0, [7] * count, position, 1, None, 1, array("i", range(pages)), False)
    read.append(core.step([row])[1])
    position += count
    core.commit(0, position)
[peak] = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")]
cache = -(-position // PAGE) * core.page_bytes
print(json.dumps({
    "peak": int(peak) * 1024,
    "held": core.stepper.loaded_bytes + cache,
    "reserved": core.pages * core.page_bytes,
    "read": read,
    "weights": core.stepper.weight_bytes,
}))
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_peak_memory_is_weights_and_used_cache(tmp_path: Path) -> None:
    """Eight layers of 8B's shape, with a cache that has room for five times as much as it takes."""
    path = tmp_path / "model.gguf"
    subprocess.run([sys.executable, SCRIPTS / "make_shaped_model.py", "8b", path, "--layers=8"], check=True)
    for context in (1024, 40960):
        command = [sys.executable, "-c", DECODE, path, str(context)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        assert found["peak"] <= 1.10 * found["held"], found
        assert set(found["read"]) == {found["weights"]}, found  # whatever the context, used or allowed
    assert found["reserved"] > 4 * found["held"]
