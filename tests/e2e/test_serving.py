"""What continuous batching promises, seen from outside: counted in frames and steps, never in time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from paceline.protocol import DONE, Frame, Message

from .process import Process, is_end
from .test_conversation import expected

SECONDS = 60.0
STEP_TOKENS = 64
CROWD = 15
PROMPT = 600  # of the newcomer


def ids(prompt: list[int]) -> str:
    return "ids:" + ",".join(map(str, prompt))


def test_the_last_byte_of_one_request_comes_after_the_first_byte_of_the_next() -> None:
    with Process("--auto", "--fault", "slow:5") as daemon:
        daemon.send("REQ 1 START ids:1,2 400")
        daemon.read_until(lambda item: isinstance(item, Frame) and item.req_id == 1)
        daemon.send("REQ 2 START ids:3,4 60")
        assert daemon.finish() == 0
    first_of_second = daemon.items.index(next(item for item in daemon.items if is_token(item, 2)))
    last_of_first = daemon.items.index(Frame(1, DONE))
    assert first_of_second < last_of_first
    assert daemon.tokens(1) == expected([1, 2], 400) and daemon.tokens(2) == expected([3, 4], 60)


def is_token(item: object, req_id: int) -> bool:
    return isinstance(item, Frame) and item.req_id == req_id and item.value >= 0


def newcomer(model: str, engine: str) -> Process:
    """15 that decode, a token in each step, then one with a long prompt; what was read when all have ended."""
    flags = ["--slots=16", "--draft=0", f"--step-tokens={STEP_TOKENS}", "--max-ctx=2048", "--auto", "--fault=slow:4"]
    with Process(*flags, *([model] if model else []), engine=engine) as daemon:
        prompts = [[5 + n, 6 + n] for n in range(CROWD)]
        daemon.send(*(f"REQ {n} START {ids(prompt)} 400 ignore_eos=1" for n, prompt in enumerate(prompts, 1)))
        for req_id in range(1, CROWD + 1):
            daemon.read_until(lambda item, req_id=req_id: is_token(item, req_id), SECONDS)  # type: ignore[misc]
        daemon.send(f"REQ 99 START {ids([7 + n % 90 for n in range(PROMPT)])} 4 ignore_eos=1")
        daemon.read_until(lambda item: is_end(item, 99), SECONDS)
        assert daemon.finish(SECONDS) == 0
    return daemon


@pytest.mark.parametrize("engine", ["null", "cpu"])
def test_a_newcomer_stalls_nobody(engine: str, tiny_model: Callable[..., Path]) -> None:
    """Its first token takes ceil(600 / (64 - 15)) + 2 steps at most, and each of the 15 has a token in each of them."""
    daemon = newcomer("" if engine == "null" else str(tiny_model()), engine)
    accepted = next(
        place
        for place, item in enumerate(daemon.items)
        if isinstance(item, Message) and item.body.get("re") == CROWD + 1
    )
    first = next(place for place, item in enumerate(daemon.items) if is_token(item, 99))
    between = [item.req_id for item in daemon.items[accepted:first] if isinstance(item, Frame) and item.value >= 0]
    counts = [between.count(req_id) for req_id in range(1, CROWD + 1)]
    assert len(between) == sum(counts)
    # every step gives each of them one token; the reading may cut the first and the last step anywhere
    least = -(-PROMPT // (STEP_TOKENS - CROWD))
    assert least - 1 <= min(counts) <= max(counts) <= least + 2
    assert max(counts) - min(counts) <= 1
    steps = [between[place : place + CROWD] for place in range(0, len(between) // CROWD * CROWD, CROWD)]
    assert all(len(set(step)) == CROWD for step in steps), "somebody had two tokens before another had one"


def served(model: Path, *flags: str, starts: list[str]) -> Process:
    """One request after the other, each when the one before has ended."""
    with Process(str(model), "--max-ctx=2048", "--auto", *flags, engine="cpu") as daemon:
        for req_id, start in enumerate(starts, 1):
            daemon.send(f"REQ {req_id} START {start} 8 hash=1 ignore_eos=1")
            daemon.read_until(lambda item, req_id=req_id: is_end(item, req_id), SECONDS)  # type: ignore[misc]
        assert daemon.finish(SECONDS) == 0
    return daemon


def test_a_known_beginning_is_not_computed_again(tiny_model: Callable[..., Path]) -> None:
    """Of two prompts with 1,000 tokens in common the second is fed its rest alone, and keeps the bits of a cold run."""
    model = tiny_model()
    common = [3 + (7 * n + n // 11) % 120 for n in range(1000)]
    first, second = (ids(common + [tail + n for n in range(24)]) for tail in (10, 60))
    warm = served(model, starts=[first, second])
    cold = served(model, "--no-reuse", starts=[second])
    assert warm.end_of(1)["cached_tokens"] == 0 == cold.end_of(1)["cached_tokens"]
    assert warm.end_of(2)["cached_tokens"] == 1000
    assert warm.end_of(2)["logits_sha256"] == cold.end_of(1)["logits_sha256"] != warm.end_of(1)["logits_sha256"]
    assert warm.tokens(2) == cold.tokens(1)
