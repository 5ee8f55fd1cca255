"""The face of everything that computes: opens a model file on a device and runs ragged steps.

`open_core` gives an object with `step(rows)` and `commit(slot, position)` (see reference.py for the contract) and with
what a daemon has to know: model, architecture, device, vocab, context, eos, page_bytes, pages, state_bytes,
fingerprint. What was computed once is used again by `seat` and the copies beside it (see stepper.py).
"""

import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from ._cpu import Core as NativeCore
from ._cpu import Shape
from .arrange import computed_with, embedding_scale
from .cuda_core import DeviceStepper
from .fingerprint import Fingerprint
from .loading import ROUNDED_BY_GPU, for_gpu, load
from .machine import cache_pages, check_cache, read_memory, usable_cores
from .model import read_shape
from .open_device import Wanted, is_device, open_device, take_rest
from .quantize import quantized
from .reference import Reference
from .rope import EMPTY, Tables, local_rope_table, rope_table, temperatures, unrotated_table
from .shape import ModelShape
from .sizes import held_bytes
from .stepper import ReferenceStepper, Stepper
from .weights import Metadata, ModelUnreadable, Tensor, open_model

PAGE = 64  # positions to a page of the cache
DEFAULT_CONTEXT = 4096
COLUMN_COSTS = {"amx": 0.15, "avx512": 0.15, "avxvnni": 0.2, "dotprod": 0.2, "avx2": 0.25, "neon": 0.3, "plain": 1.0}
"""What one more token makes a step of two threads take, as a share of a step of one token. avx512 and avx2: between
those of files that two cores read slowly and fast (scripts/bench_drafts.py); amx as avx512, which multiplies few
tokens there, too; the others, which are not measured, by what their instructions multiply."""
MOST_SCALING = 8
"""Threads up to which more of them make a step of many tokens faster, but not one of a single token, which waits for
memory."""
DEVICE_COLUMN_COST = 0.04
"""The same of a GPU: on an H100 0.01 to 0.07, 0.03 for an 8B in Q4_K (benchmarks/cuda_H100.json)."""
# Fields that only the rotation tables or the tensors need, and fields that C++ has in another form; all others it has
# by the same name.
OF_THE_TABLES = {
    "rope_base",
    "local_rope_base",
    "rope_divisors",
    "rope_amplitude",
    "short_divisors",
    "short_context",
    "temperature_scale",
    "temperature_length",
}
OF_THE_TENSORS = {"residual_scale", "expert_scale", "logit_scale", "ffn_norm", "curves"}  # arrange.py, and names
OTHERWISE_NAMED = {"architecture", "rope_layout", "kinds", "embedding_scale"}


class Core:
    """A model on a device: the shape of its cache and the ragged step.

    `pages` pages of 64 positions are shared by `slots` slots. The cores' `step` releases the GIL.
    """

    def __init__(
        self,
        metadata: Metadata,
        context: int,
        pages: int,
        page_bytes: int,
        device: str,
        stepper: Stepper,
        fingerprint: Fingerprint,
        column_cost: float,
        draft_cost: float = 0.0,
    ):
        self.model = metadata.name
        self.architecture = metadata.architecture
        self.vocab = metadata.vocab
        self.eos = metadata.eos
        self.context = context
        self.pages = pages
        self.page_bytes = page_bytes
        self.device = device
        self.stepper = stepper
        self.state_bytes = stepper.state_bytes
        self.has_files = not isinstance(stepper, ReferenceStepper)  # pages and states can be read and written
        self.greedy_only = isinstance(stepper, ReferenceStepper)  # rows with sampling are refused
        self.seats_feed = isinstance(stepper, ReferenceStepper)  # it has no pages: seat computes the ids again
        self.column_cost = column_cost
        self.draft_cost = draft_cost
        self.wait_cost = stepper.wait_cost if isinstance(stepper, DeviceStepper) else 0.0
        # Of the model, the cache types, and a GPU that rounds in its own way; only used for files.
        self.fingerprint = fingerprint.hexdigest() if self.has_files else ""
        # The stepper's methods without a wrapper: commit is called for every row of every step.
        self.step = stepper.step
        self.commit = stepper.commit
        self.seat = stepper.seat
        self.keep = stepper.keep
        self.copy_page = stepper.copy_page
        self.read_page = stepper.read_page
        self.write_page = stepper.write_page
        self.read_state = stepper.read_state
        self.write_state = stepper.write_state

    def meanwhile(self, work: Callable[[], None]) -> bool:
        """From now on `work` is called in each step, while a device computes it. False, and no calls, on the CPU."""
        if isinstance(self.stepper, DeviceStepper):
            self.stepper.meanwhile = work
            return True
        return False


def open_core(
    path: Path,
    *,
    slots: int,
    context: int | None = None,
    cache_bytes: int | None = None,
    keep_free: int | None = None,
    states: int = 0,
    replay: int = 0,
    threads: int | None = None,
    isa: str = "auto",
    cache_type_k: str = "f16",
    cache_type_v: str = "f16",
    kind: str = "cpu",
    quantize: str | None = None,
    gpu_memory: float | None = None,
    step_tokens: int = 512,
    step_outputs: int = 0,
    drafting: bool = False,
    progress: bool = False,
) -> Core:
    """Loads a model: `kind` "cpu" is the C++ core, "reference" the NumPy one, "cuda" or "cuda:<n>" a GPU's.

    context: positions per slot, the model's or 4096 by default, whichever is less. cache_bytes: size of the page pool,
    by default what all slots need at full context, if there is memory for it beside the model and `keep_free` bytes
    (machine.cache_pages). states: how many recurrent states can be kept; they take memory once written. replay: where
    layers are recurrent, a row of more tokens can only be committed whole; the reference has no such limit. threads: by
    default machine.usable_cores(). quantize: what float matrices become, "q8_0" or "q4_0".
    gpu_memory: of a GPU, a share of what is free (up to 1) or bytes, for everything (open_device.py). step_tokens,
    step_outputs: tokens of the largest usual step, and predictions if those are more than slots, for which a GPU
    reserves room at the start. drafting: a layer that drafts is loaded, if the model has one that can be used; rows may
    then ask for drafted tokens. The reference has none.
    cache_type_k, cache_type_v: f32, f16, bf16, q8_0 or q4_0; the reference keeps float32, and pages as if it were f16.
    Raises ModelUnreadable for the file, MemoryError, ValueError for the other arguments. In a process that was forked
    from this one the core has no threads: open another there.
    """
    metadata, tensors, shape = _read(path, quantize, drafting and kind != "reference")
    if context is not None and context > shape.context:
        raise ValueError(f"a context of {context} is more than the model's {shape.context}")
    if not any(map(shape.attends, range(shape.layers))):
        raise ModelUnreadable(f"cannot use the model {path}: none of its layers has attention, expected one at least")
    context = context or min(shape.context, DEFAULT_CONTEXT)
    shape = shape.within(context)
    native = native_shape(shape, context)
    if kind == "reference":
        cache_type_k = cache_type_v = "f16"
    page_bytes = native.page_bytes(cache_type_k, cache_type_v)
    full = slots * -(-context // PAGE)
    taken = sum(tensor.nbytes for tensor in tensors) + held_bytes(native, slots, states, replay)
    if cache_bytes is not None:
        if kind == "cpu":
            check_cache(cache_bytes, read_memory(), taken)
        pages = cache_bytes // page_bytes
    elif is_device(kind):
        pages = full
    else:
        pages = cache_pages(full, slots, page_bytes, read_memory(), taken, keep_free)
    if pages < 1:
        raise ValueError(f"a cache of {cache_bytes} bytes holds no page of {page_bytes} bytes")
    fingerprint = Fingerprint(shape, cache_type_k, cache_type_v)
    if kind == "reference":
        stepper: Stepper = ReferenceStepper(Reference(shape, tensors), slots, context)
        return Core(metadata, context, pages, page_bytes, "numpy", stepper, fingerprint, COLUMN_COSTS["plain"])
    if is_device(kind):
        wanted = Wanted(
            slots,
            step_tokens,
            max(slots, step_outputs),
            pages,
            sum(tensor.nbytes for tensor in tensors),
            gpu_memory,
            states,
            replay,
        )
        device, memory = open_device(kind, native, tables(shape, context), wanted, (cache_type_k, cache_type_v))
        load(device, computed_with(shape, tensors), fingerprint, progress, on_gpu=True)
        if any(tensor.type in ROUNDED_BY_GPU and tensor.rows > 1 for tensor in map(for_gpu, tensors)):
            fingerprint.add_machine(memory.name)
        if kind != "emulator":
            pages = take_rest(device, memory, wanted, cache_bytes is not None)
        draft_cost = device.draft_bytes / device.token_bytes
        return Core(
            metadata, context, pages, page_bytes, memory.name, device, fingerprint, DEVICE_COLUMN_COST, draft_cost
        )
    threads = threads or usable_cores()
    core = NativeCore(
        native,
        *tables(shape, context),
        slots=slots,
        pages=pages,
        states=states,
        replay=replay,
        threads=threads,
        isa=isa,
        cache_type_k=cache_type_k,
        cache_type_v=cache_type_v,
    )
    load(core, computed_with(shape, tensors), fingerprint, progress)
    cost = COLUMN_COSTS[core.isa] * 2 / min(max(2, threads), MOST_SCALING)
    name, draft_cost = f"cpu ({core.isa}, {threads} threads)", core.draft_bytes / core.token_bytes
    return Core(metadata, context, pages, page_bytes, name, core, fingerprint, cost, draft_cost)


def _read(path: Path, quantize: str | None, drafting: bool) -> tuple[Metadata, list[Tensor], ModelShape]:
    """A layer that drafts but is damaged is left out: no text needs it."""
    try:
        metadata, tensors = open_model(path, drafting)
        if quantize is not None:
            tensors = quantized(tensors, quantize)
        return metadata, tensors, read_shape(metadata, tensors)
    except ModelUnreadable as error:
        if not drafting:
            raise
        opened = _read(path, quantize, False)
        print(f"paceline: without its layer that drafts: {error}", file=sys.stderr)
        return opened


def native_shape(shape: ModelShape, context: int) -> Shape:
    native = Shape()
    for name in {field.name for field in fields(shape)} - OF_THE_TABLES - OF_THE_TENSORS - OTHERWISE_NAMED:
        setattr(native, name, getattr(shape, name))  # an AttributeError means a formula that the C++ cores lack
    native.context = context
    native.rope_pairs = shape.rope_layout == "pairs"
    # The cores know two kinds of attention, each with a table of rotation. A sliding layer without a window has full
    # attention, and its own table.
    unrotated = "attention" if shape.window else "sliding"
    native.kinds = [unrotated if kind == "unrotated" else kind for kind in shape.kinds]
    native.embedding_scale = embedding_scale(shape)
    return native


def tables(shape: ModelShape, context: int) -> Tables:
    full, local = rope_table(shape, context), (EMPTY, EMPTY)
    if "sliding" in shape.kinds:
        local = local_rope_table(shape, context)
    if "unrotated" in shape.kinds:
        still = unrotated_table(shape, context)
        full, local = (still, local) if shape.window else (full, still)
    return Tables(*full, *local, temperatures(shape, context))
