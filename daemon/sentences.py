"""What the sentences of replies have in common."""

from __future__ import annotations

from typing import Final

SHOWN: Final = 200
"""Characters of a word or a path that are repeated in a sentence."""


def shorten(text: str) -> str:
    """The text, cut where it is longer than a sentence should be."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
