"""What the rules of the model-based test have in common: a daemon beside its model, and what lines are made of."""

from __future__ import annotations

from typing import Any

from driver import limits, nobody_waits_in_vain
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize
from modelled import Modelled
from paceline.daemon.null_engine import VOCABULARY

CONTEXT = 256
MOST = st.sampled_from([None, None, 1, 2, 9])
SLOTS = st.one_of(st.none(), st.none(), st.integers(0, 4))
IDS = st.integers(1, 7)
NAMES = st.sampled_from(["a", "b", "c", "d-1_2.x"])
TAGS = st.sampled_from(["", "", "REQ 9 ", "request=3 ", "\tREQ=12  "])
TAILS = st.lists(st.sampled_from([1, 2, 3] * 7 + [VOCABULARY]), max_size=2).map(tuple)
PROMPTS = st.builds(
    lambda length, tail: (*range(7, 7 + length), *tail),
    st.sampled_from([0, 1, 2, 5, 30, 62, 63, 64, 65, 129, 200]),
    TAILS,
)
TOTALS, QUANTA = st.sampled_from([1, 2, 3, 5, 9, 20, 60]), st.sampled_from([None, 1, 2, 3, 100])
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "temp": st.sampled_from([0, 1]),
        "seed": st.sampled_from([0, 5]),
        "stop": st.sampled_from([0, 1, 4]),  # so many tokens come before the stop token
        "ignore_eos": st.booleans(),
        "hash": st.booleans(),
        "priority": st.sampled_from([0, 1, 7]),
        "snap": st.tuples(st.sampled_from([1, 5, 64, 66, 128, 130]), NAMES),
    },
)
PLAIN = st.one_of(st.just({}), st.just({}), OPTIONS)


def words(*parts: object) -> str:
    return " ".join(str(part) for part in parts if part is not None)


class Rules(RuleBasedStateMachine):
    @initialize(
        slots=st.integers(1, 4),
        batch=st.integers(1, 4),
        queue=st.sampled_from([0, 2, 64]),
        chunk=st.sampled_from([1, 3, 64]),
        flags=st.tuples(*[st.booleans()] * 7),
        ample=st.sampled_from([True, True, False]),
        draft=st.sampled_from([0, 1, 8]),
    )
    def begin(
        self, slots: int, batch: int, queue: int, chunk: int, flags: tuple[bool, ...], ample: bool, draft: int
    ) -> None:
        auto, reuse, coalesce, recurrent, drafts, begins, self.quits = flags
        bounds = limits(
            slots,
            min(batch, slots),
            CONTEXT,
            queue=queue,
            step_tokens=chunk,
            prefill_tokens=4 * chunk,
            auto=auto,
            reuse=reuse,
            coalesce=coalesce,
            draft=draft,
            pages=80 if ample else 6,
            states=(40 if ample else 2) * recurrent,
        )
        self.one = Modelled(bounds, recurrent, ample, drafts, begins)
        self.last: tuple[Any, ...] = ((1, 2), 9, 4, {})
        self.model, self.say, self.ok, self.refused = self.one.model, self.one.say, self.one.ok, self.one.refused

    def check_invariants(self, *told: Any, **named: Any) -> None:
        if hasattr(self, "one"):
            self.one.driver.session.check()
            assert nobody_waits_in_vain(self.one.driver.session)
