"""What the sentences of replies have in common."""

from __future__ import annotations

from typing import Final

SHOWN: Final = 200
"""Characters of a word or a path that are repeated in a sentence."""


def reason_of(error: OSError | ValueError) -> str:
    """Why a path is of no use. A ValueError is of one that the system's encoding cannot spell."""
    return str(error) if isinstance(error, ValueError) else error.strerror or str(error)


def shorten(text: str) -> str:
    """The text, cut where it is longer than a sentence should be."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
