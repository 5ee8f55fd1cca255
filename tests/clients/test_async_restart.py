"""Clients that start their daemon again, and ends of them: no daemon is left behind."""

import asyncio
import os
import signal
from contextlib import suppress

import pytest
from paceline.clients.async_client import AsyncClient
from paceline.clients.errors import DaemonGone

from ..procfs import children
from .test_async_client import NULL, collected, with_client


def test_restart_is_the_next_start() -> None:
    async def work(client: AsyncClient) -> None:
        live = await client.start([1], total=8, quantum=1)
        assert len(await live.turn()) == 1
        assert client.process
        os.kill(client.process.pid, signal.SIGKILL)
        with pytest.raises(DaemonGone):
            await live.turn()
        with pytest.raises(DaemonGone):
            await client.command("PING")
        streams = await asyncio.gather(*(client.start([n], total=8) for n in range(4)))
        assert {len(tokens) for tokens in await asyncio.gather(*map(collected, streams))} == {8}
        assert (await client.ready)["model"] == "null"
        assert await live.cancel() is False

    with_client(work, NULL, restart=True)


class Daemons:
    """Those that this process starts from now on."""

    def __init__(self) -> None:
        self._before = children(os.getpid())

    async def until_they_are(self, *pids: int) -> None:
        async with asyncio.timeout(10):
            while children(os.getpid()) - self._before != set(pids):
                await asyncio.sleep(0.01)


async def killed(client: AsyncClient) -> None:
    assert client.process
    os.kill(client.process.pid, signal.SIGKILL)
    with suppress(DaemonGone):
        await client.command("PING")
    while not client._desk.gone:
        await asyncio.sleep(0.01)


def test_no_daemon_that_is_being_restarted_survives_close() -> None:
    async def work(client: AsyncClient) -> None:
        await killed(client)
        starts = [asyncio.create_task(client.start([1], total=8)) for _ in range(3)]
        await asyncio.sleep(0)
        assert await client.close() == -signal.SIGKILL
        ended = await asyncio.gather(*starts, client.start([1], total=8), client.generate([1]), return_exceptions=True)
        assert [repr(one) for one in ended] == ["DaemonGone('the client was closed')"] * 5
        await daemons.until_they_are()

    daemons = Daemons()
    with_client(work, NULL, restart=True)


def test_a_start_that_is_cancelled_at_any_moment_leaves_no_daemon() -> None:
    async def work(client: AsyncClient) -> None:
        for turns in range(20):
            await killed(client)
            start = asyncio.create_task(client.start([1], total=8))
            for _ in range(turns // 2):
                await asyncio.sleep(0)
            if turns % 2:
                await asyncio.sleep(0.004 * turns)
            start.cancel()
            await asyncio.wait([start])
            await client.start([1], total=1)
            assert client.process
            await daemons.until_they_are(client.process.pid)
        await client.close()
        await daemons.until_they_are()

    daemons = Daemons()
    with_client(work, NULL, restart=True)


def test_a_close_that_is_cancelled_leaves_no_daemon() -> None:
    async def work(client: AsyncClient) -> None:
        await client.ready
        assert client.process
        os.kill(client.process.pid, signal.SIGSTOP)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.close(), 0.2)
        await daemons.until_they_are()

    daemons = Daemons()
    with_client(work, NULL)
