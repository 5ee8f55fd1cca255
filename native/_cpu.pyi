"""The C++ core (bindings/). Wrong arguments are ValueError; a step's rows need the attributes of a plan's Row."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .stepper import Output

class Shape:
    """Sizes of a model, see native/cpu/core.h; `context` is the most positions of one slot."""

    layers: int
    drafting: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    ffn: int
    vocab: int
    context: int
    kinds: Sequence[str]  # attention, sliding or recurrent, one a layer
    rope_size: int
    rope_pairs: bool
    norm_epsilon: float
    tied: bool
    qkv_bias: bool
    output_bias: bool
    expert_bias: bool
    qk_norm: bool
    sinks: bool
    gated_attention: bool
    head_gates: bool
    post_norms: bool
    post_norm_epsilon: float
    embedding_norm: bool
    layer_norm: bool
    parallel: bool
    activation: str  # silu, gelu or clamped
    window: int
    embedding_scale: float
    query_scale: float
    attention_softcap: float
    final_softcap: float
    experts: int
    experts_used: int
    expert_ffn: int
    shared_ffn: int
    dense_layers: int
    sigmoid_routing: bool
    choice_bias: bool
    normalize_experts: bool
    shared_gated: bool
    conv_kernel: int
    key_heads: int
    value_heads: int
    key_size: int
    value_size: int
    rotates_first: bool
    state_space: bool
    one_branch: bool
    grouped_heads: bool
    local_heads: int
    local_kv_heads: int
    local_head_size: int
    local_rope_size: int
    value_norm: bool
    keys_as_values: bool
    borrowing_layers: int
    borrowing_ffn: int
    layer_scale: bool
    token_inputs: int
    expert_norms: bool
    expert_groups: int
    groups_used: int
    latent: int
    query_rank: int
    latent_keys: int
    latent_values: int

    def __init__(self) -> None: ...
    def page_bytes(self, cache_type_k: str, cache_type_v: str) -> int:
        """Bytes of 64 positions of cache, all layers."""

    @property
    def state_bytes(self) -> int:
        """Bytes of one recurrent state, all layers; 0 where none is recurrent."""

    @property
    def update_bytes(self) -> int:
        """Bytes that a slot keeps of each token of a row that may be committed in part, all layers."""

class Core:
    def __init__(
        self,
        shape: Shape,
        cosine: npt.NDArray[np.float32],
        sine: npt.NDArray[np.float32],
        local_cosine: npt.NDArray[np.float32],
        local_sine: npt.NDArray[np.float32],
        temperatures: npt.NDArray[np.float32],
        *,
        slots: int,
        pages: int,
        threads: int,
        states: int = 0,
        replay: int = 0,
        isa: str,
        cache_type_k: str = "f16",
        cache_type_v: str = "f16",
    ) -> None:
        """cosine, sine: [context, rope_size / 2]; local: of sliding layers, or empty. temperatures: [context], factors
        of queries, or empty.

        states: how many can be kept, resident where touched. replay: where layers are recurrent, a row of more tokens
        is committed whole. isa: auto, or one of instruction_sets(). Cache types: f32, f16, bf16, q8_0, q4_0.
        """

    def load(
        self,
        name: str,
        type: str,
        rows: int,
        columns: int,
        data: npt.NDArray[np.uint8],
        scales: Sequence[float] = (),
        mapped: bool = False,
    ) -> None:
        """One tensor by its GGUF name, `data` being its bytes as in the file; repacked, not kept.

        scales: factors of a matrix, one for all or one per expert. mapped: data lies in a file mapped for reading, and
        a matrix leaves the process's memory piece by piece as it is read.
        """

    def step(self, rows: Sequence[Any]) -> tuple[list[Output], int]:
        """Per row its Output; then the weight bytes."""

    def commit(self, slot: int, position: int) -> None: ...
    def seat(self, slot: int, ids: Sequence[int], state: int | None) -> None:
        """Stands at len(ids) as if fed exactly `ids`; state: only where layers are recurrent and there are ids."""

    def keep(self, slot: int, state: int) -> None:
        """Copies the slot's committed recurrent state."""

    def copy_page(self, source: int, target: int) -> None: ...
    def read_page(self, page: int) -> bytes: ...
    def write_page(self, page: int, data: bytes) -> None: ...
    def read_state(self, state: int) -> bytes:
        """The position as int64, then state_bytes of float32; little-endian."""

    def write_state(self, state: int, data: bytes) -> None: ...
    @property
    def state_bytes(self) -> int:
        """Of one kept state; 0 where no layer is recurrent."""

    @property
    def isa(self) -> str: ...
    @property
    def weight_bytes(self) -> int:
        """What a step that predicts something unpacks, whatever its rows; all of a layer that drafts but its head."""

    @property
    def token_bytes(self) -> int:
        """What a step of one token reads, but for what drafts."""

    @property
    def draft_bytes(self) -> int:
        """What drafting one token reads; 0: no layer drafts."""

    @property
    def head_bytes(self) -> int:
        """The part of it that is the vocabulary's, not read by a step that predicts nothing."""

    @property
    def loaded_bytes(self) -> int:
        """All weights, as they lie in memory."""

class AttentionProbe:
    """For tests: the cache of one kv head, NaN where nothing was written, and attention over it."""

    def __init__(
        self,
        *,
        head_size: int,
        pages: int,
        key_type: str = "f16",
        value_type: str = "f16",
        window: int = 0,
        softcap: float = 0.0,
    ) -> None: ...
    def write(self, keys: npt.NDArray[np.float32], values: npt.NDArray[np.float32], position: int, isa: str) -> None:
        """keys, values [n, head_size] into positions position .. position + n - 1."""

    def attend(
        self,
        queries: npt.NDArray[np.float32],
        positions: npt.NDArray[np.int32],
        isa: str,
        *,
        split_by_split: bool = False,
        sinks: Sequence[float] = (),
    ) -> npt.NDArray[np.float32]:
        """queries [n, head_size], scaled already, n at most 28, at positions [n] -> [n, head_size].

        split_by_split: each split by itself, the last one first, and what they came to merged. sinks [n]: a score of
        each query that takes part in the softmax and has no value.
        """

    def pool(self) -> bytes:
        """The cache as it lies in memory."""

class ProductProbe:
    """For tests: one matrix alone, `data` being its bytes as in a file."""

    def __init__(self, type: str, rows: int, columns: int, data: npt.NDArray[np.uint8]) -> None: ...
    def rows(self) -> npt.NDArray[np.float32]:
        """The weights as an embedding reads them: [rows, columns]."""

    def product(self, inputs: npt.NDArray[np.float32], isa: str) -> npt.NDArray[np.float32]:
        """inputs [n, columns] -> [n, rows]."""

class PassProbe:
    """For scripts/bench_formats.py: the matrices of a step without the rest of it."""

    def __init__(self, threads: int) -> None: ...
    def add(self, type: str, rows: int, columns: int, data: npt.NDArray[np.uint8]) -> int:
        """A matrix of integer weights, `data` being its bytes as in a file, by the number that is returned."""

    def sweep(self, bytes: int) -> float:
        """Seconds of reading `bytes` of other memory, after which no weight is in a cache."""

    def pass_over(
        self, phases: Sequence[Sequence[tuple[int, int]]], *, per_column: bool, isa: str
    ) -> tuple[float, int]:
        """Phases of (matrix, columns), shared among the threads by row tiles -> seconds, weight bytes unpacked.

        A row tile is unpacked once for all of its columns, at most 16, or per_column: once for each.
        """

def instruction_sets() -> list[str]: ...
def read_roof(threads: int, *, mebibytes: int = 1024, rounds: int = 5, isa: str = "auto") -> float:
    """Bytes a second that the threads together read from memory, none of them from a cache."""

def multiply_roof(threads: int, *, rounds: int = 5, isa: str = "auto") -> float:
    """Products of 8-bit codes a second, summed in registers: what no step can exceed."""

def divide(threads: int, operations: Sequence[int], *, late: bool, seconds: float) -> tuple[list[list[int]], bool]:
    """For tests: operations of so many items, shared by a team -> how often each item was done.

    late: the first member waits in its first item of each operation until others have done all but half a share, at
    most so many seconds. Second: whether that came about.
    """

def half_to_float(bits: int) -> float: ...
def float_to_half(value: float) -> int: ...
def uniform(seed: int, position: int) -> float: ...
def sample(
    logits: npt.NDArray[np.float32],
    history: Sequence[int],
    prompt: int,
    *,
    temp: float,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    rep_penalty: float = 1.0,
    freq_penalty: float = 0.0,
    pres_penalty: float = 0.0,
    seed: int = 0,
    allowed: Sequence[int] = (),
    isa: str = "auto",
) -> int: ...
