"""Drafts of an engine under any schedule: nobody's text is another one than alone."""

from __future__ import annotations

from functools import cache
from typing import Any

from constrained import ANY_THIRD
from drafting import Truthful, Untrue, asks_what_it_may, drafting, stepwise
from driver import events_of, terminal_of, tokens_of
from hypothesis import event, given, settings
from hypothesis import strategies as st
from paceline.daemon.guesses import Guesser
from paceline.daemon.null_engine import NullEngine
from paceline.protocol import CANCELLED
from prophet import Prophet

Starts = list[tuple[int, int, str]]
"""Tokens, quantum and options of each."""

STEPS = st.integers(1, 5)
LINES = st.sampled_from(
    [
        *("SCHED_STEP", "SCHED_AUTO on", "SCHED_AUTO off", "CANCEL 2", "SCHED_BATCH_DRAIN 2"),
        *("REQ 1 CONTINUE 3", "REQ 3 CONTINUE 9", "SLOT 0 SNAPSHOT a"),
        *("SCHED_BATCH_TARGET_STEP", "SCHED_BATCH_TARGET_STEP 1", "SCHED_BATCH_PROBE"),
    ]
)
QUANTA = st.sampled_from([2, 5, 100])
STARTS = st.lists(
    st.tuples(st.sampled_from([1, 9, 50]), QUANTA, st.sampled_from(["hash=1", "hash=1 temp=1 seed=3"])),
    min_size=1,
    max_size=4,
)
HELD = st.lists(st.tuples(st.just(9), QUANTA, st.just(f"hash=1 stop=0 {ANY_THIRD}")), min_size=1, max_size=2)
DRAFTS = st.tuples(
    st.sampled_from([NullEngine, Truthful, Untrue]),
    st.sampled_from([Guesser, Prophet]),
    st.lists(st.one_of(STEPS, STEPS, LINES), max_size=25),
    st.integers(1, 4),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([0.0, 0.05, 0.3]),
    st.sampled_from([2, 9, 64]),
)


@cache
def alone(start: str) -> tuple[list[int], str]:
    driver = stepwise(f"REQ 1 {start}")
    return tokens_of(driver.items, 1), events_of(driver.items, "end")[0]["logits_sha256"]


@settings(max_examples=500, deadline=None)
@given(STARTS, DRAFTS)
def test_any_schedule_gives_the_text_of_a_run_alone(starts: Starts, drafts: tuple[Any, ...]) -> None:
    gives_texts_alone(starts, *drafts)


@settings(max_examples=10, deadline=None)
@given(HELD, DRAFTS)
def test_and_where_outputs_are_held_to_grammars(starts: Starts, drafts: tuple[Any, ...]) -> None:
    gives_texts_alone(starts, *drafts)


def gives_texts_alone(
    starts: Starts,
    engine: type[NullEngine],
    guesser: type[Guesser],
    actions: list[int | str],
    seats: int,
    draft: int,
    cost: float,
    step_tokens: int,
) -> None:
    driver = drafting(
        guesser,
        cost,
        engine,
        slots=4,
        max_batch=seats,
        draft=draft,
        step_tokens=step_tokens,
        prefill_tokens=step_tokens,
    )
    texts = {}
    for req_id, (total, quantum, options) in enumerate(starts, 1):
        texts[req_id] = f"START ids:1,2,{req_id} {total} {total} {options}"
        assert driver.reply(f"REQ {req_id} START ids:1,2,{req_id} {total} {quantum} {options}")["ok"]
    for action in actions:
        if isinstance(action, int):
            for _ in range(action):
                driver.step()
        elif action.startswith("SCHED_BATCH_TARGET") or action == "SCHED_BATCH_PROBE":
            driver.ask(action)
        else:
            driver.send(action)
        driver.session.check()
    driver.send("SCHED_DRAIN")
    driver.end()
    ends = {end["req"]: end for end in events_of(driver.items, "end")}
    for req_id, text in texts.items():
        tokens, digest = alone(text)
        found = tokens_of(driver.items, req_id)
        if terminal_of(driver.items, req_id) == CANCELLED:
            assert found == tokens[: len(found)]
        else:
            assert (found, ends[req_id]["logits_sha256"]) == (tokens, digest)
    for plan in driver.plans:
        asks_what_it_may(plan, driver.engine.info, driver.session.limits)
    counters = driver.session.counters
    assert not counters.stale_results and not counters.retried_steps
    event("some were right" if counters.drafted_right else "none was right")
