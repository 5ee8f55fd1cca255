"""The pool of kept states, and files of them."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.saved import Damaged, Saved, decode, encode
from paceline.daemon.states import StatePool

INFO = NullEngine(1, recurrent=True).info


def test_states_are_given_once_and_come_back() -> None:
    pool = StatePool(2)
    one, two = pool.allocate(), pool.allocate()
    assert {one, two} == {0, 1}
    assert pool.allocate() is None
    assert one is not None
    pool.retain(one)
    pool.release(one)
    assert pool.free == 0
    pool.release(one)
    assert (pool.free, len(pool)) == (1, 2)
    for misuse in (pool.retain, pool.release):
        with pytest.raises(ValueError, match=f"state {one} is free"):
            misuse(one)


PAGES = st.lists(st.binary(min_size=INFO.page_bytes, max_size=INFO.page_bytes), max_size=3).map(tuple)
SAVED = st.builds(
    Saved,
    st.lists(st.integers(0, 31999), max_size=200).map(tuple),
    st.integers(0, 99),
    PAGES,
    st.one_of(st.none(), st.binary(min_size=16, max_size=16)),
)


@given(SAVED)
def test_a_file_gives_back_what_went_in(saved: Saved) -> None:
    assert decode(b"".join(encode(saved, INFO)), INFO) == saved


@given(SAVED, st.integers(0, 1 << 20), st.integers(1, 255), st.booleans())
def test_a_file_that_was_cut_or_changed_is_refused(saved: Saved, place: int, flip: int, cut: bool) -> None:
    data = bytearray(b"".join(encode(saved, INFO)))
    place %= len(data)
    if cut:
        del data[place:]
    else:
        data[place] ^= flip
    with pytest.raises(Damaged, match=r"no snapshot of ours|version|checksum"):
        decode(bytes(data), INFO)


def test_another_version_is_named() -> None:
    data = bytearray(b"".join(encode(Saved((1,), 0, (), None), INFO)))
    data[8] = 9
    data[-32:] = hashlib.sha256(data[:-32]).digest()
    with pytest.raises(Damaged, match="version 9: expected 1"):
        decode(bytes(data), INFO)
