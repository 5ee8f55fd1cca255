"""The engines of bench_llama_cpp.py behind one interface, each in a process of its own (see `serve`).

An engine computes a prompt of random ids once, in sequence 0; the others get copies of its keys and values, each in a
place of its own. The 32 tokens that are decoded from there are cut off again, so that the next decode starts from the
same state.
"""

import ctypes
import time
from array import array
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

GENERATED = 32
MOST = 16  # sequences
PIECE = 512  # tokens of a prompt to a step
VALUE_BYTES = 2  # of the cache, f16


class Engine(Protocol):
    facts: dict[str, Any]  # Facts for ours; for the peer what it says of itself

    def fill(self, count: int) -> None:
        """Forgets sequence 0 and computes its first `count` tokens, the last one's logits too."""

    def copy(self, count: int) -> None:
        """Copies the `count` tokens of sequence 0 to all others."""

    def decode(self, sequences: int, context: int) -> None:
        """Decodes GENERATED tokens of sequences 0 .. sequences - 1, which have `context` tokens, all in each step.
        Their ids are given, so that all engines use the same experts."""

    def truncate(self, sequences: int, context: int) -> None:
        """Cuts sequences 0 .. sequences - 1 back to their first `context` tokens."""


def prompt(count: int, vocab: int) -> list[int]:
    return np.random.default_rng(0).integers(10, vocab, count).tolist()


class Row(NamedTuple):
    slot: int
    tokens: list[int]
    position: int
    outputs: int
    table: array
    prompt_tokens: int = 0
    sampling: Any = None
    logits: bool = False
    allowed: None = None
    ahead: int = 0
    following: int | None = None
    continues: bool = False


@dataclass(frozen=True)
class Facts:
    """Of one model: bytes of the matrices that a step of one token reads, bytes of a position's keys and values that
    each layer reads, of a recurrent state, numbers of products with weights (those with states are not counted)."""

    weight_bytes: int
    cache_bytes: tuple[int, ...]
    windows: tuple[int, ...]  # of each layer; 0: full attention
    state_bytes: int  # of one sequence, all layers
    layer_products: int  # multiplications by weights for a token, all layers
    head_products: int  # and for the logits of one token


class Paceline:
    def __init__(self, model: str, threads: int, capacity: int, isa: str = "auto"):
        from paceline.native.core import PAGE, open_core
        from paceline.native.model import read_shape
        from paceline.native.tensors import expected_tensors, is_vector
        from paceline.native.weights import open_model

        self.core = open_core(Path(model), slots=MOST, context=capacity, threads=threads, isa=isa, states=1)
        pages = -(-capacity // PAGE)
        self.tables = [array("i", range(slot * pages, (slot + 1) * pages)) for slot in range(MOST)]
        shape = read_shape(*open_model(Path(model)))
        self.kept = 0 if "recurrent" in shape.kinds else None  # the state behind the context
        used = {name: shape.experts_used / shape.experts for name, *_ in expected_tensors(shape) if "_exps." in name}
        sizes = {
            name: rows * columns * used.get(name, 1)
            for name, rows, columns in expected_tensors(shape)
            if not is_vector(name)
        }
        head = sizes.pop("token_embd.weight")
        head = sizes.pop("output.weight", head)
        sizes.pop("per_layer_token_embd.weight", None)  # of which rows are read
        heads = [shape.heads_of(kind) for kind in shape.kinds]
        _, weight_bytes = self.core.step([Row(0, [0], 0, 1, self.tables[0])])
        self.facts = asdict(
            Facts(
                weight_bytes=weight_bytes,
                cache_bytes=tuple(
                    VALUE_BYTES * 2 * each.kv_heads * each.head_size * shape.attends(layer)
                    for layer, each in enumerate(heads)
                ),
                state_bytes=self.core.state_bytes,
                windows=tuple(shape.window if kind == "sliding" else 0 for kind in shape.kinds),
                layer_products=round(sum(sizes.values())),
                head_products=round(head),
            )
        )

    def fill(self, count: int) -> None:
        self.core.commit(0, 0)
        ids = prompt(count, self.core.vocab)
        for first in range(0, count, PIECE):
            piece = ids[first : first + PIECE]
            last = first + len(piece) == count
            self.core.step([Row(0, piece, first, int(last), self.tables[0])])
            self.core.commit(0, first + len(piece))
        if self.kept is not None:
            self.core.keep(0, self.kept)

    def copy(self, count: int) -> None:
        for table in self.tables[1:]:
            for source, target in zip(self.tables[0], table, strict=True):
                self.core.copy_page(source, target)
        self.truncate(MOST, count)

    def decode(self, sequences: int, context: int) -> None:
        for position in range(context, context + GENERATED):
            self.core.step([Row(slot, [1000 + slot], position, 1, self.tables[slot]) for slot in range(sequences)])
            for slot in range(sequences):
                self.core.commit(slot, position + 1)

    def truncate(self, sequences: int, context: int) -> None:
        for slot in range(sequences):
            self.core.seat(slot, prompt(context, self.core.vocab), self.kept)


class LlamaCpp:
    def __init__(self, model: str, threads: int, capacity: int, flash_attention: bool = True):
        import llama_cpp as lib

        self.lib = lib
        self.quiet = lib.llama_log_callback(lambda level, text, data: None)  # must live as long as it may be called
        lib.llama_log_set(self.quiet, ctypes.c_void_p(0))
        lib.llama_backend_init()
        loaded = lib.llama_model_load_from_file(model.encode(), lib.llama_model_default_params())
        if not loaded:
            raise SystemExit(f"{model}: llama.cpp cannot load it")
        self.vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(loaded))
        self.recurrent = lib.llama_model_is_hybrid(loaded)  # its sequences cannot be truncated
        self.kept = (ctypes.c_uint8 * 0)()
        options = lib.llama_context_default_params()
        options.n_ctx = -(-capacity // 256) * 256 * MOST
        options.n_seq_max = MOST
        options.n_batch = options.n_ubatch = PIECE
        options.n_threads = options.n_threads_batch = threads
        options.swa_full = False  # as in its own server: sliding layers keep only their window
        options.flash_attn_type = (
            lib.LLAMA_FLASH_ATTN_TYPE_AUTO if flash_attention else lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        self.context = lib.llama_init_from_model(loaded, options)
        if not self.context:
            raise SystemExit(f"{model}: llama.cpp cannot make a context of {options.n_ctx}")
        self.memory = lib.llama_get_memory(self.context)
        self.facts = {"system_info": lib.llama_print_system_info().decode().strip()}

    def run(self, tokens: list[tuple[int, int, int, bool]]) -> None:
        """(id, position, sequence, wants logits)"""
        lib = self.lib
        batch = lib.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for index, (token, position, sequence, wanted) in enumerate(tokens):
            batch.token[index] = token
            batch.pos[index] = position
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = sequence
            batch.logits[index] = wanted
        if lib.llama_decode(self.context, batch):
            raise RuntimeError("llama_decode failed")
        lib.llama_synchronize(self.context)
        lib.llama_batch_free(batch)

    def fill(self, count: int) -> None:
        self.lib.llama_memory_seq_rm(self.memory, 0, -1, -1)
        ids = prompt(count, self.vocab)
        for first in range(0, count, PIECE):
            piece = ids[first : first + PIECE]
            self.run([(token, first + i, 0, first + i == count - 1) for i, token in enumerate(piece)])

    def copy(self, count: int) -> None:
        """Each sequence has its own part of the cache (`kv_unified` is off), so this really copies; recurrent states
        are copied once they are written, in the first decode, which is not measured."""
        for sequence in range(1, MOST):
            self.lib.llama_memory_seq_rm(self.memory, sequence, -1, -1)
            self.lib.llama_memory_seq_cp(self.memory, 0, sequence, -1, -1)
        if self.recurrent:
            self.kept = (ctypes.c_uint8 * self.lib.llama_state_seq_get_size(self.context, 0))()
            self.lib.llama_state_seq_get_data(self.context, self.kept, len(self.kept), 0)

    def decode(self, sequences: int, context: int) -> None:
        for position in range(context, context + GENERATED):
            self.run([(1000 + sequence, position, sequence, True) for sequence in range(sequences)])

    def truncate(self, sequences: int, context: int) -> None:
        for sequence in range(sequences):
            if self.recurrent:
                self.lib.llama_memory_seq_rm(self.memory, sequence, -1, -1)
                done = self.lib.llama_state_seq_set_data(self.context, self.kept, len(self.kept), sequence)
            else:
                done = self.lib.llama_memory_seq_rm(self.memory, sequence, context, -1)
            if not done:
                raise RuntimeError("llama.cpp cannot truncate this model's sequences")


OURS = "paceline"
PEERS = {"auto": "llama.cpp", "off": "llama.cpp without flash attention"}  # flash attention as it chooses, and off
ENGINES: dict[str, Callable[[str, int, int], Engine]] = {
    OURS: Paceline,
    PEERS["auto"]: LlamaCpp,
    PEERS["off"]: partial(LlamaCpp, flash_attention=False),
}


def serve(name: str, model: str, threads: int, capacity: int, isa: str, pipe: Connection) -> None:
    """Sends the facts, then answers each (method, arguments) with the seconds it took, until anything else comes. `isa`
    is ours; the peer's was chosen when it was built."""
    open_engine = partial(Paceline, isa=isa) if name == OURS else ENGINES[name]
    engine = open_engine(model, threads, capacity)
    pipe.send(engine.facts)
    while isinstance(task := pipe.recv(), tuple):
        method, arguments = task
        begun = time.perf_counter()
        getattr(engine, method)(*arguments)
        pipe.send(time.perf_counter() - begun)
