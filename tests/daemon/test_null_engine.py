"""The null engine: any split gives the same tokens, and any lost, doubled or misplaced row is an error."""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paceline.daemon.null_engine import VOCABULARY, NullEngine
from paceline.daemon.plan import Row
from paceline.protocol import Sampling

PROMPT = tuple(range(100, 140))


def row(tokens: tuple[int, ...], position: int, **named: Any) -> Row:
    fields: dict[str, Any] = {
        "req_id": 1,
        "slot": 0,
        "epoch": 1,
        "outputs": 1,
        "sampling": None,
        "prompt_tokens": len(PROMPT),
        "table": array("i", [0, 1]),
        "logits": False,
    }
    return Row(tokens=tokens, position=position, **(fields | named))


def test_a_step_alone_changes_nothing() -> None:
    engine = NullEngine()
    first = engine.step([row(PROMPT, 0, logits=True)])
    assert first == engine.step([row(PROMPT, 0, logits=True)])
    results, weight_bytes = first
    assert 0 <= results[0].tokens[0] < VOCABULARY
    assert results[0].logits is not None and len(results[0].logits) == 8
    assert weight_bytes == 0


@given(st.sets(st.integers(1, len(PROMPT) - 1)))
def test_any_chunks_give_the_same_tokens(cuts: set[int]) -> None:
    engine, whole = NullEngine(), NullEngine()
    edges = [0, *sorted(cuts), len(PROMPT)]
    for start, end in pairwise(edges):
        engine.commit(0, start)
        named = {"outputs": 0, "following": PROMPT[end]} if end < len(PROMPT) else {}
        results, _ = engine.step([row(PROMPT[start:end], start, **named, logits=True)])
    assert results == whole.step([row(PROMPT, 0, logits=True)])[0]


def test_outputs_are_those_of_the_last_tokens() -> None:
    engine = NullEngine()
    (three,), _ = engine.step([row(PROMPT, 0, outputs=3, logits=True)])
    for left_out in range(3):
        end = len(PROMPT) - left_out
        (one,), _ = engine.step([row(PROMPT[:end], 0)])
        assert one.tokens[0] == three.tokens[2 - left_out]
    assert three.logits is not None and len(three.logits) == 24
    assert engine.step([row(PROMPT, 0, outputs=0, following=1)])[0][0].tokens == ()


def test_what_follows_is_told_where_nothing_is_predicted() -> None:
    engine = NullEngine()
    for wrong in ({"outputs": 0}, {"outputs": 1, "following": 7}):
        with pytest.raises(ValueError, match="follows a row of"):
            engine.step([row(PROMPT, 0, **wrong)])


def test_a_commit_to_less_takes_back_the_rest() -> None:
    engine = NullEngine()
    engine.step([row(PROMPT, 0)])
    engine.commit(0, 10)
    engine.commit(0, 10)
    rest, _ = engine.step([row(PROMPT[10:], 10)])
    engine.commit(0, len(PROMPT))
    engine.commit(0, 0)
    assert engine.step([row(PROMPT, 0)])[0] == rest


def test_chance_is_seed_and_position() -> None:
    engine = NullEngine()

    def token(**options: Any) -> int:
        return engine.step([row(PROMPT, 0, sampling=Sampling(**options))])[0][0].tokens[0]

    assert token(temp=1.0, seed=1) == token(temp=0.5, seed=1) != token(temp=1.0, seed=2)
    assert token(seed=1, rep_penalty=1.1) == engine.step([row(PROMPT, 0)])[0][0].tokens[0]


def test_misplaced_rows_are_errors() -> None:
    engine = NullEngine()
    with pytest.raises(ValueError, match="request 1 at position 3: slot 0 is at 0"):
        engine.step([row(PROMPT, 3)])
    with pytest.raises(ValueError, match="two rows of one slot"):
        engine.step([row(PROMPT, 0), row(PROMPT, 0)])
    with pytest.raises(ValueError, match="would fill 40 positions: its table has 0 pages"):
        engine.step([row(PROMPT, 0, table=array("i"))])


@pytest.mark.parametrize("position", [41, -1])
def test_misplaced_commits_are_errors(position: int) -> None:
    engine = NullEngine()
    engine.step([row(PROMPT, 0)])
    with pytest.raises(ValueError, match=f"to position {position}: it is at 0, and the last step went to 40"):
        engine.commit(0, position)
    engine.commit(0, 40)
    with pytest.raises(ValueError, match="commit of slot 0 to position 39"):
        engine.commit(0, 39)


def test_a_wrong_page_or_state_shows_at_once() -> None:
    engine = NullEngine(2)
    engine.step([row(PROMPT, 0)])
    engine.seat(1, PROMPT, None)
    with pytest.raises(ValueError, match="its pages and slot 1 differ"):
        engine.step([row((5,), len(PROMPT), slot=1, table=array("i", [2, 3]))])
    engine.copy_page(0, 2)
    engine.step([row((5,), len(PROMPT), slot=1, table=array("i", [2, 3]))])
    engine.write_page(3, engine.read_page(0))
    engine.step([row((5,), len(PROMPT), slot=1, table=array("i", [3, 2]))])

    engine = NullEngine(1, recurrent=True)
    engine.step([row(PROMPT, 0)])
    engine.commit(0, len(PROMPT))
    engine.keep(0, 4)
    engine.write_state(5, engine.read_state(4))
    engine.seat(0, PROMPT, 5)
    for ids, state in ((PROMPT[1:], 4), (PROMPT, None)):
        with pytest.raises(ValueError, match=f"kept state {state} is another"):
            engine.seat(0, ids, state)


def test_it_drafts_what_it_will_predict_and_errs_at_times() -> None:
    """Behind the last right output, as much as it is asked for or less; whether it is right says only the text."""
    engine = NullEngine(1, drafts=True)
    text, found, counts = PROMPT, Counter[bool](), Counter[int]()
    for seed in (None, 5):
        sampling = None if seed is None else Sampling(temp=1.0, seed=seed)
        for length in range(30, len(PROMPT)):
            engine.seat(0, (), None)
            fed = row((*text[:length], 77, 78), 0, outputs=3, ahead=4, sampling=sampling)
            (drafted,) = engine.step([fed])[0]
            right = drafted.right(fed)
            assert len(right) == 1 and drafted._replace(drafted=()) == engine.step([fed._replace(ahead=0)])[0][0]
            counts[len(drafted.drafted)] += 1
            known = (*text[:length], *right)
            for token in drafted.drafted:
                (next_one,), _ = engine.step([row(known, 0, sampling=sampling)])
                found[token == next_one.tokens[0]] += 1
                known = (*known, token)
    assert found[True] > 3 * found[False] > 0
    assert max(counts) == 4 and counts[4] > sum(counts.values()) / 2 and len(counts) > 1


def test_it_drafts_behind_drafted_tokens_that_were_right() -> None:
    engine = NullEngine(1, drafts=True)
    (one,), _ = engine.step([row(PROMPT, 0)])
    (token,) = one.tokens
    (expected,), _ = engine.step([row((*PROMPT, token), 0, ahead=3)])
    (both,), _ = engine.step([row((*PROMPT, token), 0, outputs=2, ahead=3)])
    assert both.tokens == (token, *expected.tokens) and both.drafted == expected.drafted != ()


@pytest.mark.parametrize(
    ("drafts", "ahead", "outputs"), [(False, 1, 1), (True, -1, 1), (False, -1, 1), (True, 1, 0), (True, 8, 0)]
)
def test_what_it_cannot_draft_is_an_error(drafts: bool, ahead: int, outputs: int) -> None:
    engine = NullEngine(drafts=drafts)
    assert (engine.info.draft_cost > 0) == drafts
    with pytest.raises(ValueError, match=f"request 1: {ahead} tokens to draft behind {outputs} outputs"):
        engine.step([row(PROMPT, 0, outputs=outputs, ahead=ahead)])
