"""What one request's guesses are worth: at first what guesses usually are, then what its own have been."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from math import prod
from operator import truediv

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paceline.daemon.guesses import CHANCES, FORCED, PROPOSED, TRIALS, Guesser


def chances(guesser: Guesser, count: int) -> list[float]:
    return list(islice(guesser.chances(), count))


def test_without_a_match_there_is_no_chance() -> None:
    guesser = Guesser([1, 2, 3])
    assert (chances(guesser, 3), guesser.guess(3)) == ([], [])


def test_each_guess_depends_on_those_before_it_and_on_a_longer_agreement() -> None:
    guesser = Guesser([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2])
    first, second, third, fourth = CHANCES[:4]
    expected = [first, first * second, first * second * third, first * second * third * fourth]
    assert chances(guesser, 4) == pytest.approx(expected)
    assert guesser.guess(4) == [3, 4, 5, 6]


def test_the_longest_agreements_are_of_one_kind() -> None:
    guesser = Guesser([*range(40), *range(30)])
    one, two, three = chances(guesser, 3)
    assert one == CHANCES[5] and two / one == pytest.approx(three / two) == pytest.approx(CHANCES[5])


@pytest.mark.parametrize(("right", "expected"), [(True, (TRIALS * 0.3 + 20) / (TRIALS + 20)), (False, None)])
def test_it_learns_from_what_came(right: bool, expected: float | None) -> None:
    """Twenty times two ids agree, and the guess was right or wrong; the agreement of three is another kind."""
    guesser = Guesser([1, 2, 3])
    for n in range(20):
        for token in (100 + n, 1, 2, 3 if right else 200 + n):
            guesser.add(token)
    for token in (99, 1, 2):
        guesser.add(token)
    wrong = TRIALS * CHANCES[0] / (TRIALS + 20)
    assert chances(guesser, 1) == [pytest.approx(expected or wrong)]


def test_forced_tokens_follow_guesses_and_are_learned_too() -> None:
    guesser = Guesser([1, 2, 3, 4, 5, 1, 2])
    one, two, three, four = islice(guesser.chances_with(2), 4)
    forced = CHANCES[FORCED]
    assert [one, two] == chances(guesser, 2)
    assert (three / two, four / three) == (pytest.approx(forced), pytest.approx(forced))
    guesser.note_forced(False)
    assert next(guesser.chances_with(0)) == pytest.approx(forced * TRIALS / (TRIALS + 1))
    guesser.note_forced(True)
    assert next(guesser.chances_with(0)) == pytest.approx((forced * TRIALS + 1) / (TRIALS + 2))


def test_a_proposal_is_a_guess_as_long_as_it_is() -> None:
    guesser = Guesser([1, 2, 3])
    guesser.propose((7, 8))
    assert chances(guesser, 9) == pytest.approx([PROPOSED[0], PROPOSED[0] * PROPOSED[1]])
    assert (guesser.guess(1), guesser.guess(2), guesser.guess(9)) == ([7], [7, 8], [7, 8])


def test_a_proposal_holds_as_long_as_the_text_goes_on_with_it() -> None:
    """Its third token is as likely as third ones are, wherever the text has come to."""
    guesser = Guesser([1, 2, 3])
    guesser.propose((7, 8, 9, 10))
    guesser.add(7)
    guesser.add(8)
    assert guesser.guess(9) == [9, 10]
    assert chances(guesser, 9) == pytest.approx([PROPOSED[2], PROPOSED[2] * PROPOSED[3]])
    guesser.add(11)
    assert (guesser.guess(9), chances(guesser, 9)) == ([], [])
    guesser.propose((12,))
    guesser.add(12)
    assert guesser.guess(9) == [], "nothing of it is left"


def test_a_new_proposal_takes_the_place_of_the_last_one() -> None:
    guesser = Guesser([1, 2, 3])
    guesser.propose((7, 8, 9))
    guesser.add(7)
    guesser.propose((5, 6))
    assert guesser.guess(9) == [5, 6] and chances(guesser, 1) == guesser.promises(1)
    guesser.propose(())
    assert guesser.guess(9) == []


@pytest.mark.parametrize(("text", "guess"), [((1, 2), [7, 8]), (range(10), [10, 11])])
def test_the_likelier_of_what_was_looked_up_and_what_is_proposed_is_guessed(
    text: Sequence[int], guess: list[int]
) -> None:
    guesser = Guesser([*text, 10, 11, 99, *text])
    looked_up = chances(guesser, 2)
    guesser.propose((7, 8))
    assert guesser.guess(2) == guess
    assert chances(guesser, 2) == (looked_up if guess[0] == 10 else guesser.promises(2))
    for token in range(200, 220):  # none of these is looked up
        guesser.add(token)
        guesser.propose((51,))
    for token in text:
        guesser.add(token)
    guesser.propose((7, 8))
    assert guesser.guess(1) == [200], "the text does not go on as it is proposed"


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 8)), max_size=40))
def test_of_a_proposal_it_learns_what_came_of_it_until_the_first_wrong_token(proposals: list[tuple[int, int]]) -> None:
    guesser, right, tried = Guesser([1, 2]), [chance * TRIALS for chance in PROPOSED], [TRIALS] * len(PROPOSED)
    token = 100
    for length, proven in proposals:
        guesser.propose(range(token, token + length))
        for place in range(min(proven + 1, length)):
            guesser.add(token + place if place < proven else 5)
            tried[place] += 1
            right[place] += place < proven
        token += 10
    for count in range(9):
        expected = [prod(map(truediv, right[:end], tried[:end])) for end in range(1, count + 1)]
        assert guesser.promises(count) == pytest.approx(expected)


def test_what_came_of_proposals_long_ago_counts_less() -> None:
    guesser = Guesser([1, 2])
    for token in range(100, 600):
        guesser.propose((token,))
        guesser.add(token)
    for token in range(600, 664):
        guesser.propose((5,))
        guesser.add(token)
    assert guesser.promises(1)[0] < 0.5


def test_a_proposal_in_a_grammar_has_its_chances_before_those_of_forced_tokens() -> None:
    guesser = Guesser([1, 2, 3])
    guesser.propose((7, 8, 9))
    one, two, three = islice(guesser.chances_with(2), 3)
    assert [one, two] == guesser.promises(2) and three / two == pytest.approx(CHANCES[FORCED])
