"""The process of the grammars: outputs live in it beside each other, and some take too much."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from paceline.daemon.constraints import Ahead, Given, Stuck
from paceline.daemon.grammar_worker import Library
from paceline.daemon.grammars import LONGEST, TOO_MUCH, TextGrammars
from paceline.daemon.null_engine import NullEngine
from paceline.protocol import Grammar, Refusal
from writing import EOS, PERSON, TEXTS, Texts, Writing, allowed


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
