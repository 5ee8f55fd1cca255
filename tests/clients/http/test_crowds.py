"""More connections than there may be: who is replaced, and who is told that there are too many."""

import asyncio
import socket
from contextlib import ExitStack
from typing import Any

import pytest
from paceline.clients.http.connection import CROWDED

from .serving import HEAD, hello, refusing, serving

pytestmark = pytest.mark.usefixtures("no_errors")


async def ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(1), 5) == b""
    except ConnectionError:
        return True


def test_one_more_takes_the_place_of_the_one_that_idles_the_longest() -> None:
    """What is answered is answered to its end."""

    answering: list[object] = []

    async def told(scope: Any, receive: Any, send: Any) -> None:
        answering.append(scope)
        await hello(scope, receive, send)
        answering.clear()

    async def run() -> None:
        async with serving(told, most=2) as port:
            readers, writers = [], []

            async def connect() -> None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                readers.append(reader)
                writers.append(writer)

            async def ask(number: int) -> None:
                writers[number].write(HEAD + b"\r\n")
                await asyncio.wait_for(readers[number].readuntil(b"Hi"), 5)

            await connect()
            await connect()
            await ask(0)
            await connect()
            assert await ended(readers[1])
            asking = asyncio.create_task(ask(0))
            while not answering:
                await asyncio.sleep(0.01)
            await connect()
            assert await ended(readers[2])
            await asking
            await ask(3)
            await connect()
            assert await ended(readers[0])
            await ask(3)
            for writer in writers:
                writer.close()

    asyncio.run(run())


def test_where_none_idles_one_more_is_closed() -> None:
    size = 16 << 20

    async def large(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % size)]})
        await send({"type": "http.response.body", "body": b"x" * size})

    async def run() -> None:
        async with serving(large, most=1) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD + b"\r\n")
            await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)  # it is all written, and not all taken
            other, unused = await asyncio.open_connection("127.0.0.1", port)
            assert await ended(other)
            assert await asyncio.wait_for(reader.readexactly(size), 5) == b"x" * size
            writer.close()
            unused.close()

    asyncio.run(run())


@pytest.mark.parametrize("broken", [b"GET http://example.com HTTP/1.1\r\n\r\n", b"CONNECT foo:bar HTTP/1.1\r\n\r\n"])
def test_only_those_with_a_request_make_a_crowd(broken: bytes) -> None:
    told: list[bool] = []

    async def tell(scope: Any, receive: Any, send: Any) -> None:
        told.append(scope[CROWDED])
        await refusing(scope, receive, send)

    async def run() -> None:
        async with serving(tell, most=20, most_busy=2) as port:
            writers = []
            for _ in range(4):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writers.append(writer)
                writer.write(broken)
                assert (await asyncio.wait_for(reader.read(), 5)).startswith(b"HTTP/1.1 400")
            for _ in range(40):  # beyond 20 each takes the place of another
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writers.append(writer)
                writer.write(HEAD + b"\r\n")
                await asyncio.wait_for(reader.readuntil(b"refused"), 5)
            for writer in writers:
                writer.close()

    asyncio.run(run())
    assert told == [False] * 40


@pytest.mark.parametrize("turns", range(8))
def test_those_that_were_replaced_are_no_crowd(turns: int) -> None:
    """Although they are lost only a turn of the loop later, in which a request may come."""
    told: list[bool] = []

    async def tell(scope: Any, receive: Any, send: Any) -> None:
        told.append(scope[CROWDED])
        await refusing(scope, receive, send)

    async def run() -> None:
        async with serving(tell, most=20, most_busy=2) as port:
            with ExitStack() as open_ones:

                def connect() -> socket.socket:
                    return open_ones.enter_context(socket.create_connection(("127.0.0.1", port)))

                for _ in range(19):
                    connect()
                await asyncio.sleep(0.1)
                last = connect()
                await asyncio.sleep(0.1)
                for _ in range(16):  # the loop stands still meanwhile
                    connect()
                for _ in range(turns):
                    await asyncio.sleep(0)
                last.sendall(HEAD + b"\r\n")
                await asyncio.sleep(0.2)

    asyncio.run(run())
    assert told == [False]
