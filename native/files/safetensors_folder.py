"""A Hugging Face folder (config.json, *.safetensors), opened like a GGUF file: the same keys, names and layouts.

Nothing but headers is read here. A tensor that GGUF has in the same form stays memory-mapped; the others are converted
when they are asked for.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from .float8 import block_size, float8_tensors
from .folder_config import Config
from .folder_curves import split_curves
from .folder_drafting import with_last_layer
from .folder_names import gguf_tensors, is_ignored
from .model_file import Metadata, Tensor, read_object, unreadable
from .mxfp4 import packed_tensors
from .nvfp4 import UNUSED, stored_tensors
from .rearrange import FLOAT_TYPES
from .safetensors_file import Stored, read_stored
from .text_ends import end_tokens, special_ends

CONFIG = "config.json"
GENERATION = "generation_config.json"
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"


def open_folder(path: Path, drafting: bool = False) -> tuple[Metadata, list[Tensor]]:
    """drafting: with the tensors of a layer that drafts, if it can be used. Raises ModelUnreadable."""
    try:
        values = read_object(path / CONFIG)
        config = Config(values)
        metadata = _metadata(path, config)
        stored, sizes = _stored(path), config.sizes()
        if drafting:
            stored = with_last_layer(stored, config.architecture, sizes.layers, sizes.drafting)
        found = _tensors(stored, block_size(values))
        if config.curved:
            found, curves = split_curves(found, sizes.layers)
            metadata = replace(metadata, values={**metadata.values, **curves})
        tensors = list(gguf_tensors(found, sizes, config.tied))
        config.check_tensors({tensor.name for tensor in tensors})
        for name, divisors in config.rope_divisors().items():
            row = np.array([divisors], np.float32)  # [1, rope_size / 2]
            tensors.append(Tensor(name, "F32", 1, row.size, row.view(np.uint8)))
        return metadata, tensors
    except ValueError as problem:
        raise unreadable(path, str(problem)) from None


def read_folder_metadata(path: Path) -> Metadata:
    """Raises ModelUnreadable."""
    try:
        return _metadata(path, Config(read_object(path / CONFIG)))
    except ValueError as problem:
        raise unreadable(path, str(problem)) from None


def _metadata(path: Path, config: Config) -> Metadata:
    generation = read_object(path / GENERATION) if (path / GENERATION).exists() else {}
    ends = (*end_tokens(generation), *config.ends, *special_ends(path))
    return Metadata(
        path=path,
        architecture=config.architecture,
        name=path.resolve().name,
        vocab=config.vocab,
        eos=tuple(dict.fromkeys(token for token in ends if 0 <= token < config.vocab)),
        values=config.gguf_values(),
    )


def _stored(path: Path) -> dict[str, Stored]:
    """Every tensor of all shards by its name in the folder; those that the index lists must be there."""
    found: dict[str, Stored] = {}
    for file, names in _shards(path).items():
        if not (path / file).is_file():
            raise ValueError(f"the file {file} is missing")
        stored = {tensor.name: tensor for tensor in read_stored(path / file)}
        missing = sorted(names - stored.keys())
        if missing:
            raise ValueError(f"the tensor {missing[0]!r} is missing in {file}, where {INDEX} has it")
        found |= stored
    return found


def _tensors(found: dict[str, Stored], block: tuple[int, int]) -> dict[str, Tensor]:
    """Those that are part of the model. `block`: of 8-bit floats with one scale."""
    found = {name: stored for name, stored in found.items() if not is_ignored(name) and not name.endswith(UNUSED)}
    tensors = {}
    for tensor, parts in [*stored_tensors(found), *packed_tensors(found), *float8_tensors(found, block)]:
        tensors[tensor.name] = tensor
        for part in parts:
            del found[part]
    return tensors | {name: _float_tensor(stored) for name, stored in found.items()}


def _shards(path: Path) -> dict[str, set[str]]:
    """The names of the files, and the tensors that each must hold. As in transformers, an index beside a single file is
    not read: whoever saves into a folder again may leave one behind."""
    if (path / SINGLE).exists() or not (path / INDEX).exists():
        return {SINGLE: set()}
    places = read_object(path / INDEX).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise ValueError(f"the key 'weight_map' of {INDEX} is missing or no object of texts")
    shards: dict[str, set[str]] = {}
    for name, file in places.items():
        if Path(file).name != file:
            raise ValueError(f"{INDEX} names the file {file!r}, expected a name without a folder")
        shards.setdefault(file, set()).add(name)
    return shards


def _float_tensor(stored: Stored) -> Tensor:
    if stored.dtype not in FLOAT_TYPES:
        raise ValueError(f"the tensor {stored.name!r} is {stored.dtype}, supported: {', '.join(FLOAT_TYPES)}")
    return Tensor(stored.name, stored.dtype, stored.rows, stored.columns, stored.raw.reshape(stored.rows, -1))
