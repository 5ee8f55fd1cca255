"""Each input is fed whole, byte by byte, at random cuts, and with more behind it: the lines are the same."""

from __future__ import annotations

import time
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paceline.protocol import CODES, BadLine, Line, LineReader

MAX_LINE = 8
LONG = f"is longer than {MAX_LINE} bytes"


def long(number: int) -> BadLine:
    return BadLine(number, "line_too_long", f"line {number} {LONG}")


def unfinished(number: int) -> BadLine:
    return BadLine(number, "unfinished_line", f"line {number} ends without a newline")


def bad_byte(number: int, column: int, byte: int) -> BadLine:
    return BadLine(number, "bad_utf8", f"line {number}: byte {column} is 0x{byte:02x}; expected UTF-8 text")


# bytes, what feed gives, what close gives; lines of at most 8 bytes
CASES: list[tuple[bytes, list[Line | BadLine], list[Line | BadLine]]] = [
    (b"", [], []),
    (b"PING\n", [Line(1, "PING")], []),
    (b"PING\r\n", [Line(1, "PING")], []),
    (b"PI\rNG\n", [Line(1, "PI\rNG")], []),
    (b"PING\r\r\n", [Line(1, "PING\r")], []),
    (b" a\tb \n", [Line(1, " a\tb ")], []),
    ("ü€\n".encode(), [Line(1, "ü€")], []),
    (b"\n\r\n \t \n# x\nPING\n", [Line(5, "PING")], []),
    (b" # x\n", [Line(1, " # x")], []),
    (b"\x0b\n", [Line(1, "\x0b")], []),
    (b"a\nb\n\nc\n", [Line(1, "a"), Line(2, "b"), Line(4, "c")], []),
    (b"12345678\n", [Line(1, "12345678")], []),
    (b"1234567\r\n", [Line(1, "1234567")], []),
    (b"12345678\r\n", [long(1)], []),
    (b"123456789\na\n", [long(1), Line(2, "a")], []),
    (b"x" * 100 + b"\n\n\na\n", [long(1), Line(4, "a")], []),
    (b"x" * 100, [], [long(1)]),
    (b"a\n" + b"\xff" * 9, [Line(1, "a")], [long(2)]),
    (b" " * 8 + b"x\n", [long(1)], []),
    (b" " * 100 + b"x\n", [long(1)], []),
    (b" " * 100 + b"\r\na\n", [Line(2, "a")], []),
    (b" " * 100, [], []),
    (b"#" + b"x" * 100 + b"\na\n", [Line(2, "a")], []),
    (b"#" + b"x" * 100, [], []),
    (b"a\nPING", [Line(1, "a")], [unfinished(2)]),
    (b"a\n\r", [Line(1, "a")], []),
    (b"a\n#", [Line(1, "a")], []),
    (b"\xff\na\n", [bad_byte(1, 1, 0xFF), Line(2, "a")], []),
    (b"ab\xc3\r\na\n", [bad_byte(1, 3, 0xC3), Line(2, "a")], []),
    (b"\xed\xa0\x80\n", [bad_byte(1, 1, 0xED)], []),
    (b"#\xff\n", [], []),
    (b"\xff", [], [unfinished(1)]),
]


@pytest.mark.parametrize(("data", "fed", "closed"), CASES, ids=range(len(CASES)))
def test_whole(data: bytes, fed: list[Line | BadLine], closed: list[Line | BadLine]) -> None:
    reader = LineReader(MAX_LINE)
    assert (reader.feed(data), reader.close()) == (fed, closed)


@pytest.mark.parametrize(("data", "fed", "closed"), CASES, ids=range(len(CASES)))
def test_byte_by_byte(data: bytes, fed: list[Line | BadLine], closed: list[Line | BadLine]) -> None:
    reader = LineReader(MAX_LINE)
    lines = [line for byte in data for line in [*reader.feed(b""), *reader.feed(bytes([byte]))]]
    assert (lines, reader.close()) == (fed, closed)


@pytest.mark.parametrize(("data", "fed", "closed"), CASES, ids=range(len(CASES)))
def test_with_more_behind(data: bytes, fed: list[Line | BadLine], closed: list[Line | BadLine]) -> None:
    """Once the last newline is there, what follows it changes nothing before."""
    whole = data[: data.rfind(b"\n") + 1]
    number = whole.count(b"\n") + 1
    assert LineReader(MAX_LINE).feed(whole + b"QUIT\n") == [*fed, Line(number, "QUIT")]


@pytest.mark.parametrize(("data", "fed", "closed"), CASES, ids=range(len(CASES)))
def test_every_cut(data: bytes, fed: list[Line | BadLine], closed: list[Line | BadLine]) -> None:
    for cut in range(len(data)):
        reader = LineReader(MAX_LINE)
        assert (reader.feed(data[:cut]) + reader.feed(data[cut:]), reader.close()) == (fed, closed)


@given(st.binary() | st.text("a# \r\n\xff", max_size=80).map(lambda text: text.encode("latin-1")), st.data())
def test_random_cuts(data: bytes, draw: st.DataObject) -> None:
    whole = LineReader(MAX_LINE)
    expected = (whole.feed(data), whole.close())
    cuts = draw.draw(st.lists(st.integers(0, len(data)), max_size=6).map(sorted))
    reader, lines = LineReader(MAX_LINE), []
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        lines += reader.feed(data[start:end])
    assert (lines, reader.close()) == expected
    assert {line.code for line in lines if isinstance(line, BadLine)} <= CODES


@given(st.binary())
def test_one_outcome_for_each_line_that_is_owed_one(data: bytes) -> None:
    reader = LineReader(MAX_LINE)
    numbers = [line.number for line in reader.feed(data) + reader.close()]
    lines = data.split(b"\n")
    owed = [n for n, line in enumerate(lines, 1) if line.strip(b" \t\r") and not line.startswith(b"#")]
    assert numbers == owed


def test_ten_mebibytes_without_a_newline_are_not_kept() -> None:
    reader = LineReader(1 << 20)
    for _ in range(160):
        assert reader.feed(b"x" * (1 << 16)) == []
        assert len(reader._kept) <= (1 << 20) + 1
    assert [line.number for line in reader.feed(b"\nPING\n")] == [1, 2]


def test_time_is_linear_byte_by_byte() -> None:
    def seconds(size: int) -> float:
        reader = LineReader()
        begun = time.thread_time()
        for _ in range(size):
            reader.feed(b"x")
        return time.thread_time() - begun

    small, large = (min(seconds(size) for _ in range(3)) for size in (20_000, 160_000))
    assert large < 24 * small  # 8 times as long; quadratic would be 64


@pytest.mark.parametrize(
    ("data", "req_id"),
    [
        (b"REQ 7 START " + b"x" * 100 + b"\n", 7),
        (b"SLOT 1 request=12 START " + b"x" * 100, 12),
        (b"REQ 7" + b" " * 100 + b"x\n", 7),
        (b"REQ\t1" + b"2" * 100 + b"\n", 0),
        (b"START " + b"REQ 7 " * 20 + b"\n", 0),
        (b"REQ 7 PING \xff\n", 7),
        (b"SLOT \xff REQ 7 PING\n", 7),
        (b"REQ 7\xff PING\n", 0),
        (b"REQ 7 REQ 8 PING \xff\n", 7),
        (b"\xff REQ 7\n", 0),
        (b"REQ 12 PING", 12),
        (b"REQ 12", 0),
        (b"REQ 12 ", 12),
        (b"REQ ", 0),
        (b"REQ=1\t", 1),
    ],
)
def test_the_tag_of_a_bad_line_if_it_can_be_read(data: bytes, req_id: int) -> None:
    reader = LineReader(64)
    (line,) = reader.feed(data) + reader.close()
    assert isinstance(line, BadLine) and line.req_id == req_id


@given(st.binary(max_size=120).map(lambda data: data.replace(b"\n", b" ")), st.integers(1, 2**30 - 1))
def test_any_line_that_begins_with_a_tag_has_it(rest: bytes, req_id: int) -> None:
    reader = LineReader(64)
    (line,) = reader.feed(b"REQ %d \xff" % req_id + rest + b"\n")
    assert isinstance(line, BadLine) and line.req_id == req_id


class Full(bytearray):
    """What memory has no room for more of, or for a copy."""

    def __iadd__(self, more: Any) -> Self:
        raise MemoryError

    def removesuffix(self, suffix: Any) -> bytearray:
        raise MemoryError


@pytest.mark.parametrize("piece", [b"", b",2,3"])
def test_a_line_that_memory_is_too_short_for_is_refused_alone(piece: bytes) -> None:
    reader = LineReader()
    assert reader.feed(b"PING 1\nREQ 7 START ids:1") == [Line(1, "PING 1")]
    reader._kept = Full(reader._kept)
    lines = reader.feed(piece) + reader.feed(b",4\nPING 2\n")
    assert lines == [BadLine(2, "kv_budget", "too little memory for this line", 7), Line(3, "PING 2")]


def test_a_whole_line_that_cannot_be_copied_is_refused() -> None:
    lines: list[Line | BadLine] = []
    reader = LineReader()
    reader._kept = Full(b"REQ 7 PING")
    reader._finish(lines, whole=True)
    assert lines == [BadLine(1, "kv_budget", "too little memory for this line", 7)]


def test_what_counts_as_a_tag_of_a_bad_line() -> None:
    for line, tag in ((b" \t REQ 5 \xff", 5), (b"\rREQ 5 \xff", 0), (b"REQ 5 " + b"x" * 5000 + b"\xff", 5)):
        assert LineReader().feed(line + b"\n")[0].req_id == tag
