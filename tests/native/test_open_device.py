"""How much of a device's memory a core takes."""

import pytest
from paceline.native.open_device import Wanted, arena_bytes

FREE = 64 << 20
MOST = 63 << 20  # the rest is CUDA's


def wanted(gpu_memory: float) -> Wanted:
    return Wanted(slots=1, columns=1, outputs=1, pages=1, weight_bytes=1, gpu_memory=gpu_memory)


def test_something_is_left_to_cuda() -> None:
    assert arena_bytes(FREE, wanted(1.0), 1) == arena_bytes(FREE, wanted(MOST), 1) == MOST
    assert arena_bytes(FREE, wanted(0.5), 1) == MOST // 2
    for bytes in (MOST + 1, FREE):
        with pytest.raises(MemoryError, match=f"--gpu-memory {bytes} is more than .* which leaves {MOST}"):
            arena_bytes(FREE, wanted(bytes), 1)
