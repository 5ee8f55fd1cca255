"""The CuPy of the tests beside the real one."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from .fake_cupy import ERRORS, CUDARuntimeError, Event, FakeCupy, Graph, Stream


@pytest.mark.slow  # of the peers
def test_the_fake_has_cupys_names() -> None:
    """Against the real one, which needs no driver for this."""
    import cupy as real

    cupy = FakeCupy()
    for fake, own in ((cupy.cuda, real.cuda), (cupy.runtime, real.cuda.runtime)):
        assert [name for name in vars(fake) if not hasattr(own, name)] == []
    for name in ("memcpyHostToDevice", "memcpyDeviceToHost", "memcpyDeviceToDevice"):
        assert getattr(real.cuda.runtime, name) == getattr(cupy.runtime, name)
    for status in ERRORS:
        error = real.cuda.runtime.CUDARuntimeError(status)
        assert (error.status, str(error)) == (status, str(CUDARuntimeError(status)))
    with pytest.raises(TypeError):
        real.cuda.runtime.memsetAsync(np.int64(0), 0, 0, 0)
    room = np.zeros(64, np.uint8)
    pinned = real.cuda.PinnedMemoryPointer(SimpleNamespace(ptr=room.ctypes.data, size=64), 0)
    np.frombuffer(pinned, np.uint8, 8)[:] = 7
    assert (room[7], pinned.ptr) == (7, room.ctypes.data)
    for kind in (Stream, Graph, Event):
        methods = [name for name in vars(kind) if not name.startswith("_") and name not in ("later", "catch_up")]
        assert [name for name in methods if not hasattr(getattr(real.cuda, kind.__name__), name)] == []
