"""What grammars allow, by the library itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from paceline.daemon.constraints import Stuck
from paceline.daemon.grammar_worker import STUCK
from paceline.daemon.grammars import TextGrammars
from paceline.daemon.plan import Pieces
from paceline.protocol import Grammar, Refusal
from writing import CALL, EOS, PERSON, TEXTS, Texts, Writing, allowed


@pytest.fixture(scope="module", params=[1, 2])
def grammars(request: pytest.FixtureRequest) -> TextGrammars:
    return TextGrammars(Texts(), threads=request.param)


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


def test_a_grammar_of_many_alternatives(grammars: TextGrammars) -> None:
    output = Writing(grammars, properties(3000), (EOS,))
    output.follow(ord("{"))
    assert {ord('"'), ord("}")} <= allowed(output)


@pytest.mark.parametrize(("number", "error"), [(3600, "Too many items"), (4200, "Current row has 16807 items")])
def test_a_grammar_that_takes_too_much_work(grammars: TextGrammars, number: int, error: str) -> None:
    """The library's limits end it."""
    output = Writing(grammars, properties(number), (EOS,))
    assert allowed(output) == {ord("{"), TEXTS.index(b'{"')}
    output.follow(ord("{"))
    assert isinstance(output.found, Stuck)
    assert output.found.error.startswith("the grammar cannot go on: ") and error in output.found.error


def properties(number: int) -> Grammar:
    """Of an object that may have them all or none."""
    return Grammar.json({"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(number)}})


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


def test_a_schema_survives_its_word(grammars: TextGrammars) -> None:
    schema = {"enum": ["a b\tc", "é\u2028"]}
    assert reads(grammars, Grammar.json(schema), json.dumps("é\u2028", ensure_ascii=False).encode())
