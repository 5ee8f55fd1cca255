"""Connections that take their time, on a server in this process."""

import asyncio
import socket
from contextlib import suppress
from typing import Any

import pytest
from paceline.clients.http import connection

from .serving import HEAD, hello, serving

pytestmark = pytest.mark.usefixtures("no_errors")


@pytest.mark.parametrize("sent", [b"", HEAD])
def test_a_head_that_does_not_come_ends_the_connection(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.2)

    async def run() -> None:
        async with serving(hello) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD + b"\r\n")  # a whole one, whose answer takes longer than a head may
            assert (await reader.readuntil(b"Hi")).startswith(b"HTTP/1.1 200")
            writer.write(sent or HEAD[:5])
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await asyncio.wait_for(reader.readexactly(1), 5)
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await asyncio.wait_for(reader.readexactly(1), 5)
            writer.close()

    asyncio.run(run())


@pytest.mark.parametrize("size", [65000, 66000])
def test_a_head_in_one_piece_has_a_limit_too(size: int) -> None:
    async def run() -> None:
        async with serving(hello) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD + b"x: " + b"y" * size + b"\r\n\r\n")
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
            if size > connection.HEAD_BYTES:
                assert head.startswith(b"HTTP/1.1 400") and await reader.read() == b"The head is too large."
            else:
                assert head.startswith(b"HTTP/1.1 200")
            writer.close()

    asyncio.run(run())


@pytest.mark.parametrize("begin", [b"x: ", b""])
def test_a_head_that_is_refused_twice_is_answered_once(begin: bytes) -> None:
    """In a header or in the path: its first piece was good, and the second is too long in two ways."""

    async def run() -> None:
        async with serving(hello) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GE")
            await asyncio.sleep(0.1)
            writer.write((b"T / HTTP/1.1\r\nhost: x\r\n" if begin else b"T /") + begin + b"y" * 70000 + b"\r\n\r\n")
            told = await asyncio.wait_for(reader.read(), 5)
            assert told.count(b"HTTP/1.1 400") == 1 and told.endswith(b"The head is too large.")
            writer.close()

    asyncio.run(run())


def test_heads_are_measured_one_by_one() -> None:
    """Of a client that sends many requests in pieces that end anywhere."""
    count, request = 9000, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"

    async def quick(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async def run() -> None:
        async with serving(quick) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            data = request * count

            async def write() -> None:
                for begin in range(0, len(data), 30001):
                    writer.write(data[begin : begin + 30001])
                    await writer.drain()
                    await asyncio.sleep(0.01)

            writing = asyncio.create_task(write())
            for _ in range(count):
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
                assert head.startswith(b"HTTP/1.1 204")
            await writing
            writer.close()

    asyncio.run(run())


@pytest.mark.parametrize("line", [b"x-%d: " + b"y" * 1000 + b"\r\n", b"%d" + b"y" * 1000])
def test_a_head_without_end_is_refused_before_it_is_all_there(line: bytes) -> None:
    async def run() -> None:
        async with serving(hello) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD)
            answer = asyncio.ensure_future(reader.read(12))
            sent = 0
            while not answer.done() and sent < 1000:
                writer.write(line % sent)
                sent += 1
                await asyncio.sleep(0.001)
            await asyncio.wait([answer])
            told = b"" if isinstance(answer.exception(), ConnectionError) else answer.result()
            assert sent < 1000 and told in (b"HTTP/1.1 400", b"")
            writer.close()

    asyncio.run(run())


@pytest.mark.parametrize("cut", [0, 12, 60, 126, 130])
@pytest.mark.parametrize("chunked", [False, True])
def test_an_offer_of_another_protocol_is_not_taken(cut: int, chunked: bool) -> None:
    """As Java's client makes it, with every request; curl with --http2. Two requests at once, however they are cut."""

    async def echo(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        told = scope["method"].encode() + b" " + scope["path"].encode() + b" " + body
        assert not {b"upgrade", b"http2-settings"} & {name for name, _ in scope["headers"]}
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(told))]})
        await send({"type": "http.response.body", "body": told})

    async def run() -> None:
        async with serving(echo) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            offer = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n"
            size, body = b"content-length: 5\r\n", b"hello"
            if chunked:
                size, body = b"transfer-encoding: chunked\r\n", b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
            request = b"POST /a%d HTTP/1.1\r\nhost: x\r\n" + offer + size + b"\r\n" + body
            sent = request.replace(b"%d", b"1") + request.replace(b"%d", b"2") + HEAD + b"\r\n"
            writer.write(sent[:cut])
            await asyncio.sleep(0.02 if cut else 0)
            writer.write(sent[cut:])
            for told in (b"POST /a1 hello", b"POST /a2 hello", b"GET / "):
                answer = await asyncio.wait_for(reader.readuntil(told), 5)
                assert answer.startswith(b"HTTP/1.1 200")
            writer.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    "first", [b"GET / HTTP/1.1\r\nconnection: close\r\n\r\nmore", b"CONNECT / HTTP/1.1\r\nhost: x\r\n\r\n"]
)
def test_what_has_nothing_behind_it_is_answered_once(first: bytes) -> None:
    async def run() -> None:
        async with serving(hello) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(first)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(reader.readuntil(b"Hi"), 5)
            with suppress(asyncio.TimeoutError, ConnectionError):
                assert b"HTTP/1.1" not in await asyncio.wait_for(reader.read(999), 1.5)
            writer.close()

    asyncio.run(run())


def test_many_offers_at_once_are_all_answered() -> None:
    async def quick(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"Hi"})

    async def run() -> None:
        async with serving(quick) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n" * 1200)
            for _ in range(1200):
                assert (await asyncio.wait_for(reader.readuntil(b"Hi"), 5)).startswith(b"HTTP/1.1 200")
            writer.close()

    asyncio.run(run())


def test_a_body_behind_an_answer_is_no_head() -> None:
    """It is as large as the client likes, and whoever sends it still reads what it was told."""

    async def run() -> None:
        async with serving(hello) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD + b"content-length: 1000000\r\n\r\n")
            assert (await reader.readuntil(b"Hi")).startswith(b"HTTP/1.1 200")
            writer.write(b"x" * 1000000 + HEAD + b"\r\n")
            assert (await asyncio.wait_for(reader.readuntil(b"Hi"), 5)).startswith(b"HTTP/1.1 200")
            writer.close()

    asyncio.run(run())


def test_a_reader_that_takes_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SEND_SECONDS", 0.3)
    told: list[str] = []

    async def flood(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        gone = asyncio.ensure_future(receive())
        while not gone.done():
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
            await asyncio.sleep(0)
        told.append(gone.result()["type"])

    async def run() -> None:
        async with serving(flood) as port:
            with socket.create_connection(("127.0.0.1", port)) as lazy:
                lazy.sendall(HEAD + b"\r\n")
                for _ in range(500):
                    await asyncio.sleep(0.01)
                    if told:
                        break

    asyncio.run(run())
    assert told == ["http.disconnect"]


def test_a_reader_that_is_slow_gets_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """For as long as it takes some of it all the time, however much the kernel holds for it."""
    monkeypatch.setattr(connection, "SEND_SECONDS", 0.6)
    size = 16 << 20

    async def large(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % size)]})
        await send({"type": "http.response.body", "body": b"x" * size})

    async def run() -> int:
        async with serving(large) as port:
            with socket.socket() as slow:
                slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
                slow.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(slow, ("127.0.0.1", port))
                await loop.sock_sendall(slow, HEAD + b"\r\n")
                read, began = 0, loop.time()
                with suppress(ConnectionError):
                    while data := await loop.sock_recv(slow, 1 << 15 if loop.time() < began + 2 else 1 << 20):
                        read += len(data)
                        await asyncio.sleep(0.02 if loop.time() < began + 2 else 0)
                        if read > size:
                            break
                return read

    assert asyncio.run(run()) > size


@pytest.mark.parametrize("before", [0, 2])
def test_a_request_behind_it_hides_no_reader_that_goes_away(before: int) -> None:
    """One that pipelines: `before` requests are answered, one is being answered, and there are others behind it."""
    told: list[str] = []

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/quick":
            return await hello(scope, receive, send)
        while (await receive())["type"] != "http.disconnect":
            begun.set()
        told.append(scope["path"])
        return None

    async def run() -> None:
        nonlocal begun
        begun = asyncio.Event()
        async with serving(slow) as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /quick HTTP/1.1\r\n\r\n" * before)
            writer.write(b"POST /slow HTTP/1.1\r\ncontent-length: 2\r\n\r\nHi" + (HEAD + b"\r\n") * 2)
            await asyncio.wait_for(begun.wait(), 5)
            writer.write(HEAD + b"\r\n")
            writer.close()
            for _ in range(500):
                if told:
                    break
                await asyncio.sleep(0.01)
            assert told == ["/slow"]

    begun: asyncio.Event
    asyncio.run(run())
