"""Models that many tests read: tiny seeded ones written on demand, and the demo model."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings
from paceline.native.weights import find_model

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
import make_tiny_model

ROOT = Path(__file__).parent.parent
TinyModel = Callable[..., Path]
MOST_NAME = 160  # characters: file systems take 255

# The same examples every time, on however slow a machine: a run judges the change, not the dice.
# `--hypothesis-profile default` explores.
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in the background with SIGINT ignored; what the tests interrupt would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    """tiny_model(seed=1, kv_heads=1, type="Q8_0", tied=True, …): the options of make_tiny_model.py; written once."""
    folder = tmp_path_factory.mktemp("tiny-models")

    def written(seed: int = 1, tied: bool = False, **options: object) -> Path:
        words = [f"--seed={seed}", "--tied" if tied else "--untied"]
        words += [f"--{name.replace('_', '-')}={value}" for name, value in sorted(options.items())]
        name = "".join(words).lstrip("-")
        path = folder / f"{name[:MOST_NAME]}-{crc32(name.encode()):08x}.gguf"
        if not path.exists():
            # In this process: one of its own takes ten times as long, and there are hundreds.
            with patch.object(sys, "argv", ["make_tiny_model.py", f"--out={path}", *words]):
                make_tiny_model.main()
        return path

    return written


@pytest.fixture(scope="session")
def demo_model() -> Path:
    return find_model(None)
