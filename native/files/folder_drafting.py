"""The layer that drafts of a folder, as one behind the others with the names that such layers have in GGUF files."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ..drafting import ARCHITECTURES, FINAL_NORM, JOIN, REPEATING
from .folder_parts import Change, Parts, same
from .safetensors_file import Stored

TOKEN_NORM, STREAM_NORM = "nextn.enorm.weight", "nextn.hnorm.weight"
# What Qwen's have besides the parts of other layers, outside of their own layer.
APART = re.compile(r"(?:model\.)?mtp\.(?:layers\.(\d+)\.)?(.+)")
APART_PARTS = {
    "fc.": JOIN,
    "pre_fc_norm_embedding.": TOKEN_NORM,
    "pre_fc_norm_hidden.": STREAM_NORM,
    "norm.": FINAL_NORM,
}
# What DeepSeek's and GLM's have, in a layer behind the others.
BEHIND = re.compile(r"(?:model\.)?(?:language_model\.)?layers\.(\d+)\.(.+)")
BEHIND_PARTS = {"eh_proj.": JOIN, "enorm.": TOKEN_NORM, "hnorm.": STREAM_NORM, "shared_head.norm.": FINAL_NORM}
REPEATED = ("embed_tokens.", "shared_head.head.")


def drafter_parts(norm: Change) -> Parts:
    """What it has besides the parts of other layers."""
    return {JOIN: ((JOIN, same),), **{name: ((name, norm),) for name in (TOKEN_NORM, STREAM_NORM, FINAL_NORM)}}


def with_last_layer(found: Mapping[str, Stored], architecture: str, layers: int, drafting: int) -> dict[str, Stored]:
    """All tensors, those of the layer that drafts by the names that it has behind `layers` others; as they are if it
    is not one that can be used. `drafting`: how many the configuration has of them."""
    if architecture in REPEATING and drafting == 1:
        return dict(_behind(found, layers))
    if architecture in ARCHITECTURES:
        return {**found, **dict(_apart(found, layers))}
    return dict(found)


def _behind(found: Mapping[str, Stored], layers: int) -> Iterator[tuple[str, Stored]]:
    for name, stored in found.items():
        match = BEHIND.fullmatch(name)
        if match is None or int(match[1]) != layers:
            yield name, stored
        elif not match[2].startswith(REPEATED):
            yield _named(stored, layers, _renamed(match[2], BEHIND_PARTS) or match[2])


def _apart(found: Mapping[str, Stored], layers: int) -> Iterator[tuple[str, Stored]]:
    names = {name: match for name in found if (match := APART.fullmatch(name))}
    if {match[1] for match in names.values() if match[1]} != {"0"}:
        return
    if not any(match[2].startswith("fc.") for match in names.values()):
        return
    for name, match in names.items():
        part = match[2] if match[1] else _renamed(match[2], APART_PARTS)
        if part is None:
            raise ValueError(f"the tensor {name!r} is not part of a supported layer that drafts")
        yield _named(found[name], layers, part)


def _renamed(part: str, parts: Mapping[str, str]) -> str | None:
    """A part may be stored as several tensors, whose names begin alike."""
    for start, target in parts.items():
        if part.startswith(start):
            return target.removesuffix("weight") + part[len(start) :]
    return None


def _named(stored: Stored, layers: int, part: str) -> tuple[str, Stored]:
    name = f"model.layers.{layers}.{part}"
    return name, replace(stored, name=name)
