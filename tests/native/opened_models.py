"""Models as they are opened, with some of their keys changed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from paceline.native.weights import Metadata, Tensor, open_model

Opened = tuple[Metadata, list[Tensor]]


def opened(path: Path) -> Opened:
    return open_model(path)


def changed(opened_model: Opened, **changes: Any) -> Opened:
    """A model with some keys of its architecture changed: `__` stands for a dot, and None for no key."""
    metadata, tensors = opened_model
    keys = {f"{metadata.architecture}.{name.replace('__', '.')}": value for name, value in changes.items()}
    values = {key: value for key, value in {**metadata.values, **keys}.items() if value is not None}
    return replace(metadata, values=values), tensors


def as_another(model: Opened, architecture: str) -> Opened:
    """The same model under another family's name."""
    metadata, tensors = model
    old = f"{metadata.architecture}."
    values = {key.replace(old, f"{architecture}."): value for key, value in metadata.values.items()}
    return replace(metadata, architecture=architecture, values=values), tensors
