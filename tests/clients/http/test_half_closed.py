"""Connections that are closed while their clients still send: each gets its answer, once, and nothing is an error."""

import asyncio
import time
from contextlib import suppress
from typing import Any

import pytest
from paceline.clients.http import connection
from paceline.clients.http.connection import Connection

from .serving import HEAD, hello, refusing, serving

pytestmark = pytest.mark.usefixtures("no_errors")


@pytest.mark.parametrize("begin", [HEAD + b"connection: close\r\n", b"POST / HTTP/1.0\r\n", HEAD])
def test_who_sends_its_body_first_gets_the_answer_that_came_before(begin: bytes) -> None:
    """A large body to a server that does not read it, on a connection that is closed behind the answer."""
    size = 8 << 20

    async def run() -> None:
        async with serving(refusing) as port:
            for _ in range(5):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(begin.replace(b"GET", b"POST") + b"content-length: %d\r\n\r\n" % size)
                for _ in range(size >> 16):
                    writer.write(bytes(1 << 16))
                    await asyncio.wait_for(writer.drain(), 5)
                told = await asyncio.wait_for(reader.readuntil(b"refused"), 5)
                assert told.startswith(b"HTTP/1.1 413")
                if begin != HEAD:
                    assert await asyncio.wait_for(reader.read(), 5) == b""
                writer.close()
                await writer.wait_closed()

    asyncio.run(run())


def test_a_client_that_is_gone_is_no_error() -> None:
    """It leaves before the answer to a request of which a part is still to come."""

    async def run() -> None:
        async with serving(refusing) as port:
            for _ in range(50):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(HEAD.replace(b"GET", b"HEAD") + b"connection: close\r\ncontent-length: 5\r\n\r\n")
                writer.close()
            await asyncio.sleep(0.2)

    asyncio.run(run())


def test_reading_goes_on_behind_an_answer_that_came_late() -> None:
    async def late(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.3)  # by now enough of the body has come for reading to be paused
        await refusing(scope, receive, send)

    async def run() -> None:
        async with serving(late) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD + b"connection: close\r\ncontent-length: %d\r\n\r\n" % (16 << 20))
            writer.write(bytes(16 << 20))
            await asyncio.wait_for(writer.drain(), 5)
            assert (await asyncio.wait_for(reader.read(), 5)).endswith(b"refused")
            writer.close()

    asyncio.run(run())


@pytest.mark.parametrize("behind", [b"", b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n", HEAD + b"\r\n"])
def test_what_was_all_read_is_closed_at_once(behind: bytes) -> None:
    """Or is answered no more: only a part of the last request was, and another one is being answered."""
    idle: dict[Connection, None] = {}

    async def run() -> None:
        async with serving(refusing, idle=idle) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD + b"connection: close\r\n\r\n" + behind)
            with suppress(ConnectionError):
                assert (await asyncio.wait_for(reader.read(), 5)).count(b"HTTP/1.1 413") == 1
            deadline = time.monotonic() + 2
            while idle:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)
            writer.close()

    asyncio.run(run())


def test_nothing_is_answered_behind_the_last_answer() -> None:
    async def run() -> None:
        async with serving(refusing) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD + b"connection: close\r\ncontent-length: 5\r\n\r\n")
            assert (await asyncio.wait_for(reader.read(), 5)).endswith(b"refused")
            writer.write(b"12345" + HEAD + b"\r\n")
            await writer.drain()
            await asyncio.sleep(0.2)
            assert await reader.read() == b""
            writer.close()

    asyncio.run(run())


def test_what_is_broken_is_refused_once() -> None:
    """Not again for what follows; and not behind an answer that is still to come, which nobody gets then."""

    async def run() -> None:
        async with serving(hello) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET\0")
            assert (await asyncio.wait_for(reader.read(), 5)).count(b"HTTP/1.1 400") == 1
            for _ in range(3):
                writer.write(b"\0\0")
                await writer.drain()
                await asyncio.sleep(0.05)
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD + b"\r\n")
            await asyncio.sleep(0.1)
            writer.write(b"GET\0")
            assert (await asyncio.wait_for(reader.read(), 5)).startswith(b"HTTP/1.1 400")
            await asyncio.sleep(0.6)  # the answer would have come by now
            writer.close()

    asyncio.run(run())


def test_a_server_that_ends_waits_for_no_rest() -> None:
    """If it did, uvicorn would say so, as an error."""

    async def run() -> None:
        async with serving(refusing) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD + b"content-length: 5\r\n\r\n")
            await asyncio.wait_for(reader.readuntil(b"refused"), 5)
        writer.close()

    asyncio.run(run())


def test_what_is_sent_after_the_last_answer_is_not_taken_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LINGER_SECONDS", 0.2)

    async def run() -> None:
        async with serving(refusing) as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD + b"connection: close\r\ncontent-length: 9999999\r\n\r\n")
            with pytest.raises(ConnectionError):
                for _ in range(500):
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.01)

    asyncio.run(run())
