"""The match finder against a slow one that looks everywhere."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from paceline.daemon.lookup import LONGEST, PIECE, SHORTEST, Lookup

TEXTS = st.lists(st.integers(0, 3), max_size=14)  # every pair occurs less often than a search looks


def agreement(ids: Sequence[int], place: int) -> int:
    """How many of the last ids are also those before `place`."""
    count = 0
    while count < min(place, LONGEST) and ids[place - 1 - count] == ids[len(ids) - 1 - count]:
        count += 1
    return count


def best(ids: Sequence[int]) -> tuple[int, int]:
    """The place of the longest agreement, of equal ones the last; and the agreement."""
    found = max(((agreement(ids, place), place) for place in range(1, len(ids))), default=(0, 0))
    return (found[1], found[0]) if found[0] >= SHORTEST else (0, 0)


@given(TEXTS)
def test_the_longest_agreement_is_found_and_of_equal_ones_the_last(ids: list[int]) -> None:
    lookup = Lookup(ids)
    place, length = best(ids)
    assert lookup.agreement == length
    assert lookup.guess(1) == ([ids[place]] if length else [])


@given(TEXTS, TEXTS)
def test_a_text_that_goes_on_is_followed(ids: list[int], more: list[int]) -> None:
    lookup = Lookup(ids)
    for token in more:
        guessed = lookup.guess(1)
        assert lookup.add(token) == (guessed == [token])
        ids = [*ids, token]
        if guessed != [token]:
            assert lookup.agreement == best(ids)[1]
        assert lookup.agreement <= best(ids)[1]
        assert not lookup.agreement or lookup.agreement >= SHORTEST


@given(TEXTS, st.integers(0, 20))
def test_a_guess_goes_on_as_the_text_did_and_round_from_its_end(ids: list[int], count: int) -> None:
    place, length = best(ids)
    known = list(ids)
    for index in range(count if length else 0):
        known.append(known[place + index])
    assert Lookup(ids).guess(count) == known[len(ids) :]


def test_a_right_guess_needs_no_search_and_agrees_further() -> None:
    lookup = Lookup([1, 2, 3, 4, 5, 9, 1, 2])
    assert (lookup.agreement, lookup.guess(4)) == (2, [3, 4, 5, 9])
    assert lookup.add(3) and lookup.agreement == 3
    assert not lookup.add(7) and (lookup.agreement, lookup.guess(3)) == (0, [])


def test_more_than_so_many_ids_are_not_compared() -> None:
    ids = [*range(40), *range(40)]
    assert Lookup(ids).agreement == LONGEST
    lookup = Lookup(ids[:-1])
    assert lookup.guess(1) == [39]
    assert lookup.add(39) and lookup.agreement == LONGEST


def test_a_search_ends_after_so_many_places() -> None:
    """The one with the longest agreement is too far back; the last of the short ones is taken."""
    lookup = Lookup([5, 1, 2, 8, *([6, 1, 2, 7] * 20), 5, 1, 2])
    assert (lookup.agreement, lookup.guess(1)) == (2, [7])
    lookup = Lookup([*([6, 1, 2, 7] * 20), 5, 1, 2, 8, 5, 1, 2])
    assert (lookup.agreement, lookup.guess(1)) == (3, [8])


def test_large_ids_and_a_text_that_outgrows_its_buckets() -> None:
    lookup = Lookup([2**31 - 1, 0])
    text = [n * 104729 % 2**31 for n in range(4 * PIECE)]
    for token in text:
        lookup.add(token)
    for token in text[:5]:
        lookup.add(token)
    assert lookup.guess(2) == text[5:7]


def test_a_long_text_is_entered_in_pieces() -> None:
    """Until it is in, nothing is found; then all of it, and what has come meanwhile."""
    text = list(range(3 * PIECE))
    lookup = Lookup([*text, 0, 1])
    found = []
    for token in (2, 3, 4, 5):
        found.append(lookup.guess(1))
        lookup.add(token)
    assert found == [[], [], [], [5]] and lookup.agreement == 6
    assert not lookup.add(0) and not lookup.add(0)
    assert lookup.guess(1) == [] and not lookup.add(1) and lookup.guess(2) == [2, 3]
