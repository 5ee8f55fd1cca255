"""Perplexity and divergence over the committed texts: the C++ core and llama.cpp, on the same file.

    python scripts/compare_llama_cpp.py                        # the demo model
    python scripts/compare_llama_cpp.py --model M.gguf --json FILE
    python scripts/compare_llama_cpp.py --texts long           # less of them; at least 5,000 tokens

Both are compared with the NumPy reference, which computes with the file's weights in float32. Ends with exit code 1
unless our perplexity is within 1 % of llama.cpp's and our mean KL divergence at most 1.1 times its. Needs the peers
extra.
"""

import argparse
import ctypes
import json
import math
import sys
import time
from array import array
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import llama_cpp as lib
import numpy as np
from paceline.native import _cpu
from paceline.native.core import PAGE, Core, open_core
from paceline.native.machine import describe_machine, usable_cores
from paceline.native.weights import find_model

TEXTS = Path(__file__).parent.parent / "tests" / "native" / "texts"
WINDOW, CHUNK = 1024, 64
MAX_PERPLEXITY_CHANGE, MAX_KL_RATIO, MIN_POSITIONS = 0.01, 1.1, 5000


class Row(NamedTuple):
    tokens: list[int]
    position: int
    outputs: int
    slot: int = 0
    table: array = array("i", range(WINDOW // PAGE))
    prompt_tokens: int = 0
    sampling: Any = None
    logits: bool = True
    allowed: None = None
    ahead: int = 0
    following: int | None = None
    continues: bool = False


class Peer:
    """llama.cpp on one sequence, its cache f16, its batches like ours."""

    def __init__(self, model: Path) -> None:
        self.quiet = lib.llama_log_callback(lambda level, text, data: None)
        lib.llama_log_set(self.quiet, ctypes.c_void_p(0))
        lib.llama_backend_init()
        self.model = lib.llama_model_load_from_file(str(model).encode(), lib.llama_model_default_params())
        self.vocab = lib.llama_model_get_vocab(self.model)
        options = lib.llama_context_default_params()
        options.n_ctx = WINDOW
        options.n_threads = options.n_threads_batch = usable_cores()  # as ours; its default is 4, whatever there is
        self.context = lib.llama_init_from_model(self.model, options)

    def ids(self, text: bytes) -> list[int]:
        room = (lib.llama_token * (len(text) + 8))()
        return list(room[: lib.llama_tokenize(self.vocab, text, len(text), room, len(room), True, False)])

    def logits(self, tokens: list[int], position: int) -> np.ndarray:
        """[tokens, vocab]"""
        if position == 0:
            lib.llama_memory_seq_rm(lib.llama_get_memory(self.context), 0, -1, -1)
        batch = lib.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, position + i, 1, True
            batch.seq_id[i][0] = 0
        if lib.llama_decode(self.context, batch):
            raise RuntimeError("llama_decode failed")
        size = lib.llama_vocab_n_tokens(self.vocab)
        rows = [
            np.ctypeslib.as_array(lib.llama_get_logits_ith(self.context, i), (size,)).copy() for i in range(len(tokens))
        ]
        lib.llama_batch_free(batch)
        return np.stack(rows)


def our_logits(core: Core, tokens: list[int], position: int) -> np.ndarray:
    """[tokens, vocab]"""
    if position == 0:
        core.commit(0, 0)
    [(_, logits, *_)], _ = core.step([Row(tokens, position, len(tokens))])
    assert logits is not None
    core.commit(0, position + len(tokens))
    return logits


def chunks(ids: list[int]) -> Iterator[tuple[list[int], int, np.ndarray]]:
    """Tokens, their position in the window, and the ids that follow them in it."""
    for start in range(0, len(ids), WINDOW):
        window = ids[start : start + WINDOW]
        for begin in range(0, len(window), CHUNK):
            following = window[begin + 1 : begin + 1 + CHUNK]
            yield window[begin : begin + CHUNK], begin, np.array(following, np.int64)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def compare(model: Path, texts: list[Path]) -> dict[str, float]:
    peer = Peer(model)
    # llama.cpp sets the sizes of AMX's registers once in a thread, and whoever is called may set them anew (as x86-64's
    # ABI has it): in this process they are left to it. The bits are the same.
    isa = next(isa for isa in reversed(_cpu.instruction_sets()) if isa != "amx")
    core, reference = (open_core(model, slots=1, context=WINDOW, isa=isa, kind=kind) for kind in ("cpu", "reference"))
    positions = predicted = 0
    divergence, loss = {"core": 0.0, "llama.cpp": 0.0}, {"core": 0.0, "llama.cpp": 0.0, "reference": 0.0}
    for text in texts:
        for tokens, position, following in chunks(peer.ids(text.read_bytes())):
            expected = log_softmax(our_logits(reference, tokens, position))  # [tokens, vocab], as the two others
            found = {
                "core": log_softmax(our_logits(core, tokens, position)),
                "llama.cpp": log_softmax(peer.logits(tokens, position)),
            }
            positions += len(tokens)
            predicted += len(following)
            for name, values in found.items():
                divergence[name] += float((np.exp(expected) * (expected - values)).sum())
            for name, values in (found | {"reference": expected}).items():
                loss[name] -= float(values[np.arange(len(following)), following].sum())
        print(f"{text.name}: {positions} positions so far", file=sys.stderr, flush=True)
    figures = {f"perplexity {name}": math.exp(total / predicted) for name, total in loss.items()}
    return {"positions": positions} | figures | {f"kl {name}": total / positions for name, total in divergence.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a GGUF file; default: the demo model")
    parser.add_argument("--json", type=Path, help="write the results here")
    names = sorted(path.stem for path in TEXTS.glob("*.txt"))
    parser.add_argument("--texts", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    arguments = parser.parse_args()
    model = find_model(arguments.model)
    figures = compare(model, [TEXTS / f"{name}.txt" for name in arguments.texts])
    for name, figure in figures.items():
        print(f"{name:24}{figure:12.5g}")
    change = figures["perplexity core"] / figures["perplexity llama.cpp"] - 1
    ratio = figures["kl core"] / figures["kl llama.cpp"]
    print(f"perplexity {change:+.2%} of llama.cpp's (at most 1 %), divergence {ratio:.2f} times its (at most 1.1)")
    if arguments.json:
        machine = describe_machine() | {"llama-cpp-python": version("llama-cpp-python")}
        record = {"benchmark": "compare_llama_cpp", "date": time.strftime("%Y-%m-%d"), "model": model.name}
        arguments.json.write_text(json.dumps(record | {"machine": machine, "results": figures}, indent=2) + "\n")
    held = abs(change) <= MAX_PERPLEXITY_CHANGE and ratio <= MAX_KL_RATIO and figures["positions"] >= MIN_POSITIONS
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
