"""How outputs in grammars may go on: what is told of a draft, and that looking changes nothing."""

from __future__ import annotations

import random
import signal
from collections.abc import Sequence
from typing import Any, cast

import pytest
from paceline.daemon.constraints import Ahead, Stuck
from paceline.daemon.grammar_worker import Library
from paceline.daemon.grammars import TextGrammars
from paceline.protocol import Grammar
from writing import CALL, EOS, PERSON, TEXTS, Texts, Writing, allowed


@pytest.fixture(scope="module", params=[1, 2])
def grammars(request: pytest.FixtureRequest) -> TextGrammars:
    return TextGrammars(Texts(), threads=request.param)


def walk(output: Writing, text: Sequence[int], chance: random.Random) -> tuple[list[bytes | Stuck], int]:
    """The sets that are met on the way of a text, and how many tokens were drafted, some of them wrong; what is told of
    a draft's tokens is what is found when the text goes on with them."""
    met, at, drafted = [output.found], 0, 0
    while at < len(text):
        count = chance.randint(1, 3)
        guess = list(text[at + count : at + count + chance.randint(0, 6)])
        if guess and chance.random() < 0.5:
            guess[chance.randrange(len(guess))] = chance.choice(b'a"}1')
        ahead = output.ahead(text[at : at + count], guess, chance.randint(0, 5))
        at += count
        met += [b""] * (count - 1) + [ahead.allowed[0]]
        assert len(ahead.allowed) == len(ahead.draft) + 1 and ahead.draft[: ahead.forced] == tuple(
            guess[: ahead.forced]
        )
        assert not {EOS, CALL}.intersection(ahead.draft)
        right = 0
        while right < len(ahead.draft) and tuple(text[at : at + right + 1]) == ahead.draft[: right + 1]:
            right += 1
        for n in range(1, right + 1):
            met.append(ahead.allowed[n])
        if right:
            output.ahead(text[at : at + right], (), 0)
            assert output.found == met[-1]
        at, drafted = at + right, drafted + len(ahead.draft)
    return met[: len(text) + 1], drafted


@pytest.mark.parametrize("seed", range(12))
def test_looking_ahead_changes_nothing(grammars: TextGrammars, seed: int) -> None:
    chance = random.Random(seed)
    text = b'{"name": "abc", "age": 12}' if seed % 2 else b'{"name":"}","age":-7}'
    output, alone = Writing(grammars, Grammar.json(PERSON)), Writing(grammars, Grammar.json(PERSON))
    met, drafted = walk(output, text, chance)
    assert drafted
    for place, token in enumerate(text):
        assert met[place] in (b"", alone.found)
        alone.follow(token)
    assert output.found == alone.found and EOS in allowed(output)


def test_what_has_to_come_is_drafted_in_the_longest_tokens(grammars: TextGrammars) -> None:
    output = Writing(grammars, Grammar.json(PERSON))
    (quote, name) = TEXTS.index(b'{"'), TEXTS.index(b"name")
    found = output.ahead([quote], (), 8)
    assert found.draft[0] == name and found.forced == 0 and found.draft[1] == ord('"')
    found = output.ahead([name], (TEXTS.index(b'":'), ord('"'), ord("x"), EOS, ord("y")), 8)
    assert found.draft == (TEXTS.index(b'":'), ord('"'), ord("x")) and found.forced == 3, "an end is not drafted"
    end = Writing(grammars, Grammar("regex", "abc"))
    assert end.ahead([ord("a")], (), 8).draft == (ord("b"), ord("c"))


def test_an_output_that_cannot_be_taken_back_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(TEXTS, {EOS}, 1)
    library.answer(("begin", 1, "start: /abcde/", (EOS,)))

    class Stubborn:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def rollback(self, count: int) -> bool:
            return False

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    library._outputs[1].matcher = cast(Any, Stubborn(library._outputs[1].matcher))
    ((sets, draft, guessed),) = library.answer(("follow", [(1, b"ab", b"cx", 2)]))
    assert (len(sets), draft, guessed) == (3, (ord("c"), ord("d")), 1)
    assert not isinstance(library._outputs[1].matcher, Stubborn)
    ((again, _, _),) = library.answer(("follow", [(1, b"c", b"", 0)]))
    assert again == (sets[1],)


def test_a_grammar_that_cannot_be_taken_back_is_not_looked_ahead_in_again() -> None:
    library = Library(TEXTS, {EOS}, 1)
    assert isinstance(library.answer(("begin", 1, 'start: a\na[stop="END"]: /[a-zA-Z]*/', (EOS,))), bytes)
    ((_, draft, _),) = library.answer(("follow", [(1, b"ab", b"cd", 2)]))
    matcher = library._outputs[1].matcher
    ((_, again, _),) = library.answer(("follow", [(1, b"c", b"de", 2)]))
    assert draft == tuple(b"cd") and again == () and library._outputs[1].matcher is matcher


def test_nor_one_in_which_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(TEXTS, {EOS}, 1)
    library.answer(("begin", 1, "start: /[a-z]{9}/", (EOS,)))
    monkeypatch.setattr("paceline.daemon.grammar_worker.LONGEST_LOOK", 0.0)
    ((_, draft, _),) = library.answer(("follow", [(1, b"ab", b"cd", 2)]))
    ((_, again, _),) = library.answer(("follow", [(1, b"c", b"de", 2)]))
    assert (draft, again) == ((ord("c"),), ())


def test_where_a_worker_was_lost_nothing_ahead_is_looked_at_again() -> None:
    own = TextGrammars(Texts(), seconds=0.5)
    output = Writing(own, Grammar("regex", "[a-z]{20}"))
    assert output.ahead(b"ab", b"cd", 2).draft == tuple(b"cd")
    assert own._worker is not None
    own._worker._process.send_signal(signal.SIGSTOP)
    assert output.ahead(b"c", b"de", 2) == Ahead((output.found,))
    assert output.ahead(b"d", b"ef", 2).draft == ()
    assert Writing(own, Grammar("regex", "[a-z]{20}")).ahead(b"ab", b"cd", 2).draft == tuple(b"cd")
