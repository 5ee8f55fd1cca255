"""The process of the grammars: outputs live in it beside each other, and some take too much."""

from __future__ import annotations

import random
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from paceline.daemon.constraints import Ahead, Given, Stuck
from paceline.daemon.grammar_worker import Library
from paceline.daemon.grammars import LONGEST, TOO_MUCH, TextGrammars
from paceline.daemon.null_engine import NullEngine
from paceline.protocol import Grammar, Refusal
from writing import CALL, EOS, PERSON, TEXTS, Texts, Writing, allowed


@pytest.fixture(scope="module", params=[1, 2])
def grammars(request: pytest.FixtureRequest) -> TextGrammars:
    return TextGrammars(Texts(), threads=request.param)


def test_without_texts_or_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="no texts"):
        TextGrammars(NullEngine()).begin(Grammar.json(True), (EOS,))
    (tmp_path / "llguidance.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(Refusal, match=r"pip install paceline\[grammar\]") as caught:
        TextGrammars(Texts()).begin(Grammar.json(True), (EOS,))
    assert caught.value.code == "unsupported"
    (tmp_path / "llguidance.py").write_text("import os; os._exit(1)")
    with pytest.raises(Refusal, match="their process does not start") as caught:
        TextGrammars(Texts()).begin(Grammar.json(True), (EOS,))
    assert caught.value.code == "unsupported"


def test_the_vocabulary_is_read_once_and_grammars_are_kept() -> None:
    engine = Texts()
    own = TextGrammars(engine)
    assert engine.asked == 0
    for number in range(3):
        own.begin(Grammar("regex", f"a{{{number + 1}}}"), (EOS,))
    assert engine.asked == 1
    own.close()
    library = Library(TEXTS, {EOS}, 1)
    for number in range(9):
        assert isinstance(library.answer(("begin", number, f"start: /a{{{number + 1}}}/", (EOS,))), bytes)
    assert library.answer(("forget", range(5))) is None and len(library._outputs) == 4


@pytest.mark.parametrize("threads", [1, 2])
def test_what_befalls_one_output_does_not_befall_another_of_the_same_grammar(threads: int) -> None:
    """Copies of one matcher would share the lexer, and its limits."""
    grammar = Grammar(
        "lark",
        r"""start: X
X: /s[a-z ]{1,60}/ | /x/ Y
Y: /(a|b)*a(a|b){300}/ & ~/(a|b)*b(a|b){300}/
""",
    )
    own = TextGrammars(Texts(), threads)
    alone, good, bad = (Writing(own, grammar) for _ in range(3))
    for letter in b"some text":
        alone.follow(letter)
    good.follow(ord("s"))
    bad.follow(ord("x"))
    for letter in b"ab" * 400:
        if isinstance(bad.found, Stuck):
            break
        bad.follow(letter)
    assert isinstance(bad.found, Stuck)
    for letter in b"ome text":
        good.follow(letter)
    assert good.found == alone.found and ord("z") in allowed(Writing(own, Grammar("regex", "z")))
    assert ord("s") in allowed(Writing(own, grammar))


def test_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    own = TextGrammars(Texts(), seconds=0.5)
    output = Writing(own, Grammar("regex", "ab"))
    monkeypatch.setattr("subprocess.Popen", broken)
    assert own._worker is not None
    own._worker.kill()
    output.follow(ord("a"))
    assert output.found == Stuck("grammar: their process does not start (Too many open files)")
    with pytest.raises(Refusal, match=r"does not start \(Too many open files\)"):
        TextGrammars(Texts()).begin(Grammar("regex", "ab"), (EOS,))


def bombs() -> dict[str, Grammar]:
    """Each of some kilobytes at most."""
    chain = {str(n): {"properties": {"a": {"$ref": f"#/$defs/{n + 1}"}}} for n in range(3000)}
    return {
        "time": Grammar.json({"allOf": [{"type": "string", "pattern": f"a.{{{n}}}b"} for n in range(50)]}),
        "memory": Grammar.json({"type": "integer", "multipleOf": 10000019}),
        "stack": Grammar.json({"$ref": "#/$defs/0", "$defs": chain | {"3000": {}}}),
        "rules": Grammar("lark", "start: a0\n" + "".join(f"a{n}: a{n + 1}\n" for n in range(9000)) + 'a9000: "x"'),
    }


@pytest.mark.parametrize("kind", bombs())
def test_a_grammar_that_takes_too_much_is_refused_and_others_go_on(kind: str) -> None:
    own = TextGrammars(Texts(), seconds=0.5)
    outputs = [Writing(own, Grammar("regex", "[ab]{9}")), Writing(own, Grammar.json(PERSON))]
    outputs[0].follow(ord("a"))
    expected = [output.found for output in outputs]
    with pytest.raises(Refusal) as caught:
        own.begin(bombs()[kind], (EOS,))
    assert (caught.value.code, caught.value.error) == ("bad_argument", f"grammar: {TOO_MUCH}")
    worker = own._worker
    with pytest.raises(Refusal, match=TOO_MUCH):  # at once
        own.begin(bombs()[kind], (EOS,))
    assert own._worker is worker
    found = own.follow([Given(outputs[0].constraint, b"b"), Given(outputs[1].constraint, b"{")])
    assert all(isinstance(one, Ahead) for one in found) and found != expected
    alone = Writing(own, Grammar("regex", "[ab]{9}"))
    alone.follow(ord("a"))
    alone.follow(ord("b"))
    assert Ahead((alone.found,)) == found[0]


def test_a_worker_that_dies_is_replaced_and_one_that_hangs_too() -> None:
    own = TextGrammars(Texts(), seconds=0.5)
    output, other = Writing(own, Grammar("regex", "abcdef")), Writing(own, Grammar("regex", "uvwxyz"))
    for place, text in enumerate(["ab", "cd"]):
        worker = own._worker
        assert worker is not None
        worker._process.send_signal((signal.SIGKILL, signal.SIGSTOP)[place])
        for one, letters in ((output, text), (other, "uvwx"[2 * place : 2 * place + 2])):
            for letter in letters:
                one.follow(ord(letter))
        assert own._worker is not worker and worker._process.returncode == -signal.SIGKILL
    assert allowed(output) == {ord("e")} and allowed(other) == {ord("y")}


def test_one_that_takes_too_much_on_its_way_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    own = TextGrammars(Texts(), seconds=0.5)
    good, bad = Writing(own, Grammar("regex", "ab")), Writing(own, Grammar("regex", "cd"))
    worker = own._worker
    assert worker is not None
    worker.kill()
    bad.constraint.lark = f"start: {bombs()['time'].rule}"  # as if it had become one
    found = own.follow([Given(good.constraint, b"a"), Given(bad.constraint, b"c")])
    assert isinstance(found[0], Ahead) and found[1] == Stuck(TOO_MUCH)
    good.follow(ord("b"))
    assert allowed(good) == {EOS}


def test_one_that_is_too_long(grammars: TextGrammars) -> None:
    with pytest.raises(Refusal, match=f"grammar: has {LONGEST + 1} characters, expected at most {LONGEST}"):
        grammars.begin(Grammar("lark", "x" * (LONGEST + 1)), (EOS,))


def test_what_ended_is_forgotten() -> None:
    own = TextGrammars(Texts())
    for _ in range(5):
        own.begin(Grammar("regex", "ab"), (EOS,))
    worker = own._worker
    assert worker is not None and len(worker._forgotten) >= 1
    own.close()


def test_several_at_once_are_as_each_alone(grammars: TextGrammars) -> None:
    wanted = [Grammar("regex", "[a-c]{1,9}"), Grammar.json(PERSON), Grammar("lark", 'start: "abcabc"')] * 5
    texts = [b"abc", b'{"n', b"abc"] * 5
    together = [grammars.begin(grammar, (EOS, number % 5)) for number, grammar in enumerate(wanted)]
    alone = [Writing(grammars, grammar, (EOS, number % 5)) for number, grammar in enumerate(wanted)]
    for place in range(3):
        for output, text in zip(alone, texts, strict=True):
            output.follow(text[place])
        found = grammars.follow([Given(one[0], [text[place]]) for one, text in zip(together, texts, strict=True)])
        assert found == [Ahead((output.found,)) for output in alone]
    stuck = grammars.follow([Given(together[0][0], b"z"), Given(together[3][0], b"a")])
    assert isinstance(stuck[0], Stuck) and isinstance(stuck[1], Ahead)


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
