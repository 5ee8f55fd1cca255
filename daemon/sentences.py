"""Helpers for the sentences in replies."""

from __future__ import annotations

from typing import Final

SHOWN: Final = 200
"""Most characters of a word or a path that a sentence quotes."""


def reason_of(error: OSError | ValueError) -> str:
    """Why a path cannot be used. A ValueError is about one that the system's encoding cannot represent."""
    return str(error) if isinstance(error, ValueError) else error.strerror or str(error)


def shorten(text: str) -> str:
    """The text, cut where it is longer than a sentence should be."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
