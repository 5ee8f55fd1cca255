"""Model files that are damaged, given to the real process: exit code 66, one sentence, nothing on the stream."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

FEED_FORWARD = b"llama.feed_forward_length" + struct.pack("<I", 4)
HEADS = b"llama.attention.head_count" + struct.pack("<I", 4)
EPSILON = b"llama.attention.layer_norm_rms_epsilon" + struct.pack("<I", 6)
BASE = b"llama.rope.freq_base" + struct.pack("<I", 6)
CONTEXT = b"llama.context_length" + struct.pack("<I", 4)


def after(key: bytes, form: str, *values: float) -> Callable[[bytes], bytes]:
    """Writes numbers where the value of a key is."""

    def change(data: bytes) -> bytes:
        begin = data.index(key) + len(key)
        packed = struct.pack(form, *values)
        return data[:begin] + packed + data[begin + len(packed) :]

    return change


def nested(data: bytes) -> bytes:
    """The value of a key becomes arrays in arrays; what follows is lost."""
    begin = data.index(CONTEXT) + len(CONTEXT) - 4
    return data[:begin] + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 3000


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut in the header": (lambda data: data[:300], "it is truncated"),
    "cut in the weights": (lambda data: data[:-1000], "it is truncated"),
    "counts": (lambda data: data[:8] + struct.pack("<QQ", 2**63, 2**63) + data[24:], "it is"),
    "version": (lambda data: data[:4] + struct.pack("<I", 99) + data[8:], "version 99"),
    "heads": (after(HEADS, "<I", 3), "heads"),
    "no heads": (after(HEADS, "<I", 0), "expected a whole number above 0"),
    "a wide layer": (after(FEED_FORWARD, "<I", 2**32 - 1), "expected"),
    "a context past 32 bits": (after(CONTEXT, "<I", 2**32 - 1), "its context is"),
    "epsilon": (after(EPSILON, "<f", float("nan")), "expected a number above 0"),
    "base": (after(BASE, "<f", float("-inf")), "expected a number above 0"),
    "nested arrays": (nested, "an array of arrays"),
    "a text that is none": (lambda data: data.replace(b"<|im_start|>", b"\xff" * 12, 1), "it is damaged"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_model(tiny_model: Callable[..., Path], tmp_path: Path, name: str) -> None:
    change, words = DAMAGE[name]
    path = tmp_path / "damaged.gguf"
    path.write_bytes(change(tiny_model().read_bytes()))
    command = [sys.executable, "-m", "paceline.daemon.main", str(path)]
    done = subprocess.run(command, input=b"PING\n", capture_output=True, timeout=60, check=False)
    log = done.stderr.decode()
    assert (done.returncode, done.stdout) == (66, b""), log
    assert log.count("\n") == 1 and words in log, log
    assert log.startswith(("paceline: cannot read the model", "paceline: cannot use the model"))
