"""Compares logits over the committed texts: the C++ core with the NumPy reference, and that with transformers.

    python scripts/compare_logits.py core                 # needs the built core; about a minute
    python scripts/compare_logits.py transformers         # needs torch, transformers and accelerate
    python scripts/compare_logits.py core --isa plain --json result.json

Prints a table per comparison and ends with exit code 1 if a limit is missed. The core's limits: mean KL divergence and
top-1 agreement over the three short texts, agreement wherever the reference's two best logits are more than 0.5 apart,
and perplexity over all four texts, in windows of at most 1,024 positions.
"""

import argparse
import json
import math
import sys
from array import array
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from paceline.clients.model_text import open_tokenizer
from paceline.native.reference import Reference, open_reference
from paceline.native.weights import find_model

TEXTS = Path(__file__).parent.parent / "tests" / "native" / "texts"
SHORT, LONG = ("story", "note", "dialogue"), ("long",)
WINDOW, CHUNK, PAGE = 1024, 128, 64
MAX_RELATIVE, MAX_KL, MIN_TOP1, GAP, MAX_PERPLEXITY_CHANGE = 1e-3, 5e-3, 0.94, 0.5, 0.01
MIN_POSITIONS, MIN_PERPLEXITY_POSITIONS = 1000, 5000


class Row(NamedTuple):
    req_id: int
    slot: int
    epoch: int
    tokens: list[int]
    position: int
    outputs: int
    sampling: None
    prompt_tokens: int
    table: "array[int]"
    logits: bool
    allowed: None = None
    ahead: int = 0
    following: int | None = None
    continues: bool = False


@dataclass
class Score:
    """Sums over positions; the probabilities p are the reference's, q the core's."""

    positions: int = 0
    divergence: float = 0.0
    same_top: int = 0
    decided: int = 0
    same_decided: int = 0
    predicted: int = 0
    reference_loss: float = 0.0
    core_loss: float = 0.0

    def add(self, expected: np.ndarray, found: np.ndarray, following: np.ndarray) -> None:
        """Logits [n, vocab] of both, and the ids that follow them: [n], or [n - 1] at the end of a text."""
        p, q = log_softmax(expected), log_softmax(found)  # each [n, vocab]
        same = expected.argmax(axis=1) == found.argmax(axis=1)  # [n]
        best = np.partition(expected, -2, axis=1)[:, -2:]  # [n, 2]
        decided = best[:, 1] - best[:, 0] > GAP  # [n]
        self.positions += len(expected)
        self.divergence += float(np.sum(np.exp(p) * (p - q)))
        self.same_top += int(same.sum())
        self.decided += int(decided.sum())
        self.same_decided += int((same & decided).sum())
        at = np.arange(len(following))
        self.predicted += len(following)
        self.reference_loss -= float(p[at, following].sum())
        self.core_loss -= float(q[at, following].sum())

    def __add__(self, other: "Score") -> "Score":
        return Score(*(a + b for a, b in zip(asdict(self).values(), asdict(other).values(), strict=True)))

    def figures(self) -> dict[str, float]:
        reference, core = (math.exp(loss / self.predicted) for loss in (self.reference_loss, self.core_loss))
        return {
            "positions": self.positions,
            "kl": self.divergence / self.positions,
            "top1": self.same_top / self.positions,
            "decided": self.decided,
            "top1_decided": self.same_decided / self.decided,
            "perplexity_positions": self.predicted,
            "perplexity_reference": reference,
            "perplexity_core": core,
            "perplexity_change": core / reference - 1,
        }


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Logits [n, vocab] as logarithms of probabilities, in float64."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def row(tokens: list[int], position: int) -> Row:
    table = array("i", range(-(-WINDOW // PAGE)))
    return Row(1, 0, 0, tokens, position, len(tokens), None, WINDOW, table, True)


def chunks(ids: list[int]) -> Iterator[tuple[int, list[int], np.ndarray]]:
    """Position in its window, tokens, and the ids that follow each of them within the window."""
    for start in range(0, len(ids), WINDOW):
        window = ids[start : start + WINDOW]
        for begin in range(0, len(window), CHUNK):
            tokens = window[begin : begin + CHUNK]
            yield begin, tokens, np.array(window[begin + 1 : begin + 1 + len(tokens)], np.int64)


def score(reference: Reference, core: Any, ids: list[int]) -> Score:
    total = Score()
    for position, tokens, following in chunks(ids):
        if position == 0:
            reference.commit(0, 0)
            core.commit(0, 0)
        expected = reference.step([row(tokens, position)])[0].logits  # [n, vocab]
        outputs, _ = core.step([row(tokens, position)])
        found = np.frombuffer(outputs[0][1], np.float32).reshape(expected.shape)  # [n, vocab]
        total.add(expected, found, following)
        reference.commit(0, position + len(tokens))
        core.commit(0, position + len(tokens))
    return total


def compare_core(path: Path, ids: dict[str, list[int]], chosen: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    from paceline.native.core import open_core

    reference = open_reference(path, WINDOW)
    core = open_core(path, slots=1, context=WINDOW, threads=chosen.threads, isa=chosen.isa)
    print(f"\nreference against core: {core.device}")
    scores = {}
    print(f"{'text':>10} {'positions':>9} {'mean KL':>9} {'top-1':>8} {'decided':>13} {'perplexity':>17} {'change':>8}")
    for name in (*SHORT, *LONG):
        scores[name] = score(reference, core, ids[name])
        print_score(name, scores[name])
    short = sum((scores[name] for name in SHORT), Score())
    everything = sum(scores.values(), Score())
    print_score("short", short)
    print_score("all", everything)
    close, whole = short.figures(), everything.figures()
    held = (
        close["positions"] >= MIN_POSITIONS
        and close["kl"] <= MAX_KL
        and close["top1"] >= MIN_TOP1
        and close["top1_decided"] == 1
        and whole["perplexity_positions"] >= MIN_PERPLEXITY_POSITIONS
        and abs(whole["perplexity_change"]) <= MAX_PERPLEXITY_CHANGE
    )
    print(
        f"limits: short texts KL <= {MAX_KL}, top-1 >= {MIN_TOP1:.0%}, decided 100 %; all texts perplexity within "
        f"{MAX_PERPLEXITY_CHANGE:.0%}: {'held' if held else 'MISSED'}"
    )
    return {"device": core.device, "short": close, "all": whole, "held": held}, held


def print_score(name: str, result: Score) -> None:
    found = result.figures()
    decided = f"{result.same_decided}/{result.decided}"
    perplexity = f"{found['perplexity_reference']:.3f} {found['perplexity_core']:.3f}"
    print(
        f"{name:>10} {result.positions:>9} {found['kl']:>9.5f} {found['top1']:>8.2%} {decided:>13} {perplexity:>17} "
        f"{found['perplexity_change']:>+8.3%}"
    )


def compare_transformers(path: Path, ids: dict[str, list[int]]) -> tuple[dict[str, Any], bool]:
    import torch
    from transformers import AutoModelForCausalLM, logging

    logging.disable_progress_bar()
    reference = open_reference(path, WINDOW)
    folder, file = (path, {}) if path.is_dir() else (path.parent, {"gguf_file": path.name})
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **file).eval()
    print(f"\nreference against transformers\n{'text':>10} {'positions':>9} {'relative error':>15} {'same top-1':>11}")
    errors = {}
    for name in SHORT:
        with torch.inference_mode():
            expected = model(torch.tensor([ids[name]])).logits[0].numpy()  # [positions, vocab]
        reference.commit(0, 0)
        found = reference.step([row(ids[name], 0)])[0].logits  # [positions, vocab]
        relative = np.abs(found - expected).max(axis=1) / np.abs(expected).max(axis=1)  # [positions]
        errors[name] = float(relative.max())
        same = float(np.mean(found.argmax(axis=1) == expected.argmax(axis=1)))
        print(f"{name:>10} {len(ids[name]):>9} {errors[name]:>15.2e} {same:>11.2%}")
    held = max(errors.values()) <= MAX_RELATIVE
    print(f"limit: max |difference| / max |logit| of any position <= {MAX_RELATIVE}: {'held' if held else 'MISSED'}")
    return {"relative_error": errors, "held": held}, held


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("against", nargs="+", choices=["core", "transformers"])
    parser.add_argument("--model", help="a GGUF file or a Hugging Face folder, default: the demo model")
    parser.add_argument("--isa", default="auto", help="the core's path, such as avx2")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    chosen = parser.parse_args()
    path = find_model(chosen.model)
    tokenizer = open_tokenizer(path)
    ids = {name: tokenizer.encode((TEXTS / f"{name}.txt").read_text()) for name in (*SHORT, *LONG)}
    results: dict[str, Any] = {"model": path.name}
    held = []
    for against in dict.fromkeys(chosen.against):
        found = compare_core(path, ids, chosen) if against == "core" else compare_transformers(path, ids)
        results[against], kept = found
        held.append(kept)
    if chosen.json:
        chosen.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
