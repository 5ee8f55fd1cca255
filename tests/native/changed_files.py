"""Files that are others' with a difference."""

from pathlib import Path

import gguf
import numpy as np


def written(path: Path, to: Path, keys: dict[str, int], more: list[str], less: tuple[str, ...] = ()) -> Path:
    """The file at `path` with other keys, more tensors, and without those whose names begin in some way."""
    reader = gguf.GGUFReader(path)
    values = {key: field.contents() for key, field in reader.fields.items()}
    writer = gguf.GGUFWriter(to, values["general.architecture"])
    for key, value in (values | keys).items():
        if type(value) is int and key.startswith(values["general.architecture"]):
            writer.add_uint32(key, value)
        elif type(value) is float:
            writer.add_float32(key, value)
    writer.add_token_list(values["tokenizer.ggml.tokens"])
    for tensor in reader.tensors:
        if not tensor.name.startswith(less or "-"):
            writer.add_tensor(tensor.name, tensor.data)
    for name in more:
        writer.add_tensor(name, np.ones(8, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return to
