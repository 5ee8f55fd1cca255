"""One table of items and bytes, encoded and decoded, in every way of cutting the bytes."""

from __future__ import annotations

import json
import struct
import time

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paceline.protocol import (
    CANCELLED,
    DONE,
    FAILED,
    TERMINALS,
    YIELD,
    BrokenStream,
    Frame,
    FrameReader,
    Item,
    Message,
    encode_tagged,
    encode_text,
)


def triple(tag: int, req_id: int, value: int) -> bytes:
    return struct.pack("<iii", tag, req_id, value)


EMPTY = msgpack.packb({})
PING = msgpack.packb({"re": 1, "ok": True, "word": "ü"})

# items, tagged, text
CASES: list[tuple[list[Item], bytes, str]] = [
    ([], b"", ""),
    ([Frame(4, 1234)], b"\xfe\xff\xff\xff\x04\0\0\0\xd2\x04\0\0", "-2 4 1234\n"),
    ([Frame(4, 0), Frame(5, 2**31 - 1)], triple(-2, 4, 0) + triple(-2, 5, 2**31 - 1), "-2 4 0\n-2 5 2147483647\n"),
    (
        [Frame(1, YIELD), Frame(1, DONE), Frame(2, CANCELLED), Frame(2**30 - 1, FAILED)],
        triple(-2, 1, -4) + triple(-2, 1, -1) + triple(-2, 2, -5) + triple(-2, 2**30 - 1, -6),
        "-2 1 -4\n-2 1 -1\n-2 2 -5\n-2 1073741823 -6\n",
    ),
    ([Message(0, {})], triple(-3, 0, 1) + EMPTY + b"\0\0\0", "-3 0 {}\n"),
    (
        [Frame(4, 1), Message(4, {"re": 1, "ok": True, "word": "ü"}), Frame(4, 2)],
        triple(-2, 4, 1) + triple(-3, 4, len(PING)) + PING + bytes(-len(PING) % 4) + triple(-2, 4, 2),
        '-2 4 1\n-3 4 {"re":1,"ok":true,"word":"ü"}\n-2 4 2\n',
    ),
    (
        [Message(0, {"a": "12"}), Message(1, {"error": "a\nb", "x": None, "y": 0.5, "z": [1, {"k": False}]})],
        triple(-3, 0, 6)
        + b"\x81\xa1a\xa212"
        + b"\0\0"
        + triple(-3, 1, 33)
        + msgpack.packb({"error": "a\nb", "x": None, "y": 0.5, "z": [1, {"k": False}]})
        + b"\0\0\0",
        '-3 0 {"a":"12"}\n-3 1 {"error":"a\\nb","x":null,"y":0.5,"z":[1,{"k":false}]}\n',
    ),
]

# bytes, the offset that the error names, and some of its words
BROKEN: list[tuple[bytes, int, str]] = [
    (triple(-1, 4, 1), 0, "tag -1; expected -2 or -3"),
    (triple(-2, 4, 1) + triple(7, 4, 1), 12, "tag 7"),
    (triple(-2, -4, 1), 0, "request id -4"),
    (triple(-2, 4, -2), 0, "value -2"),
    (triple(-3, 4, -1), 0, "a message of -1 bytes"),
    (triple(-3, 4, 1001), 0, "a message of 1001 bytes; expected 0 to 1000"),
    (triple(-3, 4, 0), 0, "no MessagePack"),
    (triple(-3, 0, 1) + EMPTY + b"\0\0\0" + triple(-3, 4, 1) + b"\xc1\0\0\0", 16, "no MessagePack"),
    (triple(-3, 4, 2) + EMPTY * 2 + b"\0\0", 0, "no MessagePack"),
    (triple(-3, 4, 3) + b"\x81\xa1\xff\0", 0, "no MessagePack"),
    (triple(-3, 4, 1) + b"\xc1\0\0\0", 0, "no MessagePack: FormatError"),
    (triple(-3, 4, 1) + b"\x07\0\0\0", 0, "no map whose keys are strings"),
    (triple(-3, 4, 3) + b"\x81\x01\x02\0", 0, "no MessagePack"),
    (triple(-3, 4, 4) + b"\x81\xc4\x00\x02", 0, "no map whose keys are strings"),
    (triple(-3, 4, 1) + EMPTY + b"\0\1\0", 0, "bytes other than zero"),
]

bodies = st.dictionaries(
    st.text(),
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.lists(st.floats(width=64)),
    max_size=3,
)
items = st.one_of(
    st.builds(Frame, st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1) | st.sampled_from([*TERMINALS, YIELD])),
    st.builds(Message, st.integers(0, 2**31 - 1), bodies),
)


@pytest.mark.parametrize(("sent", "tagged", "text"), CASES, ids=range(len(CASES)))
def test_encodings(sent: list[Item], tagged: bytes, text: str) -> None:
    assert encode_tagged(sent) == tagged
    assert encode_tagged(iter(sent)) == tagged
    assert len(tagged) % 4 == 0
    assert encode_text(sent) == text.encode()


@pytest.mark.parametrize(("sent", "tagged", "text"), CASES, ids=range(len(CASES)))
def test_whole_and_with_more_behind(sent: list[Item], tagged: bytes, text: str) -> None:
    reader = FrameReader()
    assert reader.feed(tagged) == sent
    reader.close()
    assert reader.feed(tagged + b"\xfe\xff") == sent
    with pytest.raises(BrokenStream, match=f"offset {2 * len(tagged)}: the stream ends 2 bytes into an item"):
        reader.close()


@pytest.mark.parametrize(("sent", "tagged", "text"), CASES, ids=range(len(CASES)))
def test_byte_by_byte(sent: list[Item], tagged: bytes, text: str) -> None:
    reader = FrameReader()
    assert [item for byte in tagged for item in [*reader.feed(b""), *reader.feed(bytes([byte]))]] == sent
    reader.close()


@pytest.mark.parametrize(("sent", "tagged", "text"), CASES, ids=range(len(CASES)))
def test_every_cut(sent: list[Item], tagged: bytes, text: str) -> None:
    for cut in range(len(tagged)):
        reader = FrameReader()
        assert reader.feed(tagged[:cut]) + reader.feed(tagged[cut:]) == sent


@given(st.lists(items, max_size=6), st.data())
def test_random_items_and_cuts(sent: list[Item], draw: st.DataObject) -> None:
    data = encode_tagged(sent)
    cuts = draw.draw(st.lists(st.integers(0, len(data)), max_size=6).map(sorted))
    reader, read = FrameReader(), list[Item]()
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        read += reader.feed(data[start:end])
    reader.close()
    assert repr(read) == repr(sent)  # repr: NaN is not equal to itself


@given(st.lists(items, max_size=6))
def test_text_is_a_line_per_item(sent: list[Item]) -> None:
    lines = encode_text(sent).decode().split("\n")
    assert lines.pop() == ""
    assert len(lines) == len(sent)
    for line, item in zip(lines, sent, strict=True):
        tag, req_id, value = line.split(" ", 2)
        assert int(req_id) == item.req_id
        if isinstance(item, Frame):
            assert (tag, int(value)) == ("-2", item.value)
        else:
            assert (tag, repr(json.loads(value))) == ("-3", repr(item.body))


@given(st.lists(items, min_size=1, max_size=4), st.data())
def test_an_end_inside_an_item(sent: list[Item], draw: st.DataObject) -> None:
    data = encode_tagged(sent)
    last = len(encode_tagged(sent[:-1]))
    reader = FrameReader()
    assert len(reader.feed(data[: draw.draw(st.integers(last + 1, len(data) - 1))])) == len(sent) - 1
    with pytest.raises(BrokenStream, match=f"offset {last}: "):
        reader.close()


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize(("data", "offset", "said"), BROKEN, ids=range(len(BROKEN)))
def test_broken(data: bytes, offset: int, said: str, split: bool) -> None:
    reader, read = FrameReader(max_message=1000), list[Item]()
    with pytest.raises(BrokenStream, match=f"^offset {offset}: .*{said}") as caught:
        for piece in [bytes([byte]) for byte in data] if split else [data]:
            read += reader.feed(piece)
    read += caught.value.items
    assert encode_tagged(read) == data[:offset]
    for later in (lambda: reader.feed(triple(-2, 1, 1)), reader.close):
        with pytest.raises(BrokenStream, match=f"^offset {offset}: ") as again:
            later()
        assert again.value.items == ()


@given(st.binary())
def test_any_bytes_are_items_or_a_broken_stream(data: bytes) -> None:
    reader = FrameReader()
    try:
        read = reader.feed(data)
        reader.close()
    except BrokenStream as broken:
        assert 0 <= broken.offset <= len(data)
    else:
        assert len(read) <= len(data) // 12


def test_surrogates_do_not_break_either_encoding() -> None:
    message = Message(0, {"path": "caf\udce9"})
    assert FrameReader().feed(encode_tagged([message])) == [Message(0, {"path": "caf\\udce9"})]
    assert encode_text([message]) == b'-3 0 {"path":"caf\\udce9"}\n'


def test_time_is_linear_byte_by_byte() -> None:
    def seconds(size: int) -> float:
        data = encode_tagged([Message(1, {"word": "x" * size})])
        reader = FrameReader()
        begun = time.thread_time()
        for index in range(len(data)):
            reader.feed(data[index : index + 1])
        return time.thread_time() - begun

    small, large = (min(seconds(size) for _ in range(3)) for size in (20_000, 160_000))
    assert large < 24 * small  # 8 times as long; quadratic would be 64
