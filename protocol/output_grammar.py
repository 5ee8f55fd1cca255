"""What an output must match, as a word of a line: JSON with one key, its blanks written as \\u0020."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from .words import quoted, wrong

JSON, REGEX, LARK = "json", "regex", "lark"
KINDS: Final = (JSON, REGEX, LARK)
BLANKS: Final = r"( |\n[ \t]{0,40})?"
"""Between the parts of JSON: one, or a line's end and an indent. Without a bound a model may write blanks for ever."""
TO_ESCAPE: Final = re.compile(r"\\.|[/\n]", re.DOTALL)  # in a regular expression between slashes


@dataclass(frozen=True, slots=True)
class Grammar:
    """`text` is a JSON schema without needless blanks, a regular expression, or a grammar in Lark's notation."""

    kind: str
    text: str

    @classmethod
    def json(cls, schema: Any) -> Grammar:
        """Of a JSON schema, true for any JSON. Raises ValueError for what is no JSON, RecursionError."""
        return cls(JSON, _compact(schema, ascii_only=False))

    @property
    def rule(self) -> str:
        """What it is as a part of a rule in Lark's notation; of one that is a whole grammar there is none."""
        if self.kind == REGEX:
            return f"/{TO_ESCAPE.sub(_escaped, self.text)}/"
        schema = json.loads(self.text)
        if isinstance(schema, dict) and isinstance(options := schema.setdefault("x-guidance", {}), dict):
            options.setdefault("whitespace_pattern", BLANKS)
        return f"%json {json.dumps(schema)}"


def read_grammar(label: str, word: str) -> Grammar:
    try:
        found = json.loads(word)
        kind, value = _only(found)
        if kind not in KINDS:
            wrong(f"{label}: {quoted(kind)} is no kind of grammar, expected one of {' '.join(KINDS)}")
        if kind == JSON:
            if not isinstance(value, dict | bool):
                wrong(f"{label}: its schema is neither an object nor true or false")
            return Grammar.json(value)
        if not isinstance(value, str) or not value:
            wrong(f"{label}: its {kind} is no text")
        value.encode()
    except (ValueError, RecursionError):
        wrong(
            f"{label} {quoted(word)} is no JSON with one key, expected "
            r'{"json":<schema>}, {"regex":"…"} or {"lark":"…"}, with \u0020 for each blank'
        )
    return Grammar(kind, value)


def write_grammar(grammar: Grammar) -> str:
    value = json.loads(grammar.text) if grammar.kind == JSON else grammar.text
    return _compact({grammar.kind: value}, ascii_only=True).replace(" ", r"\u0020")


def _only(found: Any) -> tuple[str, Any]:
    if not isinstance(found, dict):
        raise ValueError
    ((kind, value),) = found.items()
    return kind, value


def _compact(value: Any, ascii_only: bool) -> str:
    text = json.dumps(value, ensure_ascii=ascii_only, allow_nan=False, separators=(",", ":"))
    text.encode()
    return text


def _escaped(found: re.Match[str]) -> str:
    return {"/": r"\/", "\n": r"\n", "\\\n": r"\n"}.get(found[0], found[0])
