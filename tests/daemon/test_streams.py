"""The three forms of the stream: what items become, and how lines are read for it."""

from __future__ import annotations

import pytest
from paceline.daemon.streams import open_stream
from paceline.protocol import Frame, Item, Line, Message, Ping, encode_tagged, encode_text

ITEMS: list[Item] = [Message(0, {"event": "drained"}), Frame(1, 7)]


@pytest.mark.parametrize(("form", "encode"), [("tagged", encode_tagged), ("text", encode_text)])
def test_tagged_and_text(form: str, encode: object) -> None:
    logged: list[str] = []
    stream = open_stream(form, logged.append)
    assert stream.encode(ITEMS) == encode(ITEMS)  # type: ignore[operator]
    assert stream.parse(Line(1, "PING a")) == Ping("a")
    assert logged == []


def test_the_messages_of_a_bare_stream_go_to_the_log() -> None:
    logged: list[str] = []
    stream = open_stream("bare", logged.append)
    assert stream.encode(ITEMS) == (7).to_bytes(4, "little")
    assert logged == ['-3 0 {"event":"drained"}']
    assert stream.parse(Line(1, "PING a")) == Ping("a")
