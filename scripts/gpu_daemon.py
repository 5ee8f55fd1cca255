"""The tokens of `paceline daemon --device cuda` beside those of the CPU: three requests at once, greedy and sampled.

    python scripts/gpu_daemon.py [cuda[:n]] [MODEL]     # MODEL: the demo model where its file is, else a tiny one

Exit status 1 if any token differs: for a model in BF16 or F16, which a GPU rounds in its own way, one may differ at a
near-tie. `emulator` instead of cuda tests this script: that device has no daemon, and the CPU stands in for it.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from paceline.native.files.demo_model import DEMO, cache_folder

ROOT = Path(__file__).parent.parent
TOKENS = 256
REQUESTS = f"""REQ 1 START ids:1,2,3,4,5,6,7 {TOKENS} ignore_eos=1
REQ 2 START ids:9,8,7 {TOKENS} temp=0.8 seed=7 ignore_eos=1
REQ 3 START ids:20,30,40,50,60 {TOKENS} ignore_eos=1
"""


def tiny(folder: Path) -> Path:
    path = folder / "tiny.gguf"
    script = ROOT / "scripts" / "make_tiny_model.py"
    words = ["--seed=1", "--architecture=qwen3", "--type=Q4_K", "--width=256", "--ffn=512", "--context=1024"]
    words += ["--heads=4", "--kv-heads=2", "--head-size=64"]
    subprocess.run([sys.executable, str(script), f"--out={path}", *words], check=True)
    return path


def tokens(model: Path, device: str) -> dict[int, list[int]]:
    """Of each request, by its number."""
    words = [sys.executable, "-m", "paceline.daemon.main", str(model), "--device", device, "--stream", "text", "--auto"]
    begun = time.perf_counter()
    done = subprocess.run([*words, "--max-ctx", "512"], input=REQUESTS, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"--device {device}: exit status {done.returncode}: {done.stderr.strip()[-400:]}")
    found: dict[int, list[int]] = {}
    for line in done.stdout.splitlines():
        kind, number, *rest = line.split(" ", 2)
        if kind == "-2" and int(rest[0]) >= 0:
            found.setdefault(int(number), []).append(int(rest[0]))
        elif kind == "-3" and '"error"' in line:
            print(line[:200])
    print(f"{device}: {sum(map(len, found.values()))} tokens, {time.perf_counter() - begun:.1f} s with loading")
    return found


def main() -> int:
    device = (sys.argv[1:] or ["cuda"])[0]
    with tempfile.TemporaryDirectory() as folder:
        demo = cache_folder() / Path(DEMO.member).name
        model = Path(sys.argv[2]) if len(sys.argv) > 2 else demo if demo.is_file() else tiny(Path(folder))
        expected = tokens(model, "cpu")
        found = tokens(model, "cpu" if device == "emulator" else device)
    if not expected or found != expected:
        for number, own in expected.items():
            other = found.get(number, [])
            at = next((i for i, (a, b) in enumerate(zip(own, other, strict=False)) if a != b), len(other))
            print(f"request {number}: {len(own)} tokens on the CPU, the same up to {at} on {device}")
        return 1
    print(f"{model.name}: the same {sum(map(len, expected.values()))} tokens")
    return 0


if __name__ == "__main__":
    sys.exit(main())
