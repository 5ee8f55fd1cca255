"""Makes the golden values of tests/native/golden with transformers, in float32 on the CPU.

    python scripts/golden.py            # needs torch, transformers and accelerate

tiny.npz: logits of tiny models, each written by make_tiny_model.py with the options kept in the file and read back by
transformers' own GGUF loader. smollm2.npz: of the demo model on the beginning of each short text, the twenty largest
logits at a number of positions. The tests compare the NumPy reference with both and need no torch.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from paceline.clients.model_text import open_tokenizer
from paceline.native.weights import find_model
from transformers import AutoModelForCausalLM, PreTrainedModel

ROOT = Path(__file__).parent.parent
NATIVE = ROOT / "tests" / "native"
TINY = {
    "ratio1-untied": {"seed": 11, "kv-heads": 4},
    "ratio2-tied": {"seed": 12, "tied": True, "layers": 3, "kv-heads": 2},
    "ratio4-odd": {"seed": 13, "width": 72, "heads": 12, "kv-heads": 3, "head-size": 6, "ffn": 100, "vocab": 131},
    "ratio3-base": {"seed": 14, "width": 72, "heads": 3, "kv-heads": 1, "head-size": 24, "rope-base": 500000.0},
    "ratio2-q4_1": {"seed": 15, "type": "Q4_1", "embedding-type": "Q8_0", "tied": True},
    "ratio1-q8_0": {"seed": 16, "type": "Q8_0", "kv-heads": 4},
    "qwen2-ratio2": {"seed": 17, "architecture": "qwen2", "tied": True},
    "qwen3-ratio2": {"seed": 18, "architecture": "qwen3", "heads": 2, "head-size": 128, "kv-heads": 1},
}
TINY_LENGTH = 32
PREFIX, EVERY, TOP = 200, 15, 20


def load(path: Path) -> PreTrainedModel:
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    return model.eval()


def logits(model: PreTrainedModel, ids: list[int]) -> np.ndarray:
    """All logits of one sequence: [positions, vocab]."""
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0].float().numpy()


def tiny(folder: Path) -> dict[str, np.ndarray]:
    found = {}
    for name, options in TINY.items():
        path = folder / f"{name}.gguf"
        words = [f"--{key}" if value is True else f"--{key}={value}" for key, value in options.items()]
        subprocess.run([sys.executable, ROOT / "scripts" / "make_tiny_model.py", f"--out={path}", *words], check=True)
        ids = np.random.RandomState(options["seed"]).randint(0, options.get("vocab", 128), TINY_LENGTH)  # [positions]
        keywords = {key.replace("-", "_"): value for key, value in options.items()}
        found[f"{name}.options"] = np.array(json.dumps(keywords))
        found[f"{name}.ids"] = ids.astype(np.int32)
        found[f"{name}.logits"] = logits(load(path), ids.tolist()).astype(np.float32)  # [positions, vocab]
    return found


def smollm2() -> dict[str, np.ndarray]:
    path = find_model(None)
    tokenizer, model = open_tokenizer(path), load(path)
    found = {}
    for name in ("story", "note", "dialogue"):
        ids = tokenizer.encode((NATIVE / "texts" / f"{name}.txt").read_text())[:PREFIX]
        positions = np.arange(EVERY - 1, PREFIX, EVERY)  # [chosen]
        values = logits(model, ids)[positions]  # [chosen, vocab]
        top = np.argsort(-values, axis=1, kind="stable")[:, :TOP]  # [chosen, TOP]
        found[f"{name}.ids"] = np.array(ids, np.int32)
        found[f"{name}.positions"] = positions.astype(np.int32)
        found[f"{name}.top"] = top.astype(np.int32)
        found[f"{name}.logits"] = np.take_along_axis(values, top, axis=1).astype(np.float32)  # [chosen, TOP]
    return found


def main() -> None:
    golden = NATIVE / "golden"
    golden.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        np.savez_compressed(golden / "tiny.npz", **tiny(Path(folder)))
    np.savez_compressed(golden / "smollm2.npz", **smollm2())
    for path in sorted(golden.glob("*.npz")):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
