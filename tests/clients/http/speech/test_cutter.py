"""Stop strings, whole characters, and log probabilities beside the text they belong to."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from paceline.clients.detokenizer import Detokenizer
from paceline.clients.http.speech.cutter import Cutter, Likely
from paceline.clients.stop_strings import StopStrings

WORDS = ["a", "b", "ab", "c", "é", "x"]
LETTERS = st.lists(st.integers(0, len(WORDS) - 1), max_size=30)


def cut(pieces: Sequence[bytes], stops: Sequence[str]) -> tuple[list[str], list[int], str | None]:
    """What is sent after each piece and at the end, whose log probabilities were told, and the stop string."""
    cutter = Cutter(Detokenizer(pieces), StopStrings(stops))
    sent, told = [], []
    for token in range(len(pieces)):
        delta = cutter.push(token, Likely(token, -1.0, ()))
        sent.append(delta.text)
        told += [one.token for one in delta.likely]
        if cutter.stopped is not None:
            return sent, told, cutter.stopped
    delta = cutter.finish()
    return [*sent, delta.text], told + [one.token for one in delta.likely], cutter.stopped


def test_a_stop_string_across_token_borders() -> None:
    assert cut([b"one ", b"EN", b"D two"], ["END"]) == (["one ", "", ""], [0], "END")
    assert cut([b"one E", b"ND"], ["END"]) == (["one ", ""], [0], "END")
    assert cut([b"EN", b"E", b"ND"], ["END"]) == (["", "EN", ""], [0], "END")
    assert cut([b"EN"], ["END"]) == (["", "EN"], [0], None)
    assert cut([b"abc"], ["c", "b"]) == (["a"], [0], "b")


def test_a_character_in_pieces() -> None:
    euro = "€".encode()
    assert cut([b"1 ", euro[:1], euro[1:], b"!"], []) == (["1 ", "", "€", "!", ""], [0, 1, 2, 3], None)
    assert cut([euro[:2]], []) == (["", "\ufffd"], [0], None)
    assert cut([b"5", euro[:2], euro[2:]], ["€"]) == (["5", "", ""], [0], "€")
    assert cut([euro[:2]], ["\ufffd"]) == (["", ""], [], "\ufffd")


@given(LETTERS, st.lists(st.sampled_from(["ab", "ba", "éx", "cab", "abab"]), max_size=3))
def test_what_is_sent_is_the_text_up_to_the_first_stop_string(tokens: list[int], stops: list[str]) -> None:
    pieces = [WORDS[token].encode() for token in tokens]
    sent, told, stopped = cut(pieces, stops)
    text, whole = "".join(sent), "".join(WORDS[token] for token in tokens)
    assert whole.startswith(text)
    assert not any(stop in text for stop in stops)
    if stopped is None:
        assert text == whole and told == list(range(len(tokens)))
    else:
        assert whole[len(text) :].startswith(stopped)
        assert told == list(range(len(told)))
