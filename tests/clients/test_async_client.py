"""The asyncio client with a real daemon process, on the null engine."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from paceline.clients import process
from paceline.clients.async_client import AsyncClient
from paceline.clients.errors import DaemonGone, Refused, RequestFailed
from paceline.clients.stream import AsyncStream
from paceline.protocol import CANCELLED, Frame, Message, encode_tagged

from ..procfs import is_running

NULL = ["--engine", "null"]
SLOW = [*NULL, "--fault", "slow:5"]


def with_client(work: Callable[[AsyncClient], Coroutine[Any, Any, None]], args: list[str], **more: Any) -> None:
    async def run() -> None:
        async with asyncio.timeout(30), await AsyncClient.spawn(args, **more) as client:
            await work(client)

    asyncio.run(run())


async def collected(stream: AsyncStream) -> list[int]:
    return [token async for token in stream]


async def is_idle(client: AsyncClient) -> bool:
    """Whether nothing is live once the step that runs now is over."""
    for _ in range(50):
        if not (await client.command("LIST_REQUESTS"))["requests"]:
            return True
        await asyncio.sleep(0.01)
    return False


def test_a_request_from_start_to_end() -> None:
    async def work(client: AsyncClient) -> None:
        assert ((await client.ready)["model"], (await client.ready)["vocab"]) == ("null", 32000)
        stream = await client.start([1, 2, 3], total=16, hash=True)
        tokens = await collected(stream)
        assert stream.end is not None
        assert (len(tokens), stream.end["reason"], len(stream.end["logits_sha256"])) == (16, "length", 64)
        again = await client.start([1, 2, 3], 16, quantum=5, slot=(stream.reply["slot"] + 1) % 4)
        assert await again.turn() == tokens[:5]
        assert (await again.proceed(1))["granted"] == 1
        assert await again.turn() == tokens[5:6]
        await again.proceed(99)
        assert await collected(again) == tokens[6:]
        assert (await again.some(), await again.turn(), await again.cancel()) == ([], [], False)
        assert await client.close() == 0

    with_client(work, NULL)


def test_log_probabilities_come_with_their_token() -> None:
    async def work(client: AsyncClient) -> None:
        stream = await client.start([1, 2, 3], total=8, logprobs=2)
        tokens = [token async for token in stream.tokens()]
        assert len(tokens) == 8
        for token in tokens:
            assert token.logprobs is not None
            assert token.logprobs["token"] == token.id == token.logprobs["top"][0][0]

    with_client(work, NULL)


def test_sixteen_at_once_are_those_alone() -> None:
    async def work(client: AsyncClient) -> None:
        alone = [await collected(await client.start([n, 7], total=40)) for n in range(16)]
        streams = [await client.start([n, 7], total=40) for n in range(16)]
        assert await asyncio.gather(*map(collected, streams)) == alone

    with_client(work, NULL)


def test_leaving_an_iteration_cancels_just_that_request() -> None:
    async def work(client: AsyncClient) -> None:
        other = await client.start([9], total=30)
        async for _ in await client.start([1], total=4000):
            break
        async with await client.start([2], total=4000) as stream:
            assert await stream.some()
        assert stream.end is not None and stream.end["reason"] == "cancelled"
        assert len(await collected(other)) == 30
        assert await is_idle(client)

    with_client(work, SLOW)


def test_cancelling_the_task_cancels_its_request_in_every_state() -> None:
    async def work(client: AsyncClient) -> None:
        streams = [await client.start([n], total=2000) for n in range(8)]  # four of them are queued
        tasks = [asyncio.create_task(collected(stream)) for stream in streams]
        tasks.append(asyncio.create_task(collected(await client.start([1], total=9, quantum=2))))
        await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in done)
        assert await is_idle(client)
        starting = asyncio.create_task(client.start([1], total=2000))
        await asyncio.sleep(0)  # its line is written, its reply has not come
        starting.cancel()
        assert await is_idle(client)

    with_client(work, SLOW)


def test_cancelling_a_start_that_is_refused_harms_nobody() -> None:
    async def work(client: AsyncClient) -> None:
        live = await client.start([1], total=20, req_id=5)
        again = asyncio.create_task(client.start([2], total=20, req_id=5))
        await asyncio.sleep(0)  # its line is written, its reply has not come
        again.cancel()
        assert len(await collected(live)) == 20
        assert live.end is not None and live.end["reason"] == "length"

    with_client(work, SLOW)


def test_a_killed_daemon_fails_sixteen_waiters_at_once() -> None:
    async def work(client: AsyncClient) -> None:
        streams = [await client.start([n], total=8, quantum=1) for n in range(4)]
        waiting: list[Any] = [collected(stream) for stream in streams]
        waiting += [collected(await client.start([n], total=8)) for n in range(10)]  # behind four parked ones
        tasks = [asyncio.create_task(one) for one in (*waiting, anext(client.events()))]
        tasks.append(asyncio.create_task(client.command("PING " + "x" * 3_000_000)))  # too long: it sits in the pipe
        assert client.process
        os.kill(client.process.pid, signal.SIGSTOP)
        await asyncio.sleep(0.1)
        os.kill(client.process.pid, signal.SIGKILL)
        async with asyncio.timeout(5):
            done = await asyncio.gather(*tasks, return_exceptions=True)
        assert {str(one) for one in done} == {"its frame stream has ended; the daemon ended with exit code -9"}
        assert len(done) == 16
        for late in (client.command("PING"), client.start([1], 1)):
            with pytest.raises(DaemonGone):
                await late

    with_client(work, NULL)


def test_refusals_and_failures_are_errors() -> None:
    async def work(client: AsyncClient) -> None:
        with pytest.raises(Refused, match="context_overflow"):
            await client.start([1] * 60, total=10)
        with pytest.raises(Refused, match="no_such_slot"):
            await client.start([1], total=10, slot=9, req_id=5)
        with pytest.raises(TypeError, match="warmth"):
            await client.start([1], 1, warmth=2)
        with pytest.raises(ValueError, match="would get no reply of its own"):
            await client.command("# note")
        good = await client.start([1], total=10, quantum=1, slot=0, req_id=5)  # it parks, and so is live below
        bad = await client.start([1], total=10, slot=1)
        with pytest.raises(Refused, match="duplicate_request: request 5"):
            await client.start([1], total=10, req_id=5)
        await good.proceed(9)
        with pytest.raises(RequestFailed):
            await collected(bad)
        assert len(await collected(good)) == 10

    with_client(work, [*NULL, "--fault", "row:1@1", "--max-ctx", "64"])


def test_a_request_started_by_a_line_keeps_its_id() -> None:
    async def work(client: AsyncClient) -> None:
        started, stream = await asyncio.gather(client.command("REQ 1 START ids:1 50 1"), client.start([1], total=8))
        assert (started["ok"], stream.req_id, len(await collected(stream))) == (True, 2, 8)
        await client.commands("CANCEL 1", "REQ 1 START ids:1 8", "WAIT", "REQ 1 START ids:1 50 1")
        client._desk._last_id = 0  # as after a thousand million requests
        again = await client.start([1], total=8)
        assert (again.req_id, len(await collected(again))) == (2, 8)

    with_client(work, NULL)


def test_the_last_words_of_a_daemon_are_told() -> None:
    lines: list[str] = []

    async def work(client: AsyncClient) -> None:
        with pytest.raises(DaemonGone, match=r"exit code 66\n.*/nowhere/model\.gguf"):
            await client.ready
        assert await client.close() == 66
        assert any("/nowhere/model.gguf" in line for line in lines)

    with_client(work, ["/nowhere/model.gguf"], log=lines.append)


def test_close_does_not_wait_for_ever() -> None:
    async def work(client: AsyncClient) -> None:
        stream = await client.start([1], total=4000)
        assert await client.close(timeout=0.2) == 0
        assert len(await collected(stream)) < 1000
        assert stream.end is not None and stream.end["reason"] == "cancelled"

    with_client(work, SLOW)


def test_attached_to_a_pair_of_streams() -> None:
    seen: list[object] = []

    async def run() -> None:
        ours, theirs = socket.socketpair()
        peer_reads, peer_writes = await asyncio.open_connection(sock=theirs)
        frames, commands = await asyncio.open_connection(sock=ours)
        client = AsyncClient(commands, frames, watch=seen.append)
        starting = asyncio.create_task(client.start([1], 8, req_id=3))
        assert await peer_reads.readline() == b"REQ 3 START ids:1 8\n"
        peer_writes.write(encode_tagged([Message(3, {"re": 1, "ok": True}), Frame(3, 7), Frame(3, 8)]))
        stream = await starting
        assert [token.id for token in await stream.some()] == [7, 8]
        closing = asyncio.create_task(stream.aclose())
        assert await peer_reads.readline() == b"CANCEL 3\n"
        end = Message(3, {"event": "end", "req": 3, "reason": "cancelled"})
        peer_writes.write(encode_tagged([Message(0, {"re": 2, "ok": True}), end, Frame(3, CANCELLED)]))
        await closing
        assert stream.end == end.body
        waiting = asyncio.create_task(client.command("PING"))
        assert await peer_reads.readline() == b"PING\n"
        peer_writes.write(b"no frames at all")
        with pytest.raises(DaemonGone, match="its frame stream is broken: offset"):
            await waiting
        peer_writes.close()
        assert await client.close(1.0) is None
        assert len(seen) == 7 and isinstance(seen[-1], DaemonGone)

    asyncio.run(asyncio.wait_for(run(), 20))


def test_lines_that_are_sent_together_are_one_write() -> None:
    """A pipe keeps it together, so no step runs between them."""

    async def work(client: AsyncClient) -> None:
        await client.ready
        stream = await client.start([1], total=3000)
        for _ in range(20):
            slots, requests = await client.commands("LIST_TARGET_CACHE_SLOTS", "LIST_REQUESTS")
            position = requests["requests"][0]["position"]
            assert [slot["position"] for slot in slots["slots"] if slot["owner"]] == [position]
        with pytest.raises(Refused):
            await client.commands("PING", "FOO", "PING")
        assert (await client.commands("PING x"))[0]["ok"]
        await stream.cancel()

    with_client(work, SLOW)


@pytest.mark.parametrize("live", [False, True])
def test_a_client_that_nobody_closes_does_not_hold_up_the_end_of_its_loop(
    live: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "PATIENCE", 60.0)
    told: list[object] = []

    async def run() -> int:
        client = await AsyncClient.spawn(SLOW, watch=told.append)
        await client.ready
        if live:
            await (await client.start([1], 4000)).some()  # 20 seconds
        assert client.process
        return client.process.pid

    begun = time.monotonic()
    pid = asyncio.run(run())
    assert time.monotonic() - begun < 15 and not is_running(pid)
    assert str(told[-1]) == "the client was closed; the daemon ended with exit code 0"
