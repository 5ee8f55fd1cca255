"""Memory and graphs through CuPy, with that of fake_cupy.py."""

from paceline.native.cupy_memory import CupyMemory

from .fake_cupy import CUDARuntimeError, FakeCupy


def test_where_a_graph_cannot_be_launched_its_kernels_are(cupy: FakeCupy) -> None:
    memory = CupyMemory(cupy, 0, 1 << 16)
    ran: list[int] = []
    memory.run("key", ran.append)
    memory.run("key", ran.append)
    assert (len(ran), cupy.calls["launch"], memory.without_graph) == (2, 1, None)  # the second time it was captured
    cupy.fail["launch"] = CUDARuntimeError(2)
    memory.run("key", ran.append)
    assert (len(ran), cupy.calls["launch"]) == (3, 2) and memory.without_graph is not None
    del cupy.fail["launch"]
    memory.run("key", ran.append)
    assert (len(ran), cupy.calls["launch"]) == (4, 2)
