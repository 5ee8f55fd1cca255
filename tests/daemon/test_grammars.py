"""Grammars over a vocabulary of bytes and a few longer tokens, by the library itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from paceline.daemon.constraints import NothingFollows
from paceline.daemon.grammars import KEPT, Grammars, Output
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


@pytest.fixture(scope="module")
def grammars() -> Grammars:
    return Grammars(Texts())


def allowed(output: Output) -> set[int]:
    bits = output.allowed()
    assert len(bits) == (len(TEXTS) + 31) // 32 * 4
    found = {token for token in range(8 * len(bits)) if bits[token // 8] >> token % 8 & 1}
    assert max(found) < len(TEXTS) and NOTHING not in found
    return found


def reads(grammars: Grammars, grammar: Grammar, text: bytes, ends: Sequence[int] = (EOS,)) -> bool:
    """Whether it may be the whole output, byte by byte."""
    output = grammars(grammar, ends)
    for byte in text:
        if byte not in allowed(output):
            return False
        output.follow(byte)
    return set(ends) <= allowed(output)


def test_json_by_its_schema(grammars: Grammars) -> None:
    person = Grammar.json(PERSON)
    assert reads(grammars, person, b'{"name":"Ada","age":36}')
    assert reads(grammars, person, b'{\n  "name": "Ad\\n\xc3\xa9",\n  "age": -1\n}')
    assert not reads(grammars, person, b'{"name":"Ada"}')
    assert not reads(grammars, person, b'{"age":36,"name":"Ada"}')
    assert not reads(grammars, person, b'{"name":"Ada","age":"36"}')
    assert not reads(grammars, person, b'{"name":"\xff')
    assert not reads(grammars, person, b"")


def test_any_json(grammars: Grammars) -> None:
    for schema in (True, {}):
        assert reads(grammars, Grammar.json(schema), b'[1,{"a":[null]}]')
    assert not reads(grammars, Grammar.json({"type": "object"}), b"[1]")
    with pytest.raises(Refusal, match="schema is false"):
        grammars(Grammar.json(False), (EOS,))


def test_blanks_in_json_have_a_bound(grammars: Grammars) -> None:
    thing = Grammar.json({"type": "object"})
    assert reads(grammars, thing, b'{ "a" : 1 }')
    assert reads(grammars, thing, b'{\n\t"a": [\n\t\t1\n\t]\n}')
    assert not reads(grammars, thing, b'{  "a":1}')
    assert not reads(grammars, thing, b'{\n\n"a":1}')
    loose = Grammar.json({"type": "object", "x-guidance": {"whitespace_pattern": r"\s*"}})
    assert reads(grammars, loose, b'{\n\n   "a":1}')


def test_regular_expressions_and_lark(grammars: Grammars) -> None:
    assert reads(grammars, Grammar("regex", "[0-9]{2}/[a-z]+"), b"12/ab")
    assert not reads(grammars, Grammar("regex", "[0-9]{2}/[a-z]+"), b"12/")
    assert reads(grammars, Grammar("lark", 'start: "a" | start "b"'), b"abb")
    assert reads(grammars, Grammar("lark", 'start: "é"'), "é".encode())


def test_longer_tokens_and_where_it_may_end(grammars: Grammars) -> None:
    output = grammars(Grammar.json({"enum": [True, "name"]}), (EOS, 300 % len(TEXTS)))
    assert allowed(output) == {ord("t"), ord('"'), TEXTS.index(b"true")}
    output.follow(TEXTS.index(b"true"))
    assert allowed(output) == {EOS, 300 % len(TEXTS)}


def test_an_end_is_allowed_nowhere_else(grammars: Grammars) -> None:
    """Also one that the grammar would take as text."""
    output = grammars(Grammar("regex", "a*b"), (ord("a"), EOS))
    assert allowed(output) == {ord("b")}
    output.follow(ord("b"))
    assert allowed(output) == {ord("a"), EOS}


def test_marks_are_no_text_unless_named(grammars: Grammars) -> None:
    assert CALL not in allowed(grammars(Grammar("regex", "(?s:.*)"), (EOS,)))
    output = grammars(Grammar("lark", 'start: <call> "a"'), (EOS,))
    assert allowed(output) == {CALL}
    output = grammars(Grammar("lark", f'start: <[{CALL}]> "a"'), (EOS,))
    assert allowed(output) == {CALL}


def test_outputs_of_one_grammar_do_not_disturb_each_other(grammars: Grammars) -> None:
    grammar = Grammar("regex", "ab|cd")
    first, second = grammars(grammar, (EOS,)), grammars(grammar, (EOS,))
    first.follow(ord("a"))
    assert allowed(second) == {ord("a"), ord("c")} and allowed(first) == {ord("b")}
    assert allowed(grammars(grammar, (EOS,))) == {ord("a"), ord("c")}


def test_a_vocabulary_that_cannot_go_on() -> None:
    output = Grammars(Texts([b"a", b"<eos>"]))(Grammar("regex", "ab"), (1,))
    assert output.allowed() == b"\1\0\0\0"
    output.follow(0)
    with pytest.raises(NothingFollows, match="no token of the vocabulary continues"):
        output.allowed()


def test_a_grammar_that_takes_too_much_work(grammars: Grammars) -> None:
    """The library's limits end it."""
    many = {f"p{number}": {"type": "string"} for number in range(2000)}
    output = grammars(Grammar.json({"type": "object", "properties": many}), (EOS,))
    assert allowed(output) == {ord("{"), TEXTS.index(b'{"')}
    output.follow(ord("{"))
    with pytest.raises(NothingFollows, match="the grammar cannot go on: Parser Error: Current row has 8007 items"):
        output.allowed()


def test_more_tokens_than_the_model_has(grammars: Grammars) -> None:
    engine = Texts([*TEXTS, b"abc", b"<more>"])
    engine.info = replace(engine.info, vocab=len(TEXTS))
    output = Grammars(engine)(Grammar("regex", "abc"), (EOS,))
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
def test_refusals_say_what_is_wrong(grammars: Grammars, grammar: Grammar, error: str) -> None:
    with pytest.raises(Refusal) as caught:
        grammars(grammar, (EOS,))
    assert caught.value.code == "bad_argument"
    assert caught.value.error.startswith(error) and "\n" not in caught.value.error


def test_without_texts_or_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refusal, match="no texts"):
        Grammars(NullEngine())(Grammar.json(True), (EOS,))
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(Refusal, match=r"pip install paceline\[grammar\]") as caught:
        Grammars(Texts())(Grammar.json(True), (EOS,))
    assert caught.value.code == "unsupported"


def test_the_vocabulary_is_read_once_and_grammars_are_kept() -> None:
    engine = Texts()
    own = Grammars(engine)
    assert engine.asked == 0
    for number in range(KEPT + 5):
        own(Grammar("regex", f"a{{{number + 1}}}"), (EOS,))
    assert engine.asked == 1 and len(own._compiled) == KEPT


def test_a_schema_survives_its_word(grammars: Grammars) -> None:
    schema = {"enum": ["a b\tc", "é\u2028"]}
    assert reads(grammars, Grammar.json(schema), json.dumps("é\u2028", ensure_ascii=False).encode())
