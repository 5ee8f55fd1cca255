"""Tiny models that know words of our choice, and a server with one of them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gguf

from .served import Served

SPECIALS = 3  # tokens of make_tiny_model.py
CONTROL, OWN = 3, 4  # GGUF's types of tokens: a mark, and a word as it is


def with_words(
    model: Path, path: Path, marks: Sequence[str], words: Sequence[str], template: str, others: float = 1.0
) -> Path:
    """A copy of a llama in float32 whose last tokens are these, with this chat template. The logits of all others, but
    for those that all tiny models have, are multiplied."""
    reader, writer = gguf.GGUFReader(model), gguf.GGUFWriter(path, "llama")
    own = {name: field for name, field in reader.fields.items() if not name.startswith(("GGUF.", "general.arch"))}
    tokens, types = (own[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "token_type"))
    count = len(marks) + len(words)
    changed = {
        "tokenizer.ggml.tokens": [*tokens[:-count], *marks, *words],
        "tokenizer.ggml.token_type": [*types[:-count], *[CONTROL] * len(marks), *[OWN] * len(words)],
        "tokenizer.ggml.merges": [],
        "tokenizer.chat_template": template,
    }
    for name, field in own.items():
        kind = field.types[-1] if field.types[0] is gguf.GGUFValueType.ARRAY else None
        if value := changed.get(name, field.contents()):
            writer.add_key_value(name, value, field.types[0], sub_type=kind)
    for tensor in reader.tensors:
        data = tensor.data.copy()
        if tensor.name == "output.weight":
            data[SPECIALS:-count] *= others
        writer.add_tensor(tensor.name, data)
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
