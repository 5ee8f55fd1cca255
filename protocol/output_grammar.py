"""What an output must match, as a word of a line: JSON with one key, its blanks written as \\u0020."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from .words import quoted, wrong

KINDS: Final = ("json", "regex", "lark")


@dataclass(frozen=True, slots=True)
class Grammar:
    """`text` is a JSON schema without needless blanks, a regular expression, or a grammar in Lark's notation."""

    kind: str
    text: str


def json_grammar(schema: Any) -> Grammar:
    """Of a JSON schema, true for any JSON; raises ValueError for what is no JSON."""
    return Grammar("json", _compact(schema, ascii_only=False))


def read_grammar(label: str, word: str) -> Grammar:
    try:
        found = json.loads(word)
        kind, value = _only(found)
        if kind not in KINDS:
            wrong(f"{label}: {quoted(kind)} is no kind of grammar, expected one of {' '.join(KINDS)}")
        if kind == "json":
            if not isinstance(value, dict | bool):
                wrong(f"{label}: its schema is neither an object nor true or false")
            return json_grammar(value)
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
    value = json.loads(grammar.text) if grammar.kind == "json" else grammar.text
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
