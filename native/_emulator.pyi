"""The CUDA core on the emulated device: what _cuda has, and the device's own memory and manners. For tests."""

from typing import Any

translated: bool  # kernels are nvcc's, translated from PTX (scripts/ptx_check)

class Room:
    """Memory with the buffer protocol, between pages without access; filled with 0xff."""

    def __init__(self, bytes: int) -> None: ...
    @property
    def place(self) -> int: ...

class Recording:
    """Launches of a capture, with the arguments they had."""

    def launch(self) -> None: ...
    @property
    def launches(self) -> int: ...

def begin_capture() -> None:
    """Launches are kept from here on, and not run."""

def end_capture() -> Recording: ...
def use_device(number: int) -> None:
    """Which device launches are for; nothing here."""

def set_order(order: str, seed: int = 0) -> None:
    """In which order lanes and warps run between two meetings: forward, reversed or shuffled."""

def set_multiprocessors(count: int) -> None:
    """How many steps are planned for."""

def watch(on: bool) -> None:
    """Whether launches of translated kernels fail at a race or an access that is too early (native/emulate/watch.h)."""

def note_host_write(place: int, bytes: int) -> None:
    """For watch(), which sees kernels only."""

def measure(on: bool) -> None:
    """Whether requests to memory of translated kernels are measured; forgets those that were."""

def measured() -> list[tuple[str, str, int, bool, str, int, int, int, int]]:
    """By instruction (native/emulate/traffic.h): kernel, file, line, shared, use (load, read-only load, …),
    requests, bytes, transfers, their least number."""

def counted_weights() -> int:
    """Bytes of weights that products have loaded since the last call; of translated kernels see measured()."""

def misuse(name: str) -> int:
    """Runs a kernel that breaks a rule (native/emulate/misuse.h): RuntimeError, or what it read."""

class Core:
    """See cuda_core.DeviceStepper."""

    def __init__(self, *arguments: Any, **options: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class ProductProbe:
    """One matrix alone; places are addresses in `memory`."""

    def __init__(
        self,
        type: str,
        rows: int,
        columns: int,
        data: Any,
        memory: Any,
        *,
        scale: float = 1.0,
        most_columns: int = 64,
        copies: int = 1,
    ) -> None: ...
    def quantize(self, x: int, columns: int, stream: int) -> None: ...
    def multiply(self, columns: int, out: int, stream: int, *, multiprocessors: int = 0, copy: int = 0) -> None: ...
    def read_rows(self, input: int, columns: int, out: int, stream: int) -> None: ...
    @property
    def in_stride(self) -> int: ...
    @property
    def out_stride(self) -> int: ...
    @property
    def bytes(self) -> int: ...
