"""Files of snapshots: what went in comes out, and whatever else comes in is refused."""

from __future__ import annotations

import hashlib
import io
import struct
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paceline.daemon.limits import pages_for
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.plan import PAGE
from paceline.daemon.saved import Damaged, Saved, decode, encode

ROOT = Path(__file__).parents[2]
INFOS = {recurrent: NullEngine(1, recurrent=recurrent).info for recurrent in (False, True)}


@st.composite
def any_saved(draw: st.DrawFn, recurrent: bool) -> Saved:
    ids = tuple(draw(st.lists(st.integers(0, 31999), max_size=200)))
    first = 0 if recurrent or not ids else draw(st.integers(0, len(ids) - 1))
    count, size = pages_for(len(ids)) - first // PAGE, INFOS[recurrent].page_bytes
    pages = draw(st.lists(st.binary(min_size=1, max_size=9), min_size=count, max_size=count))
    state = len(ids).to_bytes(8, "little") + draw(st.binary(min_size=8, max_size=8)) if recurrent and ids else None
    return Saved(ids, first, tuple((page * size)[:size] for page in pages), state)


SAVED = st.booleans().flatmap(lambda recurrent: st.tuples(st.just(recurrent), any_saved(recurrent)))


def read(data: bytes, recurrent: bool) -> Saved:
    return decode(io.BytesIO(data), len(data), INFOS[recurrent])


def write(saved: Saved, recurrent: bool) -> bytes:
    return b"".join(encode(saved, INFOS[recurrent]))


def sealed(header: object, rest: bytes) -> bytes:
    """A file with any header, whose checksum is right."""
    packed = header if isinstance(header, bytes) else msgpack.packb(header)
    data = struct.pack("<8sII", b"PACESNAP", 1, len(packed)) + packed + rest
    return data + hashlib.sha256(data).digest()


@given(SAVED)
def test_a_file_gives_back_what_went_in(drawn: tuple[bool, Saved]) -> None:
    recurrent, saved = drawn
    assert read(write(saved, recurrent), recurrent) == saved


@given(SAVED, st.integers(0, 1 << 20), st.integers(1, 255), st.booleans())
def test_a_file_that_was_cut_or_changed_is_refused(drawn: tuple[bool, Saved], place: int, flip: int, cut: bool) -> None:
    recurrent, saved = drawn
    data = bytearray(write(saved, recurrent))
    place %= len(data)
    if cut:
        del data[place:]
    else:
        data[place] ^= flip
    with pytest.raises(Damaged, match=r"no snapshot of ours|version|checksum"):
        read(bytes(data), recurrent)


def test_another_version_is_named() -> None:
    data = bytearray(write(Saved((), 0, (), None), False))
    data[8] = 9
    data[-32:] = hashlib.sha256(data[:-32]).digest()
    with pytest.raises(Damaged, match="version 9: expected 1"):
        read(bytes(data), False)


def test_a_file_that_shrinks_while_it_is_read() -> None:
    data = write(Saved((1, 2), 0, (bytes(512),), None), False)
    with pytest.raises(Damaged, match="while it was read"):
        decode(io.BytesIO(data[:-100]), len(data), INFOS[False])


def sound(recurrent: bool) -> dict[str, Any]:
    info = INFOS[recurrent]
    header = {"fingerprint": info.fingerprint, "model": "null", "ids": list(range(100)), "first": 0, "pages": 2}
    return header | {"page_bytes": info.page_bytes, "state_bytes": 16 if recurrent else 0}


@pytest.mark.parametrize(
    ("changed", "pages", "sentence"),
    [
        ({"pages": 0}, 0, "pages is 0, expected 2 for 100 ids"),
        ({"pages": 1}, 1, "pages is 1, expected 2"),
        ({"pages": 1 << 40}, 2, "expected 2"),
        ({"pages": -1}, 2, "pages is -1"),
        ({"pages": True}, 2, "expected pages to be a whole number"),
        ({}, 1, "512 bytes come after its header: expected 1024 for 2 pages"),
        ({}, 3, "1536 bytes come after"),
        ({"ids": 5}, 2, "expected ids to be a list"),
        ({"ids": [1, "x"]}, 1, "expected ids from 0 to 31999"),
        ({"ids": [1, True]}, 1, "expected ids from 0 to 31999"),
        ({"ids": [-1] * 100}, 2, "expected ids from 0 to 31999"),
        ({"ids": [32000] * 100}, 2, "expected ids from 0 to 31999"),
        ({"ids": [1 << 63] * 100}, 2, "expected ids from 0 to 31999"),
        ({"ids": []}, 0, "pages is 2, expected 0 for 0 ids"),
        ({"first": 100}, 0, "first is 100, expected 0 to 99"),
        ({"first": -1}, 2, "first is -1"),
        ({"first": 64}, 2, "pages is 2, expected 1"),
        ({"first": None}, 2, "expected first to be a whole number"),
        ({"state_bytes": 16}, 2, "state_bytes is 16, expected 0"),
        ({"fingerprint": "x", "model": "y" * 999}, 2, "another model, type of cache or GPU (" + "y" * 200 + "…)"),
        ({"page_bytes": 513}, 2, "saved of another model"),
    ],
)
def test_a_header_that_cannot_be_true(changed: dict[str, Any], pages: int, sentence: str) -> None:
    with pytest.raises(Damaged) as caught:
        read(sealed(sound(False) | changed, bytes(512 * pages)), False)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("changed", [{"first": 1}, {"state_bytes": 0}, {"state_bytes": 8}])
def test_a_recurrent_state_is_whole(changed: dict[str, int]) -> None:
    header = sound(True) | changed
    with pytest.raises(Damaged, match=r"its header is wrong"):
        read(sealed(header, bytes(1024 + header["state_bytes"])), True)


@pytest.mark.parametrize("position", [99, 101, -100, 1 << 40])
def test_a_state_of_another_position(position: int) -> None:
    state = position.to_bytes(8, "little", signed=True) + bytes(8)
    with pytest.raises(Damaged, match=rf"its state is of position {position}: expected 100,"):
        read(sealed(sound(True), bytes(1024) + state), True)


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_text_past_the_context(recurrent: bool) -> None:
    ids = list(range(100))
    state = len(ids).to_bytes(8, "little") + bytes(8) if recurrent else b""
    data, info = sealed(sound(recurrent), bytes(1024) + state), INFOS[recurrent]
    assert decode(io.BytesIO(data), len(data), replace(info, context=100)).ids == tuple(ids)
    with pytest.raises(Damaged, match=r"it ends at position 100, past the context of 99"):
        decode(io.BytesIO(data), len(data), replace(info, context=99))


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        ({}, "expected fingerprint to be a text"),
        ([], "is no map"),
        (7, "is no map"),
        (b"\xc1", "is no MessagePack"),
        (b"\x81", "is no MessagePack"),
        (b"\x81\x90\x01", "is no MessagePack"),
        (b"", "is no MessagePack"),
        (b"\x91" * 5000, "is no MessagePack"),
        (b"\x80\x80", "is no MessagePack"),
    ],
)
def test_a_header_that_is_none(header: object, sentence: str) -> None:
    with pytest.raises(Damaged) as caught:
        read(sealed(header, b""), False)
    assert sentence in str(caught.value)


def test_a_header_longer_than_the_file() -> None:
    data = bytearray(sealed(sound(False), bytes(1024)))
    data[12:16] = struct.pack("<I", len(data))
    data[-32:] = hashlib.sha256(data[:-32]).digest()
    with pytest.raises(Damaged, match=r"its header has \d+ bytes, and only \d+ are there"):
        read(bytes(data), False)


def test_a_file_is_kept_once() -> None:
    ids = tuple(range(8192))
    info = replace(INFOS[False], page_bytes=1 << 14, context=8192)
    data = b"".join(encode(Saved(ids, 0, (bytes(1 << 14),) * 128, None), info))
    file = io.BytesIO(data)
    tracemalloc.start()
    try:
        saved = decode(file, len(data), info)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(saved.pages) == 128
    assert peak < 1.5 * len(data)


@pytest.mark.parametrize("count", [2000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_any_header_under_a_right_checksum(count: int) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "fuzz.py"), "snapshots", f"--count={count}", "--seed=3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
