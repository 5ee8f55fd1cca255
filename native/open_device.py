"""A GPU for the CUDA core: whether there is one, how much of its memory we take, how many pages that makes.

Weights, tables, states, the room of a step and the pages lie in one arena. Without `gpu_memory` it is as large as the
model and a cache of full contexts need, at most 0.9 of what is free; with it, exactly that, and all of the rest is
pages.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from typing import Any

from .cuda_core import DeviceStepper
from .cupy_memory import CupyMemory
from .device_memory import DeviceMemory, EmulatedMemory
from .lost import DeviceLost
from .sizes import held_bytes, latent_room

SHARE = 0.9  # of the free memory
OWN_PART = 64  # one part in so many of the free memory is left to CUDA's kernels and graphs
SPARE = 1 << 30  # the room of a step, beside weights, what the core holds, and pages
SPARE_COLUMN = 1 << 18  # more of it for each of the step's columns
GET_CUPY = "pip install 'paceline[cuda]'"
GET_MODULE = "with CUDA's nvcc on the PATH: pip install -C cmake.define.PACELINE_CUDA=ON '.[cuda]'"
LEAST_CAPABILITY = (8, 0)
NO_DEVICE = 100  # cudaErrorNoDevice


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a daemon asks of a device."""

    slots: int
    columns: int  # tokens of the largest usual step
    outputs: int  # and predictions
    pages: int  # of all slots at full context, or of a cache that was given a size
    weight_bytes: int  # approximate
    gpu_memory: float | None = None  # a share of what is free up to 1, else bytes
    states: int = 0  # kept copies of recurrent states
    replay: int = 0  # tokens of the longest row that may be committed in part where layers are recurrent


def is_device(kind: str) -> bool:
    """Whether `kind` is emulator or cuda[:n]."""
    return kind == "emulator" or kind.partition(":")[0] == "cuda"


def open_device(
    kind: str, shape: Any, tables: Any, wanted: Wanted, cache_types: tuple[str, str]
) -> tuple[DeviceStepper, DeviceMemory]:
    """Still without weights and, on a GPU, without pages: see `take_rest`. ValueError says what is missing."""
    if kind == "emulator":
        native = importlib.import_module("paceline.native._emulator")
        memory: DeviceMemory = EmulatedMemory()
        pages = wanted.pages
    else:
        beside = held_bytes(shape, wanted.slots, wanted.states, wanted.replay) + latent_room(shape, wanted.columns)
        held = replace(wanted, weight_bytes=wanted.weight_bytes + beside)
        native, memory = open_gpu(kind, lambda free: arena_bytes(free, held, shape.page_bytes(*cache_types)))
        pages = 0
    stepper = DeviceStepper(
        native,
        memory,
        shape,
        tables,
        slots=wanted.slots,
        pages=pages,
        states=wanted.states,
        replay=wanted.replay,
        cache_type_k=cache_types[0],
        cache_type_v=cache_types[1],
    )
    return stepper, memory


def open_gpu(kind: str, arena: Any) -> tuple[Any, CupyMemory]:
    """The native module, and the memory, of which arena(free bytes) bytes are taken."""
    number = device_number(kind)
    native, cupy = find_modules(kind)
    check_device(kind, cupy, number)
    try:
        cupy.cuda.Device(number).use()
        native.use_device(number)
        free, _ = cupy.cuda.runtime.memGetInfo()
        return native, CupyMemory(cupy, number, arena(free))
    except (RuntimeError, DeviceLost) as error:  # another process owns it, or the build is for other GPUs
        raise ValueError(f"--device {kind}: the GPU cannot be used ({error})") from None


def device_number(kind: str) -> int:
    name, _, number = kind.partition(":")
    if name != "cuda" or (number and not number.isdecimal()) or kind.endswith(":"):
        raise ValueError(f"device {kind!r}: expected cpu, cuda or cuda:<number>")
    return int(number or 0)


def find_modules(kind: str) -> tuple[Any, Any]:
    """paceline.native._cuda and cupy, in this order; neither is imported for anything else."""
    try:
        native = importlib.import_module("paceline.native._cuda")
    except ImportError as error:
        raise ValueError(
            f"--device {kind}: the CUDA core is not in this build of Paceline ({error}); {GET_MODULE}"
        ) from None
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise ValueError(f"--device {kind}: CuPy is not there ({error}); {GET_CUPY}") from None
    return native, cupy


def check_device(kind: str, cupy: Any, number: int) -> None:
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        if error.status != NO_DEVICE:
            raise ValueError(
                f"--device {kind}: there is no NVIDIA driver that CuPy can use ({error}); install one that knows "
                f"CUDA {runtime.runtimeGetVersion() // 1000}"
            ) from None
        count = 0
    if count == 0:
        raise ValueError(
            f"--device {kind}: the driver sees no GPU here; look at nvidia-smi and at CUDA_VISIBLE_DEVICES"
        )
    if number >= count:
        raise ValueError(f"--device {kind}: this machine has {count} GPU{'s' * (count > 1)}, numbered from 0")
    about = runtime.getDeviceProperties(number)
    capability = about["major"], about["minor"]
    if capability < LEAST_CAPABILITY:
        raise ValueError(
            f"--device {kind}: this GPU has compute capability {capability[0]}.{capability[1]}, expected at least 8.0"
        )


def arena_bytes(free: int, wanted: Wanted, page_bytes: int) -> int:
    """How much of `free` bytes to take. MemoryError where that is more than there is."""
    asked = wanted.gpu_memory
    if asked is None:
        spare = SPARE + wanted.columns * SPARE_COLUMN
        return int(min(SHARE * free, 1.1 * wanted.weight_bytes + wanted.pages * page_bytes + spare))
    most = free - free // OWN_PART
    bytes = int(asked * most if asked <= 1 else asked)
    if bytes > most:
        raise MemoryError(
            f"--gpu-memory {bytes} is more than the {free} bytes that are free on the device less a {OWN_PART}th for "
            f"CUDA's kernels and graphs, which leaves {most}"
        )
    return bytes


def take_rest(stepper: DeviceStepper, memory: DeviceMemory, wanted: Wanted, cache_given: bool) -> int:
    """After the weights, takes room for the largest usual step, then pages: how many. MemoryError for too few."""
    stepper.make_room(wanted.columns, wanted.outputs)
    most = memory.free // stepper.page_bytes
    pages = most if wanted.gpu_memory is not None and not cache_given else min(most, wanted.pages)
    least = wanted.pages if cache_given else min(wanted.slots, wanted.pages)
    if pages < least:
        raise MemoryError(
            f"{least} pages of cache take {least * stepper.page_bytes} bytes, and {memory.free} of the device's memory "
            "are left beside the model"
        )
    stepper.take_pages(pages)
    return pages
