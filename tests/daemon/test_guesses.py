"""What one request's guesses are worth: at first what guesses usually are, then what its own have been."""

from __future__ import annotations

from itertools import islice

import pytest
from paceline.daemon.guesses import CHANCES, FORCED, TRIALS, Guesser


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
