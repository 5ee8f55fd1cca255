"""A real daemon that tries tokens ahead: fewer steps, the same tokens and logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paceline.clients import Client
from paceline.clients.model_text import open_tokenizer

REPEATING = "one two three four five, one two three four five, one two three four five, one two"
OTHER = "The lighthouse keeper climbed the stairs and"


def answers(model: Path, *flags: str) -> tuple[list[tuple[list[int], str]], dict[str, Any]]:
    """The tokens and the digest of three requests at once, and the daemon's counters."""
    tokenizer = open_tokenizer(model)
    with Client.spawn([str(model), "--max-ctx=512", "--auto", *flags]) as client:
        streams = [
            client.start(tokenizer.encode(REPEATING), 60, hash=1, ignore_eos=1),
            client.start(tokenizer.encode(REPEATING), 60, 7, hash=1, ignore_eos=1, temp=0.3, seed=3),
            client.start(tokenizer.encode(OTHER), 40, hash=1, ignore_eos=1, rep_penalty=1.3),
        ]
        found = [([*stream], (stream.end or {})["logits_sha256"]) for stream in streams]
        return found, client.command("STATS")


def test_drafts_change_the_number_of_steps_and_no_token(demo_model: Path) -> None:
    single, counted = answers(demo_model, "--draft=0")
    drafted, stats = answers(demo_model)
    assert drafted == single
    assert counted["drafted"] == 0 < stats["drafted_right"] <= stats["drafted"]
    assert stats["steps"] < counted["steps"]
    assert stats["tokens_out"] == counted["tokens_out"] == 160
