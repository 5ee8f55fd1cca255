"""Model files: find one, read its metadata, open its tensors. Plain Python; the clients' tokenizer uses it too."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .drafting import with_drafting, without_drafting
from .files.demo_model import DEMO, ModelUnavailable, fetch
from .files.folder_tokens import FolderTokens, read_tokenizer_settings
from .files.gguf_file import DAMAGE, GGUFFile, Truncated, UnknownType
from .files.gguf_parts import other_parts
from .files.model_file import Metadata, ModelUnreadable, Tensor, check_regular, read_object, unreadable, untokenizable
from .files.nvfp4 import merged
from .files.pieces import BLANK, BYTE, USER_DEFINED, Pieces, gguf_pieces, token_list
from .files.safetensors_folder import CONFIG, open_folder, read_folder_metadata
from .files.text_ends import CONTROL, SETTINGS, control_ends, with_sure_ends

__all__ = [
    "BLANK",
    "BYTE",
    "CONTROL",
    "SETTINGS",
    "USER_DEFINED",
    "FolderTokens",
    "Metadata",
    "ModelUnavailable",
    "ModelUnreadable",
    "Pieces",
    "Tensor",
    "find_model",
    "gguf_pieces",
    "open_model",
    "read_metadata",
    "read_object",
    "read_pieces",
    "read_tokenizer_settings",
    "token_list",
    "untokenizable",
]

END_KEYS = ("eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep")


def find_model(name_or_path: str | None) -> Path:
    """The path of a model: the GGUF file or Hugging Face folder named, or the demo model, fetched the first time."""
    if name_or_path is None:
        return _told(fetch(DEMO))
    path = _told(_expanded(Path(name_or_path)))
    try:
        if path.is_dir() and not (path / CONFIG).is_file():
            raise unreadable(path, f"it is a folder without a {CONFIG}, expected a GGUF file or a folder with one")
        if not path.exists():
            raise unreadable(path, "there is no such file")
    except OSError as problem:
        raise unreadable(path, problem.strerror or str(problem)) from None
    return path


def _told(path: Path) -> Path:
    """Clients are told the whole path, as text, and open it themselves."""
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        raise unreadable(path, "its path is not UTF-8") from None
    except OSError as problem:  # there is no current folder
        raise unreadable(path, problem.strerror or str(problem)) from None
    return path


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        raise unreadable(path, f"there is no home folder {path.parts[0]}") from None


def open_model(path: Path, drafting: bool = False) -> tuple[Metadata, list[Tensor]]:
    """The metadata and the tensors of a GGUF file or a Hugging Face folder, both in GGUF's vocabulary; of their
    contents just the headers are read. drafting: with those of a layer that drafts, if it can be used. Raises
    ModelUnreadable."""
    if path.is_dir():
        return open_folder(path, drafting)
    reader = _open(path)
    try:
        values = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
        readers = [reader, *(_open(part) for part in other_parts(path, values))]
        tensors = [_tensor(tensor) for each in readers for tensor in each.tensors]
        total = values.get("split.tensors.count", len(tensors))
        if len(tensors) != total:
            raise ValueError(f"its parts hold {len(tensors)} tensors, expected {total}")
        wanted = (with_drafting if drafting else without_drafting)(values, tensors)
        return _metadata(path, values), merged(wanted)
    except DAMAGE as problem:
        raise unreadable(path, _reason(problem)) from None


def read_metadata(path: Path) -> Metadata:
    """Reads no tensor, and of a folder not even their headers."""
    return read_folder_metadata(path) if path.is_dir() else open_model(path)[0]


def read_pieces(path: Path) -> Pieces:
    """What the ids of a GGUF file or a Hugging Face folder stand for, at least as many as its metadata's vocab. Raises
    ModelUnreadable."""
    metadata = read_metadata(path)
    try:
        return _pieces(path, metadata.values).padded(metadata.vocab)
    except ValueError as problem:
        raise untokenizable(path, problem) from None


def _pieces(path: Path, values: Mapping[str, Any]) -> Pieces:
    if not path.is_dir():
        return gguf_pieces(values)
    tokens = FolderTokens(path)
    return tokens.pieces(tokens.encoder())


def _metadata(path: Path, values: Mapping[str, Any]) -> Metadata:
    values = with_sure_ends(values)
    architecture = values.get("general.architecture")
    if not isinstance(architecture, str):
        raise unreadable(path, "the key 'general.architecture' is missing or no text")
    tokens = values.get("tokenizer.ggml.tokens", [])
    told = len(tokens) if isinstance(tokens, list) else 0
    vocab = _count(path, values, f"{architecture}.vocab_size", told)
    if 0 < told < vocab:  # the model could choose an id that has no text
        raise unreadable(path, f"the key '{architecture}.vocab_size' is {vocab}, expected {told}, its number of tokens")
    named = [_count(path, values, f"tokenizer.ggml.{key}_token_id", -1) for key in END_KEYS]
    name = values.get("general.name")
    return Metadata(
        path=path,
        architecture=architecture,
        name=name if isinstance(name, str) else path.stem,
        vocab=vocab,
        eos=tuple(dict.fromkeys(token for token in named + control_ends(values) if 0 <= token < vocab)),
        values=values,
    )


def _tensor(tensor: Any) -> Tensor:
    columns = int(tensor.shape[0])
    rows = int(tensor.n_elements) // columns
    raw = tensor.data.reshape(rows, -1).view(np.uint8)
    return Tensor(tensor.name, tensor.tensor_type.name, rows, columns, raw)


def _open(path: Path) -> GGUFFile:
    try:
        check_regular(path)
        with path.open("rb") as file:
            magic = file.read(4)
        if magic != b"GGUF":
            raise unreadable(
                path, "it is no GGUF file (its first four bytes are not 'GGUF')" if magic else "it is empty"
            )
        return GGUFFile(path)
    except OSError as problem:
        raise unreadable(path, problem.strerror or str(problem)) from problem
    except DAMAGE as problem:
        raise unreadable(path, _reason(problem)) from None


def _reason(problem: BaseException) -> str:
    """What a reader said, on one line."""
    text = " ".join(str(problem).split()) or type(problem).__name__
    if isinstance(problem, UnknownType):
        return text
    return f"it is truncated: {text}" if isinstance(problem, Truncated) else f"it is damaged ({text})"


def _count(path: Path, values: Mapping[str, Any], key: str, default: int) -> int:
    value = values.get(key, default)
    if type(value) is not int:
        raise unreadable(path, f"the key {key!r} is {value!r}, expected a whole number")
    return value
