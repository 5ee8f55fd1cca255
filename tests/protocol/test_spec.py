"""SPEC.md says what the code does: the grammar, the numbers, the codes, and what its transcript writes to stdin."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from paceline import protocol
from paceline.protocol import CODES, TERMINALS, YIELD, Line, LineReader, Refusal, help_text, parse

SPEC = Path(protocol.__file__).with_name("SPEC.md").read_text("utf-8")
STARTS = (protocol.Start, protocol.Restore, protocol.RestoreChain)
VALUE = re.compile(r"(?<=:)…")


def section(title: str) -> str:
    found = re.search(rf"^## \d+\. {title}\n(.*?)(?=^## |\Z)", SPEC, re.DOTALL | re.MULTILINE)
    assert found, title
    return found[1]


def transcripts() -> list[list[str]]:
    found = re.findall(r"^```transcript\n(.*?)^```$", section("Transcript"), re.DOTALL | re.MULTILINE)
    return [block.splitlines() for block in found]


def test_the_grammar_is_what_help_prints() -> None:
    grammar = section("Grammar")
    assert f"```\n{help_text(None)}\n```" in grammar
    assert f"```\n{help_text('START').partition('options:' + chr(10))[2]}\n```" in grammar


def test_the_codes_are_all_there() -> None:
    named = re.findall(r"^\| `(\w+)` \|", section("Codes"), re.MULTILINE)
    assert len(named) == len(set(named))
    assert set(named) == CODES


def test_the_numbers_are_all_there() -> None:
    rows = re.findall(r"^\| (-\d) \| (-\d)? ?", section("Output"), re.MULTILINE)
    assert {int(tag) for tag, _ in rows} == {protocol.TOKEN_TAG, protocol.MESSAGE_TAG}
    assert {int(value) for _, value in rows if value} == TERMINALS | {YIELD}


@pytest.mark.parametrize("transcript", transcripts(), ids=["requests", "snapshots"])
def test_a_transcript_holds_together(transcript: list[str]) -> None:
    """One reply per line, in order, with the tag and the error that the parser gives; one terminal per START."""
    lines, owed = LineReader(), list[Line]()
    started, ended, frames = list[int](), list[int](), 0
    for line in transcript:
        if line.startswith("> "):
            assert owed == []
            owed += (fed for fed in lines.feed(line[2:].encode() + b"\n") if isinstance(fed, Line))
            continue
        tag, req_id, value = line.split(" ", 2)
        if int(tag) == protocol.TOKEN_TAG:
            frames += 1
            assert int(value) >= 0 or int(value) in TERMINALS | {YIELD}
            ended += [int(req_id)] * (int(value) in TERMINALS)
            continue
        body: dict[str, Any] = json.loads(VALUE.sub("null", value))
        if "re" not in body:
            assert body["event"] in ("ready", "admitted", "snapshot", "end", "drained")
            continue
        asked = owed.pop()
        assert body["re"] == asked.number
        try:
            command = parse(asked.text)
        except Refusal as refusal:
            expected = {"re": asked.number, "ok": False, "code": refusal.code, "error": refusal.error}
            assert (int(req_id), body) == (refusal.req_id, expected)
        else:
            assert int(req_id) == command.req_id
            started += [command.req_id] * (isinstance(command, STARTS) and body["ok"])
    assert owed == []
    assert sorted(started) == sorted(ended)
    assert frames > len(ended) > 1
