"""The layer that drafts in NumPy and llama.cpp's, on the same file and tokens.

    python scripts/compare_llama_drafts.py MODEL.gguf [--tokens 24] [--ahead 3]

llama.cpp computes the model's streams and its drafts behind them, one behind each token and then chained behind the
last; the NumPy reference (native/reference_draft.py), which the cores are tested against, computes both itself. Ends
with exit code 1 unless all logits agree to 1e-3 of their spread and all tokens. Needs the peers extra.
"""

import argparse
import ctypes
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from llama_cpp import llama_cpp as lib
from llama_cpp import llama_cpp_ext as extra
from paceline.native.model import read_shape
from paceline.native.reference_draft import DraftingReference
from paceline.native.weights import open_model

CONTEXT = 512
F32 = 0
MOST = 1e-3


@lib.llama_log_callback
def quiet(level: int, text: bytes, data: object) -> None:
    pass


class Found(NamedTuple):
    logits: np.ndarray  # [n, vocab]
    streams: np.ndarray  # [n, width], behind the last norm


class Peer:
    """A context of llama.cpp over one sequence: of the model, or of the layer that drafts."""

    def __init__(self, model: object, drafts: bool) -> None:
        options = lib.llama_context_default_params()
        options.n_ctx = options.n_batch = options.n_ubatch = CONTEXT
        options.n_seq_max = 1
        options.type_k = options.type_v = F32
        options.flash_attn_type = 0
        options.ctx_type = lib.LLAMA_CONTEXT_TYPE_MTP if drafts else lib.LLAMA_CONTEXT_TYPE_DEFAULT
        self.context = lib.llama_init_from_model(model, options)
        assert self.context, "llama.cpp makes no context for this model"
        extra.llama_set_embeddings_nextn(self.context, True, drafts)
        self.vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
        self.width = lib.llama_model_n_embd(model)

    def run(self, tokens: list[int], position: int, streams: np.ndarray | None = None) -> Found:
        """streams: of the layer that drafts, what the model made of the token before each, [n, width]."""
        count = len(tokens)
        sequence = ctypes.pointer(ctypes.c_int32(0))
        batch = lib.llama_batch(count)
        batch.token = (ctypes.c_int32 * count)(*tokens)
        batch.pos = (ctypes.c_int32 * count)(*range(position, position + count))
        batch.n_seq_id = (ctypes.c_int32 * count)(*[1] * count)
        batch.seq_id = (ctypes.POINTER(ctypes.c_int32) * count)(*[sequence] * count)
        batch.logits = (ctypes.c_int8 * count)(*[1] * count)
        if streams is not None:
            streams = np.ascontiguousarray(streams, np.float32)
            batch.embd = streams.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        assert lib.llama_decode(self.context, batch) == 0
        logits = np.ctypeslib.as_array(lib.llama_get_logits(self.context), (count, self.vocab)).copy()
        rows = [extra.llama_get_embeddings_nextn_ith(self.context, row) for row in range(count)]
        return Found(logits, np.stack([np.ctypeslib.as_array(row, (self.width,)).copy() for row in rows]))


def peer_drafts(path: Path, tokens: list[int], ahead: int) -> list[np.ndarray]:
    """Logits [vocab] of what llama.cpp drafts behind `tokens`, of which the last is known and not fed."""
    options = lib.llama_model_default_params()
    options.load_mtp = True
    model = lib.llama_model_load_from_file(str(path).encode(), options)
    assert model, f"llama.cpp does not load {path}"
    streams = Peer(model, drafts=False).run(tokens[:-1], 0).streams
    drafter, fed, position, found = Peer(model, drafts=True), tokens[1:], 0, []
    for _ in range(ahead):
        given = drafter.run(fed, position, streams)
        found.append(given.logits[-1])
        position += len(fed)
        fed, streams = [int(found[-1].argmax())], given.streams[-1:]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--ahead", type=int, default=3)
    chosen = parser.parse_args()
    lib.llama_log_set(quiet, ctypes.c_void_p(0))
    lib.llama_backend_init()
    metadata, tensors = open_model(chosen.model, drafting=True)
    shape = read_shape(metadata, tensors)
    if not shape.drafting:
        parser.error(f"{chosen.model} has no layer that drafts and can be used")
    reference = DraftingReference(shape, tensors)
    tokens = np.random.default_rng(1).integers(0, shape.vocab, chosen.tokens).tolist()
    held = True
    for length in (2, chosen.tokens // 2, chosen.tokens):
        theirs = peer_drafts(chosen.model, tokens[:length], chosen.ahead)
        ours = reference.draft(tokens[:length], chosen.ahead)
        for depth, (own, other) in enumerate(zip(ours, theirs, strict=True), 1):
            difference = float(np.abs(own - other).max() / other.std())
            same = int(own.argmax()) == int(other.argmax())
            held = held and same and difference < MOST
            says = "same" if same else "other"
            print(f"behind {length:3} tokens, draft {depth}: {difference:.1e} of the spread, {says}")
    print("held" if held else "not held")
    sys.exit(not held)


if __name__ == "__main__":
    main()
