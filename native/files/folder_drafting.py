"""The layer that drafts of Qwen's folders, which has names of its own there, as one behind the others."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ..drafting import ARCHITECTURES, FINAL_NORM, JOIN
from .folder_parts import Change, Parts, same
from .safetensors_file import Stored

NAME = re.compile(r"(?:model\.)?mtp\.(?:layers\.(\d+)\.)?(.+)")
OUTER = {
    "fc.weight": JOIN,
    "pre_fc_norm_embedding.weight": "nextn.enorm.weight",
    "pre_fc_norm_hidden.weight": "nextn.hnorm.weight",
    "norm.weight": FINAL_NORM,
}
NORMS = ("nextn.enorm.weight", "nextn.hnorm.weight", FINAL_NORM)


def drafter_parts(norm: Change) -> Parts:
    """What it has besides the parts of other layers."""
    return {JOIN: ((JOIN, same),), **{name: ((name, norm),) for name in NORMS}}


def as_last_layer(found: Mapping[str, Stored], architecture: str, layers: int) -> Iterator[Stored]:
    """Its tensors by the names that they would have behind `layers` others; none if it is not one that can be used."""
    names = {name: match for name in found if (match := NAME.fullmatch(name))}
    numbers = {match[1] for match in names.values() if match[1]}
    if (
        architecture not in ARCHITECTURES
        or numbers != {"0"}
        or not any(name.endswith("mtp.fc.weight") for name in names)
    ):
        return
    for name, match in names.items():
        part = match[2] if match[1] else OUTER.get(match[2])
        if part is None:
            raise ValueError(f"the tensor {name!r} is not part of a supported layer that drafts")
        yield replace(found[name], name=f"model.layers.{layers}.{part}")
