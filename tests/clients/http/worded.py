"""Tiny models that know words of our choice, and what a server with one of them sends."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from paceline.clients.model_text import open_tokenizer

from .served import Served

SPECIALS = 3  # tokens of make_tiny_model.py
CONTROL, OWN = 3, 4  # GGUF's types of tokens: a mark, and a word as it is
Change = Callable[[str, np.ndarray], np.ndarray]


def with_words(
    model: Path, path: Path, marks: Sequence[str], words: Sequence[str], template: str, others: float = 1.0
) -> Path:
    """A copy of a llama in float32 whose last tokens are these, with this chat template. The logits of all others, but
    for those that all tiny models have, are multiplied."""
    values = gguf.GGUFReader(model).fields
    tokens, types = (values[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "token_type"))
    count = len(marks) + len(words)
    keys = {
        "tokenizer.ggml.tokens": [*tokens[:-count], *marks, *words],
        "tokenizer.ggml.token_type": [*types[:-count], *[CONTROL] * len(marks), *[OWN] * len(words)],
        "tokenizer.ggml.merges": [],
        "tokenizer.chat_template": template,
    }

    def quieter(name: str, data: np.ndarray) -> np.ndarray:
        if name == "output.weight":
            data[SPECIALS:-count] *= others
        return data

    return _copied(model, path, keys, quieter)


def with_script(model: Path, path: Path, follows: Mapping[str, str]) -> Path:
    """A copy that says behind each of these words or characters the one that follows, whatever came before."""
    words = open_tokenizer(model)
    pairs = [(words.encode(one)[-1], words.encode(other)[-1]) for one, other in follows.items()]
    tensors = {tensor.name: tensor.data for tensor in gguf.GGUFReader(model).tensors}
    embedded, norm = tensors["token_embd.weight"], tensors["output_norm.weight"]

    def scripted(name: str, data: np.ndarray) -> np.ndarray:
        if name.endswith(("attn_output.weight", "ffn_down.weight")):
            data[:] = 0  # layers add nothing: the last token is all there is
        if name == "output.weight":
            data[:] = 0
            for one, other in pairs:
                row = embedded[one] * norm
                data[other] += 100 * row / (row @ row) ** 0.5
        return data

    return _copied(model, path, {}, scripted)


def _copied(model: Path, path: Path, keys: Mapping[str, Any], change: Change) -> Path:
    reader, writer = gguf.GGUFReader(model), gguf.GGUFWriter(path, "llama")
    for name, field in reader.fields.items():
        if name.startswith(("GGUF.", "general.arch")):
            continue
        kind = field.types[-1] if field.types[0] is gguf.GGUFValueType.ARRAY else None
        if value := keys.get(name, field.contents()):
            writer.add_key_value(name, value, field.types[0], sub_type=kind)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, change(tensor.name, tensor.data.copy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def streamed(served: Served, path: str, **body: Any) -> list[dict[str, Any]]:
    """The events of a stream."""
    lines = served.post(path, stream=True, **body).text.splitlines()
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return [json.loads(line) for line in data if line != "[DONE]"]
