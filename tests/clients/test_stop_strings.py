"""Stop strings, by properties: a small alphabet, so that they overlap in every way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paceline.clients.stop_strings import StopStrings

WORDS = st.text("ab", min_size=1, max_size=4)
STOPS = st.lists(WORDS, max_size=3)


def first(text: str, stops: list[str]) -> tuple[str, str | None]:
    """By definition: character by character, the longest stop string that the text so far ends with."""
    for end in range(1, len(text) + 1):
        if ending := [stop for stop in stops if text[:end].endswith(stop)]:
            stop = max(ending, key=len)
            return text[: end - len(stop)], stop
    return text, None


@given(st.lists(st.text("ab", max_size=5)), STOPS)
def test_the_text_is_that_up_to_the_first_stop_string(pieces: list[str], stops: list[str]) -> None:
    strings = StopStrings(stops)
    shown = "".join(map(strings.push, pieces)) + strings.flush()
    assert (shown, strings.found) == first("".join(pieces), stops)


@given(st.lists(st.text("ab", max_size=5)), st.text("ab", max_size=5), STOPS)
def test_nothing_is_shown_that_could_become_one_and_nothing_else_is_held(
    pieces: list[str], more: str, stops: list[str]
) -> None:
    strings, text = StopStrings(stops), "".join(pieces)
    shown = "".join(map(strings.push, pieces))
    if strings.found is None:
        assert first(text + more, stops)[0].startswith(shown)
        held = text.removeprefix(shown)
        assert not held or any(stop.startswith(held) for stop in stops)


def test_an_empty_one_is_refused() -> None:
    with pytest.raises(ValueError, match="a stop string is empty"):
        StopStrings(["a", ""])
