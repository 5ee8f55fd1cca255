"""The ids of calls."""

import re

from hypothesis import given
from hypothesis import strategies as st
from paceline.clients.http.call_ids import call_id, short_id


def test_a_thousand_ids_are_apart() -> None:
    ids = {call_id() for _ in range(1000)}
    assert len(ids) == 1000 and all(re.fullmatch("[A-Za-z0-9]{9}", one) for one in ids)


@given(st.text(st.characters()))
def test_an_id_has_one_short_one(name: str) -> None:
    short = short_id(name)
    assert re.fullmatch("[A-Za-z0-9]{9}", short) and short == short_id(name) == short_id(short)


def test_short_ids_are_apart() -> None:
    assert len({short_id(f"call_{number}") for number in range(1000)}) == 1000
