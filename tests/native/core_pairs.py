"""A model on both cores."""

from __future__ import annotations

from pathlib import Path

from paceline.native.core import open_core

from .core_models import EXPERTS
from .emulated import KIND

CONTEXT = 640


class Pair:
    """One model on both cores."""

    def __init__(self, name: str, path: Path, **options: object):
        self.path = path
        self.routes = name.startswith(EXPERTS)
        self.cpu = open_core(path, slots=6, context=CONTEXT, **options)  # type: ignore[arg-type]
        self.device = open_core(path, slots=6, context=CONTEXT, kind=KIND, **options)  # type: ignore[arg-type]
