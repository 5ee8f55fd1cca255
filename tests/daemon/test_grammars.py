"""TextGrammars over a vocabulary of bytes and a few longer tokens, by the library itself."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from paceline.daemon.constraints import Stuck
from paceline.daemon.grammar_worker import STUCK, Library
from paceline.daemon.grammars import LONGEST, TOO_MUCH, TextGrammars
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.plan import Pieces
from paceline.protocol import Grammar, Refusal

TEXTS = [bytes([byte]) for byte in range(256)] + [
    b'{"',
    b'":',
    b'"}',
    b"true",
    b"name",
    b"  ",
    b"<eos>",
    b"<call>",
    b"",
]
EOS, CALL, NOTHING = len(TEXTS) - 3, len(TEXTS) - 2, len(TEXTS) - 1
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


class Texts(NullEngine):
    def __init__(self, texts: Sequence[bytes] = TEXTS) -> None:
        super().__init__()
        self.info = replace(self.info, vocab=len(texts))
        self.texts = texts
        self.asked = 0

    def pieces(self) -> Any:
        self.asked += 1
        return Pieces(self.texts, frozenset({EOS, CALL} if len(self.texts) > CALL else ()))


@pytest.fixture(scope="module", params=[1, 2])
def grammars(request: pytest.FixtureRequest) -> TextGrammars:
    return TextGrammars(Texts(), threads=request.param)


class Writing:
    """One output."""

    def __init__(self, grammars: TextGrammars, grammar: Grammar, ends: Sequence[int] = (EOS,)) -> None:
        self._grammars = grammars
        self.constraint, self.found = grammars.begin(grammar, ends)

    def follow(self, token: int) -> None:
        (self.found,) = self._grammars.follow([(self.constraint, token)])  # type: ignore[assignment]


def allowed(output: Writing) -> set[int]:
    bits = output.found
    assert isinstance(bits, bytes) and len(bits) == (len(TEXTS) + 31) // 32 * 4
    found = {token for token in range(8 * len(bits)) if bits[token // 8] >> token % 8 & 1}
    assert max(found) < len(TEXTS) and NOTHING not in found
    return found


def reads(grammars: TextGrammars, grammar: Grammar, text: bytes, ends: Sequence[int] = (EOS,)) -> bool:
    """Whether it may be the whole output, byte by byte."""
    output = Writing(grammars, grammar, ends)
    for byte in text:
        if byte not in allowed(output):
            return False
        output.follow(byte)
    return set(ends) <= allowed(output)


def test_json_by_its_schema(grammars: TextGrammars) -> None:
    person = Grammar.json(PERSON)
    assert reads(grammars, person, b'{"name":"Ada","age":36}')
    assert reads(grammars, person, b'{\n  "name": "Ad\\n\xc3\xa9",\n  "age": -1\n}')
    assert not reads(grammars, person, b'{"name":"Ada"}')
    assert not reads(grammars, person, b'{"age":36,"name":"Ada"}')
    assert not reads(grammars, person, b'{"name":"Ada","age":"36"}')
    assert not reads(grammars, person, b'{"name":"\xff')
    assert not reads(grammars, person, b"")


def test_any_json(grammars: TextGrammars) -> None:
    for schema in (True, {}):
        assert reads(grammars, Grammar.json(schema), b'[1,{"a":[null]}]')
    assert not reads(grammars, Grammar.json({"type": "object"}), b"[1]")
    with pytest.raises(Refusal, match="schema is false"):
        Writing(grammars, Grammar.json(False), (EOS,))


def test_blanks_in_json_have_a_bound(grammars: TextGrammars) -> None:
    thing = Grammar.json({"type": "object"})
    assert reads(grammars, thing, b'{ "a" : 1 }')
    assert reads(grammars, thing, b'{\n\t"a": [\n\t\t1\n\t]\n}')
    assert not reads(grammars, thing, b'{  "a":1}')
    assert not reads(grammars, thing, b'{\n\n"a":1}')
    loose = Grammar.json({"type": "object", "x-guidance": {"whitespace_pattern": r"\s*"}})
    assert reads(grammars, loose, b'{\n\n   "a":1}')


def test_regular_expressions_and_lark(grammars: TextGrammars) -> None:
    assert reads(grammars, Grammar("regex", "[0-9]{2}/[a-z]+"), b"12/ab")
    assert not reads(grammars, Grammar("regex", "[0-9]{2}/[a-z]+"), b"12/")
    assert reads(grammars, Grammar("lark", 'start: "a" | start "b"'), b"abb")
    assert reads(grammars, Grammar("lark", 'start: "é"'), "é".encode())


def test_longer_tokens_and_where_it_may_end(grammars: TextGrammars) -> None:
    output = Writing(grammars, Grammar.json({"enum": [True, "name"]}), (EOS, 300 % len(TEXTS)))
    assert allowed(output) == {ord("t"), ord('"'), TEXTS.index(b"true")}
    output.follow(TEXTS.index(b"true"))
    assert allowed(output) == {EOS, 300 % len(TEXTS)}


def test_an_end_is_allowed_nowhere_else(grammars: TextGrammars) -> None:
    """Also one that the grammar would take as text."""
    output = Writing(grammars, Grammar("regex", "a*b"), (ord("a"), EOS))
    assert allowed(output) == {ord("b")}
    output.follow(ord("b"))
    assert allowed(output) == {ord("a"), EOS}


def test_marks_are_no_text_unless_named(grammars: TextGrammars) -> None:
    assert CALL not in allowed(Writing(grammars, Grammar("regex", "(?s:.*)"), (EOS,)))
    output = Writing(grammars, Grammar("lark", 'start: <call> "a"'), (EOS,))
    assert allowed(output) == {CALL}
    output = Writing(grammars, Grammar("lark", f'start: <[{CALL}]> "a"'), (EOS,))
    assert allowed(output) == {CALL}


def test_outputs_of_one_grammar_do_not_disturb_each_other(grammars: TextGrammars) -> None:
    grammar = Grammar("regex", "ab|cd")
    first, second = Writing(grammars, grammar, (EOS,)), Writing(grammars, grammar, (EOS,))
    first.follow(ord("a"))
    assert allowed(second) == {ord("a"), ord("c")} and allowed(first) == {ord("b")}
    assert allowed(Writing(grammars, grammar, (EOS,))) == {ord("a"), ord("c")}


def test_a_vocabulary_that_cannot_go_on() -> None:
    output = Writing(TextGrammars(Texts([b"a", b"<eos>"])), Grammar("regex", "ab"), (1,))
    assert output.found == b"\1\0\0\0"
    output.follow(0)
    assert output.found == Stuck(STUCK)
    with pytest.raises(Refusal, match="no token of the vocabulary continues"):
        Writing(TextGrammars(Texts([b"a", b"<eos>"])), Grammar("regex", "b"), (1,))


def test_a_grammar_that_takes_too_much_work(grammars: TextGrammars) -> None:
    """The library's limits end it."""
    many = {f"p{number}": {"type": "string"} for number in range(2000)}
    output = Writing(grammars, Grammar.json({"type": "object", "properties": many}), (EOS,))
    assert allowed(output) == {ord("{"), TEXTS.index(b'{"')}
    output.follow(ord("{"))
    assert isinstance(output.found, Stuck)
    assert output.found.error.startswith("the grammar cannot go on: Parser Error: Current row has 8007 items")


def test_more_tokens_than_the_model_has(grammars: TextGrammars) -> None:
    engine = Texts([*TEXTS, b"abc", b"<more>"])
    engine.info = replace(engine.info, vocab=len(TEXTS))
    output = Writing(TextGrammars(engine), Grammar("regex", "abc"))
    assert allowed(output) == {ord("a")}


@pytest.mark.parametrize(
    ("grammar", "error"),
    [
        (Grammar("regex", "("), 'grammar: invalid regex "(" (in regex): regex parse error: ( ^ error: unclosed'),
        (Grammar("regex", "a\\"), "grammar: "),
        (Grammar("lark", "start: foo"), 'grammar: at 1(8): unknown name: "foo"'),
        (Grammar.json({"type": "strin"}), "grammar: failed to compile JSON schema: Invalid type: strin"),
        (
            Grammar.json({"not": {"type": "null"}}),
            'grammar: failed to compile JSON schema: Unimplemented keys: ["',
        ),
        (Grammar.json({"x-guidance": 3}), "grammar: "),
    ],
)
def test_refusals_say_what_is_wrong(grammars: TextGrammars, grammar: Grammar, error: str) -> None:
    with pytest.raises(Refusal) as caught:
        Writing(grammars, grammar, (EOS,))
    assert caught.value.code == "bad_argument"
    assert caught.value.error.startswith(error) and "\n" not in caught.value.error


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


@pytest.mark.parametrize("text", ["<[*]>", f"<[{len(TEXTS)}]>", "<[^3]>", "<[5-9999]>"])
def test_an_output_ends_where_its_grammar_does(grammars: TextGrammars, text: str) -> None:
    try:
        _, found = grammars.begin(Grammar("lark", f'start: {text} "abc"'), (EOS,))
    except Refusal:  # it names the end
        return
    assert not found[EOS // 8] >> EOS % 8 & 1


def test_the_end_has_no_name(grammars: TextGrammars) -> None:
    for text in ("<end>", "< >", "<|end|>"):
        with pytest.raises(Refusal):
            grammars.begin(Grammar("lark", f'start: {text} "abc"'), (EOS,))


def test_signs_without_text_and_texts_without_end() -> None:
    texts = [*TEXTS, b"", b"a" * 2000]
    engine = Texts(texts)
    engine.pieces = lambda: Pieces(texts, {EOS, CALL, len(TEXTS)})  # type: ignore[method-assign]
    own = TextGrammars(engine)
    _, found = own.begin(Grammar("lark", "start: <call> | /a*/"), (EOS,))
    assert {token for token in range(len(texts)) if found[token // 8] >> token % 8 & 1} == {ord("a"), CALL, EOS}


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
    found = own.follow([(outputs[0].constraint, ord("b")), (outputs[1].constraint, ord("{"))])
    assert all(isinstance(one, bytes) for one in found) and found != expected
    alone = Writing(own, Grammar("regex", "[ab]{9}"))
    alone.follow(ord("a"))
    alone.follow(ord("b"))
    assert alone.found == found[0]


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
    found = own.follow([(good.constraint, ord("a")), (bad.constraint, ord("c"))])
    assert isinstance(found[0], bytes) and found[1] == Stuck(TOO_MUCH)
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


def test_a_schema_survives_its_word(grammars: TextGrammars) -> None:
    schema = {"enum": ["a b\tc", "é\u2028"]}
    assert reads(grammars, Grammar.json(schema), json.dumps("é\u2028", ensure_ascii=False).encode())


def test_several_at_once_are_as_each_alone(grammars: TextGrammars) -> None:
    wanted = [Grammar("regex", "[a-c]{1,9}"), Grammar.json(PERSON), Grammar("lark", 'start: "abcabc"')] * 5
    texts = [b"abc", b'{"n', b"abc"] * 5
    together = [grammars.begin(grammar, (EOS, number % 5)) for number, grammar in enumerate(wanted)]
    alone = [Writing(grammars, grammar, (EOS, number % 5)) for number, grammar in enumerate(wanted)]
    for place in range(3):
        for output, text in zip(alone, texts, strict=True):
            output.follow(text[place])
        found = grammars.follow([(one[0], text[place]) for one, text in zip(together, texts, strict=True)])
        assert found == [output.found for output in alone]
    stuck = grammars.follow([(together[0][0], ord("z")), (together[3][0], ord("a"))])
    assert isinstance(stuck[0], Stuck) and isinstance(stuck[1], bytes)
